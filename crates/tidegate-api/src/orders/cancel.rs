//! Cancelling an order.

use axum::Json;
use axum::extract::State;
use tidegate_core::OrderId;
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id};
use tidegate_http::problem::Problem;

use crate::orders::json::OrderShape;

/// Cancel an unpaid order.
///
/// Its units go back on sale. Cancelling an order that is already cancelled has no effect.
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
    let order = site.run_to_completion(async move { app.ordering.cancel(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}
