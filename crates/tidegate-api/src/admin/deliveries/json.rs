//! A delivery as JSON.

use serde::Serialize;
use serde_json::Value;
use tidegate_app::App;
use tidegate_app::ledger_types::{Delivery, Target};
use tidegate_core::Role;
use utoipa::ToSchema;

/// A prize for its winner, or an event for a webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryShape {
    id: String,
    /// `text`, `code`, `coupon`, `goods` or `webhook`.
    kind: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    draw_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    play_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_id: Option<String>,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Time of the next attempt, in the states `new` and `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
    /// Shipping address; absent for viewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Value>,
    created_at: String,
    updated_at: String,
}

impl DeliveryShape {
    pub(crate) fn of(app: &App, delivery: Delivery, role: Role) -> Self {
        use tidegate_core::DeliveryState::{Failed, New};
        let webhook = match delivery.target {
            Target::Webhook(id) => Some(id),
            Target::Internal | Target::Merchant => None,
        };
        Self {
            id: app.print(delivery.id),
            kind: delivery.kind,
            state: delivery.state.as_str(),
            waits_for: delivery.waits_for.map(tidegate_core::WaitsFor::as_str),
            draw_id: delivery.campaign.map(|campaign| app.print(campaign.as_draw())),
            play_id: delivery.play.map(|play| app.print(play)),
            webhook_id: webhook.map(|webhook| app.print(webhook)),
            event_id: delivery.event.map(|event| event.to_string()),
            tries: delivery.tries,
            last_error: delivery.error,
            next_try_at: matches!(delivery.state, New | Failed).then(|| delivery.due_at.to_string()),
            address: delivery
                .address
                .filter(|_| role.covers(Role::Operator))
                .and_then(|text| serde_json::from_str(&text).ok()),
            created_at: delivery.created_at.to_string(),
            updated_at: delivery.updated_at.to_string(),
        }
    }
}
