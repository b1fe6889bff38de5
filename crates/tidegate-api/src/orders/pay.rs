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
    /// `sandbox`.
    method: String,
}

/// Pays an order. Paying a paid one changes nothing.
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
        checks.wrong("method", "must be sandbox");
        checks.done::<()>(None)?;
    }
    let app = site.app.clone();
    let order = site.carry_out(async move { app.ordering.pay(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}
