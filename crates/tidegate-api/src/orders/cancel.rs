//! Cancelling an unpaid order.

use axum::Json;
use axum::extract::State;
use tidegate_core::OrderId;
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id};
use tidegate_http::problem::Problem;

use crate::orders::json::OrderShape;

/// Cancels an unpaid order. Cancelling a cancelled one changes nothing.
#[utoipa::path(post, path = "/v1/orders/{id}/cancel", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
pub(crate) async fn cancel(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Json<OrderShape>, Problem> {
    let app = site.app.clone();
    let order = site.carry_out(async move { app.ordering.cancel(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}
