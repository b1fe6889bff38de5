//! Orders of all buyers.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tidegate_app::ledger_types::OrderFilter;
use tidegate_core::{CampaignId, Order, OrderId, OrderState};
use tidegate_http::Site;
use tidegate_http::input::{Id, Operator, PageQuery, StrictQuery};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::IntoParams;

use super::json::shape;
use crate::admin::orders::json::AdminOrderShape;
use crate::json::PageShape;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrdersQuery {
    /// Only orders of this sale.
    sale_id: Option<String>,
    /// Only orders in this state.
    state: Option<String>,
    /// Maximum number of entries: 1 to 1000, default 50.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// List the orders of all buyers, newest first.
#[utoipa::path(get, path = "/v1/admin/orders", tag = "operators", params(OrdersQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminOrderShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(site): State<Site>,
    _: Operator,
    StrictQuery(query): StrictQuery<OrdersQuery>,
) -> Result<Json<PageShape<AdminOrderShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let campaign = query.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
    if campaign == Some(None) {
        checks.error("sale_id", "is not the id of a sale");
    }
    let state = query.state.as_deref().map(OrderState::parse);
    if state == Some(None) {
        let states: Vec<_> = OrderState::ALL.iter().map(|state| state.as_str()).collect();
        checks.error("state", format!("must be one of {}", states.join(", ")));
    }
    let filter = checks.finish(Some(OrderFilter { campaign: campaign.flatten(), state: state.flatten() }))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.page(app, OrderId::raw)?;
    let orders = app.ordering.orders(filter, page).await?;
    let cursor = |order: &Order| app.print(order.id);
    Ok(Json(PageShape::of(orders, page.limit, cursor, |order| AdminOrderShape::of(app, &order))))
}

/// Get an order with its buyer and refunds.
#[utoipa::path(get, path = "/v1/admin/orders/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
pub(crate) async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    shape(&site, &site.app.ordering.recorded_order(id).await?).await
}
