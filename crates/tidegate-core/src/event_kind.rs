//! Kinds of events: a noun and a verb, such as `order.paid`.
//!
//! Invariants: a kind's text is its noun, a dot and its verb; kinds of the same noun stand next to each other, the
//! public ones first.

use crate::Kind;
use crate::codes::{Stored, codes};

codes! {
    /// The object of an event.
    EventNoun {
        Order "order"
        Refund "refund"
        Sale "sale"
        Draw "draw"
        Play "play"
        Prize "prize"
        Item "item"
        Delivery "delivery"
        Webhook "webhook"
        Operator "operator"
        ApiKey "api_key"
        Buyers "buyers"
    }
}

codes! {
    /// The change that an event reports.
    EventVerb {
        Created "created"
        Paid "paid"
        Cancelled "cancelled"
        Expired "expired"
        Refunded "refunded"
        Rejected "rejected"
        Due "due"
        Done "done"
        Edited "edited"
        Submitted "submitted"
        Approved "approved"
        Refused "refused"
        Published "published"
        Opened "opened"
        Paused "paused"
        Resumed "resumed"
        Restocked "restocked"
        AdmissionChanged "admission_changed"
        Closed "closed"
        Reopened "reopened"
        Addressed "addressed"
        Ship "ship"
        Delivered "delivered"
        Undeliverable "undeliverable"
        Updated "updated"
        Retried "retried"
        Granted "granted"
        Deleted "deleted"
        Rotated "rotated"
        Enabled "enabled"
        Disabled "disabled"
        Replayed "replayed"
        Changed "changed"
        SignedIn "signed_in"
        SignedOut "signed_out"
        SignInRefused "sign_in_refused"
        CodeRefused "code_refused"
        Revoked "revoked"
        Registered "registered"
    }
}

macro_rules! kinds {
    ($($variant:ident $noun:ident $verb:ident $text:literal)*) => {
        codes! {
            /// The type of an event.
            EventKind { $($variant $text)* }
        }

        impl EventKind {
            pub const fn noun(self) -> EventNoun {
                match self { $(Self::$variant => EventNoun::$noun,)* }
            }

            pub const fn verb(self) -> EventVerb {
                match self { $(Self::$variant => EventVerb::$verb,)* }
            }
        }
    };
}

kinds! {
    OrderCreated Order Created "order.created"
    OrderPaid Order Paid "order.paid"
    OrderCancelled Order Cancelled "order.cancelled"
    OrderExpired Order Expired "order.expired"
    OrderRefunded Order Refunded "order.refunded"
    OrderRejected Order Rejected "order.rejected"
    RefundDue Refund Due "refund.due"
    RefundDone Refund Done "refund.done"
    SaleCreated Sale Created "sale.created"
    SaleEdited Sale Edited "sale.edited"
    SaleSubmitted Sale Submitted "sale.submitted"
    SaleApproved Sale Approved "sale.approved"
    SaleRefused Sale Refused "sale.refused"
    SalePublished Sale Published "sale.published"
    SaleOpened Sale Opened "sale.opened"
    SalePaused Sale Paused "sale.paused"
    SaleResumed Sale Resumed "sale.resumed"
    SaleRestocked Sale Restocked "sale.restocked"
    SaleAdmissionChanged Sale AdmissionChanged "sale.admission_changed"
    SaleClosed Sale Closed "sale.closed"
    SaleReopened Sale Reopened "sale.reopened"
    DrawCreated Draw Created "draw.created"
    DrawEdited Draw Edited "draw.edited"
    DrawSubmitted Draw Submitted "draw.submitted"
    DrawApproved Draw Approved "draw.approved"
    DrawRefused Draw Refused "draw.refused"
    DrawPublished Draw Published "draw.published"
    DrawOpened Draw Opened "draw.opened"
    DrawPaused Draw Paused "draw.paused"
    DrawResumed Draw Resumed "draw.resumed"
    DrawAdmissionChanged Draw AdmissionChanged "draw.admission_changed"
    DrawClosed Draw Closed "draw.closed"
    PlayCreated Play Created "play.created"
    PlayRejected Play Rejected "play.rejected"
    PrizeAddressed Prize Addressed "prize.addressed"
    PrizeShip Prize Ship "prize.ship"
    PrizeDelivered Prize Delivered "prize.delivered"
    PrizeUndeliverable Prize Undeliverable "prize.undeliverable"
    ItemCreated Item Created "item.created"
    ItemUpdated Item Updated "item.updated"
    DeliveryRetried Delivery Retried "delivery.retried"
    DeliveryGranted Delivery Granted "delivery.granted"
    WebhookCreated Webhook Created "webhook.created"
    WebhookDeleted Webhook Deleted "webhook.deleted"
    WebhookRotated Webhook Rotated "webhook.rotated"
    WebhookEnabled Webhook Enabled "webhook.enabled"
    WebhookDisabled Webhook Disabled "webhook.disabled"
    WebhookReplayed Webhook Replayed "webhook.replayed"
    OperatorCreated Operator Created "operator.created"
    OperatorChanged Operator Changed "operator.changed"
    OperatorSignedIn Operator SignedIn "operator.signed_in"
    OperatorSignedOut Operator SignedOut "operator.signed_out"
    OperatorSignInRefused Operator SignInRefused "operator.sign_in_refused"
    OperatorCodeRefused Operator CodeRefused "operator.code_refused"
    ApiKeyCreated ApiKey Created "api_key.created"
    ApiKeyRevoked ApiKey Revoked "api_key.revoked"
    BuyersCreated Buyers Created "buyers.created"
    BuyersRegistered Buyers Registered "buyers.registered"
}

