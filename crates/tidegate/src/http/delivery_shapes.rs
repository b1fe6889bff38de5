//! The shapes of deliveries and webhooks, for operators.

use serde::Serialize;
use serde_json::Value;
use tidegate_core::Role;
use tidegate_store::ledger::sql::Webhook;
use tidegate_store::ledger::{Delivery, Target};
use utoipa::ToSchema;

use crate::ops::App;

/// Something that has to reach somebody.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeliveryShape {
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
    /// While it is new or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<String>,
    /// Not for viewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Value>,
    created_at: String,
    updated_at: String,
}

impl DeliveryShape {
    pub(super) fn of(app: &App, delivery: Delivery, role: Role) -> Self {
        use tidegate_core::DeliveryState::{Failed, New};
        let webhook = match delivery.target {
            Target::Webhook(id) => Some(id),
            Target::Here | Target::Merchant => None,
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

/// Where events are sent.
#[derive(Serialize, ToSchema)]
pub(super) struct WebhookShape {
    id: String,
    url: String,
    events: Vec<String>,
    /// `enabled` or `disabled`.
    state: &'static str,
    /// Why it is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Shown when it is made and when it is rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Until then messages are signed with the secret before it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_secret_until: Option<String>,
    created_at: String,
    updated_at: String,
}

impl WebhookShape {
    pub(super) fn of(app: &App, webhook: Webhook) -> Self {
        Self {
            id: app.print(webhook.id),
            url: webhook.url,
            events: webhook.events,
            state: if webhook.disabled.is_some() { "disabled" } else { "enabled" },
            reason: webhook.disabled,
            secret: None,
            old_secret_until: webhook
                .old_secret
                .map(|(_, until)| until)
                .filter(|until| app.now() < *until)
                .map(|until| until.to_string()),
            created_at: webhook.created_at.to_string(),
            updated_at: webhook.updated_at.to_string(),
        }
    }

    pub(super) fn with_secret(app: &App, webhook: Webhook) -> Self {
        let secret = crate::signature::print_secret(&webhook.secret);
        Self { secret: Some(secret), ..Self::of(app, webhook) }
    }
}
