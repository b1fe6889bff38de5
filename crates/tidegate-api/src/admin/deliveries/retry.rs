//! Retrying a delivery, and releasing a prize that waits for an operator.

use axum::Json;
use axum::extract::State;
use tidegate_core::DeliveryId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator};
use tidegate_http::problem::Problem;

use crate::admin::deliveries::json::DeliveryShape;

/// Retry a delivery now.
///
/// Applies to deliveries that failed or were given up. A webhook event that was already delivered is sent again.
#[utoipa::path(post, path = "/v1/admin/deliveries/{id}/retry", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = DeliveryShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn retry(
    State(site): State<Site>,
    Operator(who): Operator,
    Id(id): Id<DeliveryId>,
) -> Result<Json<DeliveryShape>, Problem> {
    let (app, by) = (site.app.clone(), who.actor());
    let delivery = site.run_to_completion(async move { app.deliveries.retry(id, by).await }).await?;
    Ok(Json(DeliveryShape::of(&site.app, delivery, who.role)))
}

/// Release a prize that waits for an operator.
#[utoipa::path(post, path = "/v1/admin/deliveries/{id}/grant", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = DeliveryShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn grant(
    State(site): State<Site>,
    Operator(who): Operator,
    Id(id): Id<DeliveryId>,
) -> Result<Json<DeliveryShape>, Problem> {
    let (app, by) = (site.app.clone(), who.actor());
    let delivery = site.run_to_completion(async move { app.deliveries.grant(id, by).await }).await?;
    Ok(Json(DeliveryShape::of(&site.app, delivery, who.role)))
}
