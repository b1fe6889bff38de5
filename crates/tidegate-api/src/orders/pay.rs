//! Paying an order.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate_core::OrderId;
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, Input};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::orders::json::OrderShape;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PayInput {
    /// Payment method; must be `sandbox`.
    method: String,
}

/// Pay an order.
///
/// Paying an order that is already paid has no effect.
#[utoipa::path(post, path = "/v1/orders/{id}/pay", tag = "buyers", params(("id" = String, Path)),
    request_body = PayInput, security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn pay(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
    input: Input<PayInput>,
) -> Result<Json<OrderShape>, Problem> {
    if input.value.method != "sandbox" {
        let mut checks = Checks::default();
        checks.error("method", "must be sandbox");
        checks.finish::<()>(None)?;
    }
    let app = site.app.clone();
    let order = site.run_to_completion(async move { app.ordering.pay(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}
