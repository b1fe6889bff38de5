//! Creating, listing and deleting webhooks, and rotating their secrets.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_app::webhooks::{MAX_WEBHOOKS, WEBHOOKS_SCOPE};
use tidegate_core::WebhookId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Input, Operator, OperatorIdempotencyKey};
use tidegate_http::inputs::webhooks::WebhookInput;
use tidegate_http::problem::Problem;

use crate::admin::webhooks::json::WebhookShape;
use crate::json::PageShape;

/// Create a webhook.
///
/// Events are sent to its URL, signed according to Standard Webhooks. The secret is returned only here and on rotation.
#[utoipa::path(post, path = "/v1/admin/webhooks", tag = "operators", request_body = WebhookInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(site): State<Site>,
    operator: Operator,
    key: OperatorIdempotencyKey,
    input: Input<WebhookInput>,
) -> Result<Response, Problem> {
    input.value.check(&site.app)?;
    let idempotent_request = key.into_request(WEBHOOKS_SCOPE, "", input.fingerprint);
    let (app, WebhookInput { url, events }) = (site.app.clone(), input.value);
    let webhook = site
        .run_to_completion(async move {
            app.webhooks.create(url, events, operator.0.actor(), idempotent_request).await
        })
        .await?;
    let location = format!("/v1/admin/webhooks/{}", site.app.print(webhook.id));
    let body = Json(WebhookShape::with_secret(&site.app, webhook));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// List all webhooks, newest first.
#[utoipa::path(get, path = "/v1/admin/webhooks", tag = "operators", security(("bearer" = [])),
    responses((status = 200, body = PageShape<WebhookShape>), (status = 401, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Operator,
) -> Result<Json<PageShape<WebhookShape>>, Problem> {
    let app = &site.app;
    // The maximum number of webhooks fits on one page.
    let most = u32::try_from(MAX_WEBHOOKS + 1).unwrap_or(u32::MAX);
    let webhooks = app.webhooks.list().await?;
    Ok(Json(PageShape::of(webhooks, most, |_| String::new(), |webhook| WebhookShape::of(app, webhook))))
}

/// Get a webhook.
#[utoipa::path(get, path = "/v1/admin/webhooks/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    Ok(Json(WebhookShape::of(&site.app, site.app.webhooks.find(id).await?)))
}

/// Delete a webhook.
///
/// Its undelivered events are dropped.
#[utoipa::path(delete, path = "/v1/admin/webhooks/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 404, body = Problem)))]
pub(crate) async fn delete(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<StatusCode, Problem> {
    let app = site.app.clone();
    site.run_to_completion(async move { app.webhooks.delete(id, operator.0.actor()).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Rotate the secret of a webhook.
///
/// For one day, messages are signed with both the new and the previous secret.
#[utoipa::path(post, path = "/v1/admin/webhooks/{id}/rotate", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn rotate(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    let app = site.app.clone();
    let webhook =
        site.run_to_completion(async move { app.webhooks.rotate(id, operator.0.actor()).await }).await?;
    Ok(Json(WebhookShape::with_secret(&site.app, webhook)))
}

/// Enable a webhook that was disabled because its receiver answered `410 Gone`.
///
/// Events are sent from now on; missed events can be replayed.
#[utoipa::path(post, path = "/v1/admin/webhooks/{id}/enable", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = WebhookShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn enable(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<WebhookId>,
) -> Result<Json<WebhookShape>, Problem> {
    let app = site.app.clone();
    let webhook =
        site.run_to_completion(async move { app.webhooks.enable(id, operator.0.actor()).await }).await?;
    Ok(Json(WebhookShape::of(&site.app, webhook)))
}
