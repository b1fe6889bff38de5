//! Sending past events again.

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
    /// The id of the last event that is not wanted again, as `GET /v1/admin/events` lists them; "0" for all.
    #[schema(example = "0")]
    after: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReplayedShape {
    /// How many events are sent again.
    events: usize,
    /// Goes into `after` to have the next ones sent.
    last: String,
}

/// Sends events once more, with the ids they had. Looks at up to 10,000 events at a time.
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
        checks.wrong("after", "must be the id of an event, or 0");
    }
    let (app, after) = (site.app.clone(), checks.done(after)?);
    let (events, last) = site
        .carry_out(async move { app.webhooks.replay_events(id, after, operator.0.actor()).await })
        .await?;
    Ok(Json(ReplayedShape { events, last: last.to_string() }))
}
