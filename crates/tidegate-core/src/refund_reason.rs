//! Reasons for a refund.

use crate::OrderState;
use crate::codes::codes;

codes! {
    /// Stored with the refund and sent with the event `refund.due`.
    RefundReason {
        WrongAmount "wrong_amount"
        AlreadyPaid "already_paid"
        OrderCancelled "order_cancelled"
        OrderExpired "order_expired"
        OrderRefunded "order_refunded"
        OrderRejected "order_rejected"
        RefundedByOperator "refunded_by_operator"
    }
}

impl RefundReason {
    /// The reason for refunding a payment that arrived when its order was in this state and could not be paid any more.
    pub const fn of_late_payment(state: OrderState) -> Self {
        match state {
            OrderState::Paid => Self::AlreadyPaid,
            OrderState::Cancelled => Self::OrderCancelled,
            OrderState::Refunded => Self::OrderRefunded,
            OrderState::Rejected => Self::OrderRejected,
            OrderState::Expired | OrderState::AwaitingPayment | OrderState::Queued => Self::OrderExpired,
        }
    }
}
