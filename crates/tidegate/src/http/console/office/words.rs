//! States in words and colour.

use tidegate_core::{DeliveryState, OrderState, Role, WaitsFor};

use super::Choice;
use crate::http::console::Desk;
use crate::http::pages::phrases::Phrase;
use crate::http::pages::phrases::office::Office;

/// A word with its colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) word: Phrase,
    pub(super) tone: &'static str,
}

pub(super) const fn word(word: Phrase, tone: &'static str) -> Word {
    Word { word, tone }
}

pub(super) fn order_state(o: &Office, state: OrderState) -> Word {
    match state {
        OrderState::Queued => word(o.order_queued, "accent"),
        OrderState::AwaitingPayment => word(o.order_awaiting, "warn"),
        OrderState::Paid => word(o.order_paid, "good"),
        OrderState::Cancelled => word(o.order_cancelled, "plain"),
        OrderState::Expired => word(o.order_expired, "plain"),
        OrderState::Refunded => word(o.order_refunded, "plain"),
        OrderState::Rejected => word(o.order_rejected, "bad"),
    }
}

pub(super) fn delivery_state(o: &Office, state: DeliveryState) -> Word {
    match state {
        DeliveryState::Waiting => word(o.delivery_waiting, "plain"),
        DeliveryState::New => word(o.delivery_new, "accent"),
        DeliveryState::Failed => word(o.delivery_failed, "warn"),
        DeliveryState::Delivered => word(o.delivery_delivered, "good"),
        DeliveryState::Dead => word(o.delivery_dead, "bad"),
    }
}

pub(super) fn waits_for(o: &Office, what: WaitsFor) -> Phrase {
    match what {
        WaitsFor::Close => o.waits_close,
        WaitsFor::Operator => o.waits_operator,
        WaitsFor::Address => o.waits_address,
    }
}

pub(super) fn role_word(desk: &Desk, role: Role) -> Phrase {
    match role {
        Role::Viewer => desk.c.role_viewer,
        Role::Operator => desk.c.role_operator,
        Role::Admin => desk.c.role_admin,
    }
}

/// The roles to choose from.
pub(super) fn roles(desk: &Desk, chosen: Role) -> Vec<Choice> {
    let choice = |role: &Role| Choice {
        value: role.as_str().to_owned(),
        label: role_word(desk, *role).to_string(),
        chosen: *role == chosen,
    };
    Role::ALL.iter().map(choice).collect()
}
