//! A webhook as JSON.

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::ledger_types::Webhook;
use utoipa::ToSchema;

/// A URL to which events are sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookShape {
    id: String,
    url: String,
    events: Vec<String>,
    /// `enabled` or `disabled`.
    state: &'static str,
    /// Why it is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Signing secret. Present only in the responses that create or rotate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// Until this time, messages are also signed with the previous secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_secret_until: Option<String>,
    created_at: String,
    updated_at: String,
}

impl WebhookShape {
    pub(crate) fn of(app: &App, webhook: Webhook) -> Self {
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

    pub(crate) fn with_secret(app: &App, webhook: Webhook) -> Self {
        let secret = tidegate_app::signature::print_secret(&webhook.secret);
        Self { secret: Some(secret), ..Self::of(app, webhook) }
    }
}
