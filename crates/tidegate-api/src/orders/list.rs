//! A buyer's own orders.

use axum::Json;
use axum::extract::State;
use tidegate_core::{Order, OrderId};
use tidegate_http::Site;
use tidegate_http::input::{Buyer, Id, PageQuery, StrictQuery};
use tidegate_http::problem::Problem;

use crate::json::PageShape;
use crate::orders::json::OrderShape;

/// List the buyer's orders, newest first.
#[utoipa::path(get, path = "/v1/orders", tag = "buyers", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<OrderShape>), (status = 401, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<Json<PageShape<OrderShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, OrderId::raw)?;
    let orders = app.ordering.orders_of_buyer(buyer, page).await?;
    let cursor = |order: &Order| app.print(order.id);
    Ok(Json(PageShape::of(orders, page.limit, cursor, |order| OrderShape::of(app, &order))))
}

/// Get one of the buyer's orders.
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Json<OrderShape>, Problem> {
    Ok(Json(OrderShape::of(&site.app, &site.app.ordering.order_of_buyer(buyer, id).await?)))
}
