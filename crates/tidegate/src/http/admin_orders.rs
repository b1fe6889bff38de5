//! Orders, load-test buyers and the log of what happened, for operators.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_core::{CampaignId, DrawId, Order, OrderId, OrderState};
use tidegate_store::ledger::sql::{Event, OrderFilter};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::input::{Asked, Id, Input, Key, Operator, PageQuery};
use super::problem::Problem;
use super::shapes::{AdminOrderShape, EventShape, PageShape};
use super::terms::Checks;
use crate::ops::buyers::{MAX_TEST_TOKENS, TOKENS_SCOPE};

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(cancel))
        .routes(routes!(refund))
        .routes(routes!(mint))
        .routes(routes!(events))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct OrdersQuery {
    /// Only those of this sale.
    sale_id: Option<String>,
    /// Only those in this state.
    state: Option<String>,
    /// How many at most: 1 to 1000, 50 if not said.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Everybody's orders, newest first.
#[utoipa::path(get, path = "/v1/admin/orders", tag = "operators", params(OrdersQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminOrderShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
async fn list(
    State(site): State<Site>,
    _: Operator,
    Asked(query): Asked<OrdersQuery>,
) -> Result<Json<PageShape<AdminOrderShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let campaign = query.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
    if campaign == Some(None) {
        checks.wrong("sale_id", "is not the id of a sale");
    }
    let state = query.state.as_deref().map(OrderState::parse);
    if state == Some(None) {
        let states: Vec<_> = OrderState::ALL.iter().map(|state| state.as_str()).collect();
        checks.wrong("state", format!("must be one of {}", states.join(", ")));
    }
    let filter = checks.done(Some(OrderFilter { campaign: campaign.flatten(), state: state.flatten() }))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.page(app, OrderId::raw)?;
    let orders = app.orders(filter, page).await?;
    let cursor = |order: &Order| app.print(order.id);
    Ok(Json(PageShape::of(orders, page.limit, cursor, |order| AdminOrderShape::of(app, &order))))
}

async fn shape(site: &Site, order: &Order) -> Result<Json<AdminOrderShape>, Problem> {
    let refunds = site.app.refunds_of(order.id).await?;
    Ok(Json(AdminOrderShape::of(&site.app, order).with_refunds(refunds)))
}

/// One order with whose it is and its refunds.
#[utoipa::path(get, path = "/v1/admin/orders/{id}", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    _: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    shape(&site, &site.app.recorded_order(id).await?).await
}

/// Cancels an unpaid order for its buyer.
#[utoipa::path(post, path = "/v1/admin/orders/{id}/cancel", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn cancel(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    let app = site.app.clone();
    shape(&site, &site.carry_out(async move { app.cancel_for(id, operator.0.actor()).await }).await?).await
}

/// Gives a paid order's money and units back.
#[utoipa::path(post, path = "/v1/admin/orders/{id}/refund", tag = "operators", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = AdminOrderShape), (status = 401, body = Problem),
              (status = 403, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn refund(
    State(site): State<Site>,
    operator: Operator,
    Id(id): Id<OrderId>,
) -> Result<Json<AdminOrderShape>, Problem> {
    let app = site.app.clone();
    shape(&site, &site.carry_out(async move { app.refund(id, operator.0.actor()).await }).await?).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TokensInput {
    #[schema(example = 100, minimum = 1, maximum = 100_000)]
    count: i64,
}

#[derive(Debug, Serialize, ToSchema)]
struct TokensShape {
    tokens: Vec<String>,
}

/// Makes buyers for a load test. Only where the configuration allows it.
#[utoipa::path(post, path = "/v1/admin/tokens", tag = "operators", request_body = TokensInput,
    params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = TokensShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem)))]
async fn mint(
    State(site): State<Site>,
    operator: Operator,
    key: Key,
    input: Input<TokensInput>,
) -> Result<Response, Problem> {
    let mut checks = Checks::default();
    let count = checks.number("count", input.value.count, 1, MAX_TEST_TOKENS);
    let count = checks.done(Some(count))?;
    let remember = key.remember(TOKENS_SCOPE, "", input.fingerprint);
    let app = site.app.clone();
    let tokens =
        site.carry_out(async move { app.mint_tokens(count, operator.0.actor(), remember).await }).await?;
    Ok((StatusCode::CREATED, Json(TokensShape { tokens })).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Only those of this sale.
    sale_id: Option<String>,
    /// Only those of this draw.
    draw_id: Option<String>,
    /// How many at most: 1 to 1000, 50 if not said.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// What happened, by whom and when, newest first.
#[utoipa::path(get, path = "/v1/admin/events", tag = "operators", params(EventsQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<EventShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
async fn events(
    State(site): State<Site>,
    _: Operator,
    Asked(query): Asked<EventsQuery>,
) -> Result<Json<PageShape<EventShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let campaign = query.sale_id.as_deref().map(|text| app.parse::<CampaignId>(text));
    if campaign == Some(None) {
        checks.wrong("sale_id", "is not the id of a sale");
    }
    let draw = query.draw_id.as_deref().map(|text| app.parse::<DrawId>(text));
    if draw == Some(None) {
        checks.wrong("draw_id", "is not the id of a draw");
    }
    let campaign = checks.done(Some(campaign.flatten().or(draw.flatten().map(DrawId::campaign))))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.numbered()?;
    let events = app.events(campaign, page).await?;
    let cursor = |event: &Event| event.id.to_string();
    Ok(Json(PageShape::of(events, page.limit, cursor, |event| EventShape::of(app, event))))
}
