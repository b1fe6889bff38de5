//! Webhooks, for operators.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_core::WebhookId;
use tidegate_core::limits::MAX_URL;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::delivery_shapes::WebhookShape;
use super::input::{Id, Input, Key, Operator};
use super::problem::Problem;
use super::shapes::PageShape;
use super::terms::Checks;
use crate::ops::App;
use crate::ops::envelope::KINDS;
use crate::ops::webhooks::{MAX_WEBHOOKS, WEBHOOKS_SCOPE};

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(show, delete))
        .routes(routes!(rotate))
        .routes(routes!(enable))
        .routes(routes!(replay))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookInput {
    /// Public, unless the configuration allows its network.
    #[schema(example = "https://shop.example/hooks/tidegate")]
    pub(super) url: String,
    /// Kinds of events: one, all of a noun, or all.
    #[schema(example = json!(["order.*", "prize.ship"]))]
    pub(super) events: Vec<String>,
}

impl WebhookInput {
    pub(super) fn check(&self, app: &App) -> Result<(), Problem> {
        let mut checks = Checks::default();
        checks.line("url", &self.url, 1, MAX_URL);
        if let Err(what) = app.check_address(&self.url) {
            checks.wrong("url", what);
        }
        if self.events.is_empty() || self.events.len() > KINDS.len() {
            checks.wrong("events", "must name what is to be sent, such as [\"order.*\"]");
        }
        for (at, wanted) in self.events.iter().enumerate() {
            let known = match wanted.strip_suffix('*') {
                Some(prefix) => {
                    prefix.is_empty()
                        || (prefix.ends_with('.') && KINDS.iter().any(|kind| kind.starts_with(prefix)))
                }
                None => KINDS.contains(&wanted.as_str()),
            };
            if !known {
                checks.wrong(&format!("events[{at}]"), format!("is none of {}", KINDS.join(", ")));
            }
        }
        checks.done(Some(()))
    }
}

/// Has events sent to an address, signed after Standard Webhooks. The secret is shown here and when it is rotated.
#[utoipa::path(post, path = "/v1/admin/webhooks", tag = "operators", request_body = WebhookInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: Key,
    input: Input<WebhookInput>,
) -> Result<Response, Problem> {
    input.value.check(&site.app)?;
    let remember = key.remember(WEBHOOKS_SCOPE, "", input.fingerprint);
    let (app, WebhookInput { url, events }) = (site.app.clone(), input.value);
    let webhook = site
        .carry_out(async move { app.create_webhook(url, events, operator.0.actor(), remember).await })
        .await?;
    let location = format!("/v1/admin/webhooks/{}", site.app.print(webhook.id));
    let body = Json(WebhookShape::with_secret(&site.app, webhook));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// All webhooks, newest first.
#[utoipa::path(get, path = "/v1/admin/webhooks", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<WebhookShape>), (status = 401, body = Problem)))]
async fn list(State(site): State<Site>, _: Operator) -> Result<Json<PageShape<WebhookShape>>, Problem> {
    let app = &site.app;
    // There are never more than fit one page.
    let most = u32::try_from(MAX_WEBHOOKS + 1).unwrap_or(u32::MAX);
    let webhooks = app.webhooks().await?;
    Ok(Json(PageShape::of(webhooks, most, |_| String::new(), |webhook| WebhookShape::of(app, webhook))))
}

/// One webhook.
#[utoipa::path(get, path = "/v1/admin/webhooks/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    Ok(Json(WebhookShape::of(&site.app, site.app.webhook(id).await?)))
}

/// Removes a webhook; what was still to be sent there is dropped.
#[utoipa::path(delete, path = "/v1/admin/webhooks/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
async fn delete(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<StatusCode, Problem> {
    let app = site.app.clone();
    site.carry_out(async move { app.delete_webhook(id, operator.0.actor()).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a new secret. For a day messages are signed with the one before it, too.
#[utoipa::path(post, path = "/v1/admin/webhooks/{id}/rotate", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn rotate(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    let app = site.app.clone();
    let webhook = site.carry_out(async move { app.rotate_webhook(id, operator.0.actor()).await }).await?;
    Ok(Json(WebhookShape::with_secret(&site.app, webhook)))
}

/// Sends there again, from now on, after the receiver said it was gone. What was missed can be replayed.
#[utoipa::path(post, path = "/v1/admin/webhooks/{id}/enable", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn enable(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    let app = site.app.clone();
    let webhook = site.carry_out(async move { app.enable_webhook(id, operator.0.actor()).await }).await?;
    Ok(Json(WebhookShape::of(&site.app, webhook)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayInput {
    /// The id of the last event that is not wanted again, as `GET /v1/admin/events` lists them; "0" for all.
    #[schema(example = "0")]
    after: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct ReplayedShape {
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
async fn replay(
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
    let (events, last) =
        site.carry_out(async move { app.replay_events(id, after, operator.0.actor()).await }).await?;
    Ok(Json(ReplayedShape { events, last: last.to_string() }))
}
