//! Validation of operators' input for webhooks.

use serde::Deserialize;
use tidegate_app::App;
use tidegate_core::EventKind;
use tidegate_core::limits::MAX_URL;
use utoipa::ToSchema;

use super::Checks;
use crate::problem::Problem;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookInput {
    /// Must resolve to a public address, unless the configuration allows its network.
    #[schema(example = "https://shop.example/hooks/tidegate")]
    pub url: String,
    /// Event kinds to send: single ones, all of a noun (`order.*`), or all (`*`).
    #[schema(example = json!(["order.*", "prize.ship"]))]
    pub events: Vec<String>,
}

fn public_kinds() -> String {
    EventKind::public().map(EventKind::as_str).collect::<Vec<_>>().join(", ")
}

impl WebhookInput {
    pub fn check(&self, app: &App) -> Result<(), Problem> {
        let mut checks = Checks::default();
        checks.line("url", &self.url, 1, MAX_URL);
        if let Err(what) = app.webhooks.check_address(&self.url) {
            checks.error("url", what);
        }
        if self.events.is_empty() || self.events.len() > EventKind::public().count() {
            checks.error("events", "must name what is to be sent, such as [\"order.*\"]");
        }
        for (at, wanted) in self.events.iter().enumerate() {
            let known = match wanted.strip_suffix('*') {
                Some(prefix) => {
                    prefix.is_empty()
                        || (prefix.ends_with('.')
                            && EventKind::public().any(|kind| kind.as_str().starts_with(prefix)))
                }
                None => EventKind::parse(wanted).is_some_and(|kind| kind.noun().is_public()),
            };
            if !known {
                checks.error(&format!("events[{at}]"), format!("is none of {}", public_kinds()));
            }
        }
        checks.finish(Some(()))
    }
}
