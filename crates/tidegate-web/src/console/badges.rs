//! States of orders and deliveries as badges, and roles as labels.

use tidegate_core::{DeliveryState, OrderState, Role, WaitsFor};

use super::listing::SelectOption;
use crate::badge::Badge;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::console::ConsolePhrases;
use crate::i18n::phrases::deliveries::DeliveryPhrases;
use crate::i18n::phrases::orders::OrderPhrases;

pub(super) fn order_badge(t: &OrderPhrases, state: OrderState) -> Badge {
    match state {
        OrderState::Queued => Badge::accent(t.order_queued),
        OrderState::AwaitingPayment => Badge::warn(t.order_awaiting),
        OrderState::Paid => Badge::good(t.order_paid),
        OrderState::Cancelled => Badge::plain(t.order_cancelled),
        OrderState::Expired => Badge::plain(t.order_expired),
        OrderState::Refunded => Badge::plain(t.order_refunded),
        OrderState::Rejected => Badge::bad(t.order_rejected),
    }
}

pub(super) fn delivery_badge(t: &DeliveryPhrases, state: DeliveryState) -> Badge {
    match state {
        DeliveryState::Waiting => Badge::plain(t.delivery_waiting),
        DeliveryState::New => Badge::accent(t.delivery_new),
        DeliveryState::Failed => Badge::warn(t.delivery_failed),
        DeliveryState::Delivered => Badge::good(t.delivery_delivered),
        DeliveryState::Dead => Badge::bad(t.delivery_dead),
    }
}

pub(super) fn waits_for_label(t: &DeliveryPhrases, waits_for: WaitsFor) -> Phrase {
    match waits_for {
        WaitsFor::Close => t.waits_close,
        WaitsFor::Operator => t.waits_operator,
        WaitsFor::Address => t.waits_address,
    }
}

pub(super) fn role_label(t: &ConsolePhrases, role: Role) -> Phrase {
    match role {
        Role::Viewer => t.role_viewer,
        Role::Operator => t.role_operator,
        Role::Admin => t.role_admin,
    }
}

pub(super) fn role_options(t: &ConsolePhrases, selected: Role) -> Vec<SelectOption> {
    let option = |role: &Role| SelectOption {
        value: role.as_str().to_owned(),
        label: role_label(t, *role).to_string(),
        selected: *role == selected,
    };
    Role::ALL.iter().map(option).collect()
}
