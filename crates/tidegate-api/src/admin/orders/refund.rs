//! Cancelling and refunding an order on behalf of its buyer.

use axum::Json;
use axum::extract::State;
use tidegate_core::OrderId;
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator};
use tidegate_http::problem::Problem;

use super::json::shape;
use crate::admin::orders::json::AdminOrderShape;

/// Cancel an unpaid order on behalf of its buyer.
#[utoipa::path(post, path = "/v1/admin/orders/{id}/cancel", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn cancel(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    let app = site.app.clone();
    shape(
        &site,
        &site.run_to_completion(async move { app.ordering.cancel_for(id, operator.0.actor()).await }).await?,
    )
    .await
}

/// Refund a paid order.
///
/// The buyer gets the money back, and the units go back on sale.
#[utoipa::path(post, path = "/v1/admin/orders/{id}/refund", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn refund(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    let app = site.app.clone();
    shape(
        &site,
        &site.run_to_completion(async move { app.ordering.refund(id, operator.0.actor()).await }).await?,
    )
    .await
}
