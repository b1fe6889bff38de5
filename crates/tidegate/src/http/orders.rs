//! Orders, as their buyers see them.

use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tidegate_core::limits::MAX_QUANTITY;
use tidegate_core::{CampaignId, Order, OrderId, OrderState};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::answer::{Answer, made};
use super::attempt::Attempt;
use super::headers::Headers;
use super::input::{Asked, Buyer, Id, Input, PageQuery, Sent, idempotency_key, json, token};
use super::order_shapes::OrderShape;
use super::problem::Problem;
use super::shapes::PageShape;
use super::terms::Checks;
use super::visit::Came;
use crate::ops::Refusal;
use crate::ops::live::Attempted;
use crate::ops::orders::Placed;

/// Where orders are placed.
pub(super) const PATH: &str = "/v1/sales/{id}/orders";

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new()
        .routes(routes!(place))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(pay))
        .routes(routes!(cancel))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OrderInput {
    #[schema(example = 1, minimum = 1, maximum = 100)]
    quantity: i64,
    /// The sale's one-time permission, where it asks for one.
    pass: Option<String>,
}

impl OrderInput {
    fn check(&self) -> Result<u32, Problem> {
        let mut checks = Checks::default();
        let quantity = checks.number("quantity", self.quantity, 1, MAX_QUANTITY);
        checks.done(Some(quantity))
    }
}

/// Orders units of a sale. 201: it is on disk. 202: it waits, and can be found by its id.
///
/// Repeating a request with the same Idempotency-Key gives the order it made. Refusals are not remembered: nothing
/// was made, so the same key may be tried again.
#[utoipa::path(post, path = "/v1/sales/{id}/orders", tag = "buyers", request_body = OrderInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = OrderShape), (status = 202, body = OrderShape), (status = 401, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
              (status = 503, body = Problem)))]
async fn place(State(site): State<Site>, Id(id): Id<CampaignId>, request: Request) -> Response {
    let (Parts { headers, .. }, body) = request.into_parts();
    answer(&site, id, (&headers).into(), Sent::Coming(body), Came::just_now(&site.app)).await.into_response()
}

/// Answers an order, whichever way it came.
pub(super) async fn answer(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
) -> Answer {
    let outcome = try_place(site, id, headers, sent, came).await;
    count(site, id, &outcome, came.at);
    let Placed { order, replayed } = match outcome {
        Ok(placed) => placed,
        Err(problem) => return problem.answer(),
    };
    let status = if order.state == OrderState::Queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let shape = OrderShape::of(&site.app, &order);
    made(status, ["/v1/orders/", shape.id()].concat(), |body| shape.write(body), replayed)
}

/// Counts an attempt, from wherever it came.
pub(super) fn count(site: &Site, id: CampaignId, outcome: &Result<Placed, Problem>, started: Instant) {
    let (counted, attempted) = match outcome {
        Ok(Placed { replayed: true, .. }) => ("replayed", Attempted::Replayed),
        Ok(_) => ("accepted", Attempted::Accepted),
        Err(problem) => (problem.code(), Attempted::Refused(problem.code())),
    };
    site.app.metrics.order(counted);
    site.app.attempted(id, attempted, started.elapsed());
}

/// The checks in their published order: the sale, then who asks, then what for.
async fn try_place(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
) -> Result<Placed, Problem> {
    let app = &site.app;
    let sale = match app.open_campaign(id, came.now).await {
        Ok(sale) => sale,
        Err(refusal) => return Box::pin(replay(site, id, headers, sent, came, refusal)).await,
    };
    let attempt = Attempt::admit(site, &sale, headers, came).await?;
    let input: OrderInput = json(headers, sent, site.bounds).await?;
    Ok(app.place(attempt.user, &sale, input.check()?, attempt.key, input.pass.as_deref()).await?)
}

/// A sale that takes no orders still knows those it took: a repeated request gets its order, all others the refusal.
async fn replay(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    sent: Sent<'_>,
    came: Came,
    refusal: Refusal,
) -> Result<Placed, Problem> {
    let Ok(Some(key)) = idempotency_key(headers) else { return Err(refusal.into()) };
    let token = token(&Method::POST, headers)?;
    let Ok(buyer) = site.app.buyer_at(token, came.now).await else { return Err(refusal.into()) };
    // Nearly everybody who is too late: their body need not be read.
    if site.app.holds_nothing(buyer, id).await {
        return Err(refusal.into());
    }
    let Ok(input) = json::<OrderInput>(headers, sent, site.bounds).await else { return Err(refusal.into()) };
    let Ok(quantity) = input.check() else { return Err(refusal.into()) };
    match site.app.replay(buyer, id, quantity, key).await? {
        Some(order) => Ok(Placed { order, replayed: true }),
        None => Err(refusal.into()),
    }
}

/// The buyer's own orders, newest first.
#[utoipa::path(get, path = "/v1/orders", tag = "buyers", params(PageQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<OrderShape>), (status = 401, body = Problem)))]
async fn list(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<OrderShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, OrderId::raw)?;
    let orders = app.orders_of_buyer(buyer, page).await?;
    let cursor = |order: &Order| app.print(order.id);
    Ok(Json(PageShape::of(orders, page.limit, cursor, |order| OrderShape::of(app, &order))))
}

/// One of the buyer's own orders.
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Json<OrderShape>, Problem> {
    Ok(Json(OrderShape::of(&site.app, &site.app.order_of_buyer(buyer, id).await?)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PayInput {
    /// `sandbox`.
    method: String,
}

/// Pays an order. Paying a paid one changes nothing.
#[utoipa::path(post, path = "/v1/orders/{id}/pay", tag = "buyers", params(("id" = String, Path)),
    request_body = PayInput, security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn pay(
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
    let order = site.carry_out(async move { app.pay(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}

/// Cancels an unpaid order. Cancelling a cancelled one changes nothing.
#[utoipa::path(post, path = "/v1/orders/{id}/cancel", tag = "buyers", params(("id" = String, Path)),
    security(("bearer" = [])),
    responses((status = 200, body = OrderShape), (status = 401, body = Problem), (status = 404, body = Problem),
              (status = 409, body = Problem)))]
async fn cancel(
    State(site): State<Site>,
    Buyer(buyer): Buyer,
    Id(id): Id<OrderId>,
) -> Result<Json<OrderShape>, Problem> {
    let app = site.app.clone();
    let order = site.carry_out(async move { app.cancel(buyer, id).await }).await?;
    Ok(Json(OrderShape::of(&site.app, &order)))
}
