//! Replaying past events.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate_core::WebhookId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayInput {
    /// Replays events after this id (see `GET /v1/admin/events`); "0" replays all.
    #[schema(example = "0")]
    after: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayedShape {
    /// Number of events to be sent again.
    events: usize,
    /// Pass this as `after` to replay the next events.
    last: String,
}

/// Replay events to a webhook.
///
/// Events keep their ids. One call scans up to 10,000 events.
#[utoipa::path(post, path = "/v1/admin/webhooks/{id}/replay", tag = "operators", params(("id" = String, Path)),
    request_body = ReplayInput, security(("bearer" = [])),
    responses((status = 200, body = ReplayedShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn replay(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
    input: Input<ReplayInput>,
) -> Result<Json<ReplayedShape>, Problem> {
    let mut checks = Checks::default();
    let after: Option<u64> = input.value.after.parse().ok().filter(|after| i64::try_from(*after).is_ok());
    if after.is_none() {
        checks.error("after", "must be the id of an event, or 0");
    }
    let (app, after) = (site.app.clone(), checks.finish(after)?);
    let (events, last) = site
        .run_to_completion(async move { app.webhooks.replay_events(id, after, operator.0.actor()).await })
        .await?;
    Ok(Json(ReplayedShape { events, last: last.to_string() }))
}