impl EventNoun {
    /// Whether webhooks receive its events. The others concern operators only; sending events about webhooks to
    /// webhooks would never end.
    pub const fn is_public(self) -> bool {
        match self {
            Self::Order | Self::Refund | Self::Sale | Self::Draw | Self::Play | Self::Prize | Self::Item => {
                true
            }
            Self::Delivery | Self::Webhook | Self::Operator | Self::ApiKey | Self::Buyers => false,
        }
    }
}

impl From<&Kind> for EventNoun {
    fn from(campaign: &Kind) -> Self {
        match campaign {
            Kind::Sale(_) => Self::Sale,
            Kind::Draw(_) => Self::Draw,
        }
    }
}

impl EventKind {
    /// The kinds that a webhook can subscribe to.
    pub fn public() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kind| kind.noun().is_public())
    }

    /// The kind of a noun and a verb; `None` if no such event exists.
    pub fn of(noun: EventNoun, verb: EventVerb) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| (kind.noun(), kind.verb()) == (noun, verb))
    }
}

impl Stored<EventKind> {
    /// The noun of a kind, also of an unknown kind of a known noun.
    pub fn noun(&self) -> Option<EventNoun> {
        match self {
            Self::Known(kind) => Some(kind.noun()),
            Self::Unknown(text) => EventNoun::parse(text.split_once('.')?.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_noun_and_a_verb() {
        for &kind in EventKind::ALL {
            assert_eq!(kind.as_str(), format!("{}.{}", kind.noun(), kind.verb()));
            assert_eq!(EventKind::parse(kind.as_str()), Some(kind));
            assert_eq!(EventKind::of(kind.noun(), kind.verb()), Some(kind));
        }
        assert_eq!(EventKind::of(EventNoun::Draw, EventVerb::Reopened), None);
        assert_eq!(EventKind::parse("order.eaten"), None);
    }

    #[test]
    fn an_unknown_kind_may_have_a_known_noun() {
        let noun = |text: &str| Stored::<EventKind>::read(text.into()).noun();
        assert_eq!(noun("order.paid"), Some(EventNoun::Order));
        assert_eq!(noun("order.eaten"), Some(EventNoun::Order));
        assert_eq!(noun("meal.eaten"), None);
        assert_eq!(noun("order"), None);
    }
}
