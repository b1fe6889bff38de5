//! The stable codes of problems. Clients branch on them, and metrics count refusals by them.
//!
//! Invariant: every rejection is a problem with the same code.

use crate::codes::codes;
use crate::{OrderState, RefundReason, Rejection};

codes! {
    /// Why a request was not carried out.
    ProblemCode {
        // Rejections, in the order in which they are checked.
        NotFound "not_found"
        NotStarted "not_started"
        Ended "ended"
        Paused "paused"
        SoldOut "sold_out"
        RateLimited "rate_limited"
        Unauthenticated "unauthenticated"
        PassRequired "pass_required"
        PassInvalid "pass_invalid"
        LimitReached "limit_reached"
        Busy "busy"
        NotReady "not_ready"
        ClaimLost "claim_lost"
        // Requests that cannot be read.
        MethodNotAllowed "method_not_allowed"
        UnsupportedMediaType "unsupported_media_type"
        BodyTooLarge "body_too_large"
        BodyTimeout "body_timeout"
        MalformedBody "malformed_body"
        MalformedJson "malformed_json"
        ValidationFailed "validation_failed"
        /// The quantity of a page's order form.
        Quantity "quantity"
        IdempotencyKeyReused "idempotency_key_reused"
        IdempotencyInFlight "idempotency_in_flight"
        // Authentication and authorization.
        LoginFailed "login_failed"
        CodeRequired "code_required"
        CodeInvalid "code_invalid"
        RoleRequired "role_required"
        Forbidden "forbidden"
        Csrf "csrf"
        // Challenges and waiting rooms.
        ChallengeRequired "challenge_required"
        ChallengeInvalid "challenge_invalid"
        ChallengeExpired "challenge_expired"
        ChallengeFailed "challenge_failed"
        ChallengeUsed "challenge_used"
        QueueRequired "queue_required"
        PlaceExpired "place_expired"
        NoChallenge "no_challenge"
        NoQueue "no_queue"
        NoPass "no_pass"
        // Orders and payments.
        OrderQueued "order_queued"
        OrderAwaitingPayment "order_awaiting_payment"
        OrderPaid "order_paid"
        OrderCancelled "order_cancelled"
        OrderExpired "order_expired"
        OrderRefunded "order_refunded"
        OrderRejected "order_rejected"
        WrongAmount "wrong_amount"
        AlreadyPaid "already_paid"
        // Prizes.
        NoGoods "no_goods"
        AlreadyShipped "already_shipped"
        // Changes by operators.
        WrongState "wrong_state"
        ApprovalRequired "approval_required"
        NoFreeUnits "no_free_units"
        StockChanged "stock_changed"
        NameTaken "name_taken"
        PhoneTaken "phone_taken"
        TooMany "too_many"
        Disabled "disabled"
        // Server errors.
        OutcomeUnknown "outcome_unknown"
        Internal "internal"
    }
}

impl ProblemCode {
    /// The rejection with this code, if it is one.
    pub fn rejection(self) -> Option<Rejection> {
        Rejection::ALL.get(self as usize).copied()
    }
}

impl From<Rejection> for ProblemCode {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NotFound => Self::NotFound,
            Rejection::NotStarted => Self::NotStarted,
            Rejection::Ended => Self::Ended,
            Rejection::Paused => Self::Paused,
            Rejection::SoldOut => Self::SoldOut,
            Rejection::RateLimited => Self::RateLimited,
            Rejection::Unauthenticated => Self::Unauthenticated,
            Rejection::PassRequired => Self::PassRequired,
            Rejection::PassInvalid => Self::PassInvalid,
            Rejection::LimitReached => Self::LimitReached,
            Rejection::Busy => Self::Busy,
            Rejection::NotReady => Self::NotReady,
            Rejection::ClaimLost => Self::ClaimLost,
        }
    }
}

/// The code of an order that is in the wrong state for a request.
impl From<OrderState> for ProblemCode {
    fn from(state: OrderState) -> Self {
        match state {
            OrderState::Queued => Self::OrderQueued,
            OrderState::AwaitingPayment => Self::OrderAwaitingPayment,
            OrderState::Paid => Self::OrderPaid,
            OrderState::Cancelled => Self::OrderCancelled,
            OrderState::Expired => Self::OrderExpired,
            OrderState::Refunded => Self::OrderRefunded,
            OrderState::Rejected => Self::OrderRejected,
        }
    }
}

/// The code that a payment is refused with.
impl From<RefundReason> for ProblemCode {
    fn from(reason: RefundReason) -> Self {
        match reason {
            RefundReason::WrongAmount => Self::WrongAmount,
            RefundReason::AlreadyPaid => Self::AlreadyPaid,
            RefundReason::OrderCancelled => Self::OrderCancelled,
            RefundReason::OrderExpired => Self::OrderExpired,
            RefundReason::OrderRefunded | RefundReason::RefundedByOperator => Self::OrderRefunded,
            RefundReason::OrderRejected => Self::OrderRejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_nothing_else_does() {
        for &code in ProblemCode::ALL {
            assert_eq!(ProblemCode::parse(code.as_str()), Some(code));
        }
        for unknown in ["", "Busy", "busy ", "other"] {
            assert_eq!(ProblemCode::parse(unknown), None);
        }
    }

    #[test]
    fn every_rejection_is_a_problem_with_the_same_code() {
        for &rejection in Rejection::ALL {
            let code = ProblemCode::from(rejection);
            assert_eq!((code.as_str(), code.rejection()), (rejection.code(), Some(rejection)));
        }
        let others = ProblemCode::ALL.iter().filter(|code| code.rejection().is_none()).count();
        assert_eq!(others, ProblemCode::ALL.len() - Rejection::ALL.len());
    }
}
