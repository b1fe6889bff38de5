//! JSON representation of an event, for the API and for the console's log.

use serde::{Serialize, Serializer};
use tidegate_app::App;
use tidegate_app::ledger_types::Event;
use tidegate_core::{EventKind, EventNoun, Stored};
use utoipa::ToSchema;

/// An event.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventShape {
    pub id: String,
    pub at: String,
    /// Who caused it: `operator:NAME`, `operator:key:NAME` for an API key, `operator` for the admin key, `buyer:ID` or
    /// `clock`.
    pub actor: String,
    #[schema(example = "order.paid")]
    #[schema(value_type = String)]
    #[serde(serialize_with = "as_text")]
    pub kind: Stored<EventKind>,
    /// Id of the affected resource: an order, a play, a sale, a draw, an item, a buyer, an operator, … Empty for the
    /// admin key, which has no id.
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sale_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

fn as_text<S: Serializer>(kind: &Stored<EventKind>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

impl EventShape {
    pub fn of(app: &App, event: Event) -> Self {
        let subject = app.context.subject_of(&event);
        let actor = match event.actor.strip_prefix("buyer:").and_then(|raw| raw.parse().ok()) {
            Some(raw) => format!("buyer:{}", app.print(tidegate_core::UserId::from_raw(raw))),
            None => event.actor,
        };
        let noun = event.kind.noun();
        let of_draw = noun.is_some_and(|noun| {
            matches!(noun, EventNoun::Draw | EventNoun::Play | EventNoun::Prize | EventNoun::Delivery)
        });
        Self {
            id: event.id.to_string(),
            at: event.at.to_string(),
            actor,
            kind: event.kind,
            subject,
            sale_id: event.campaign.filter(|_| !of_draw).map(|campaign| app.print(campaign)),
            draw_id: event.campaign.filter(|_| of_draw).map(|campaign| app.print(campaign.as_draw())),
            detail: event.detail,
        }
    }
}
