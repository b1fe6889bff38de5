//! Placing an order.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tidegate_app::ordering::attempt::{AttemptRequest, Received, WantedOrder};
use tidegate_app::ordering::{Ordering, Placed};
use tidegate_core::limits::MAX_QUANTITY;
use tidegate_core::{Campaign, CampaignId, IdempotencyKey, OrderState, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::headers::Headers;
use tidegate_http::input::{Id, RequestBody, idempotency_key, json, token};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use tidegate_http::request_scope::ReceivedAt;
use tidegate_http::response::{PlainResponse, created};
use utoipa::ToSchema;

use crate::orders::json::OrderShape;

pub(crate) const PATH: &str = "/v1/sales/{id}/orders";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderInput {
    #[schema(example = 1, minimum = 1, maximum = 100)]
    quantity: i64,
    /// Required if the sale's `protect.pass` is true.
    pass: Option<String>,
}

impl OrderInput {
    fn check(&self) -> Result<u32, Problem> {
        let mut checks = Checks::default();
        let quantity = checks.number("quantity", self.quantity, 1, MAX_QUANTITY);
        checks.finish(Some(quantity))
    }
}

/// Place an order.
///
/// `201`: the order is durable. `202`: the order is accepted but not yet durable; poll it by its id until its state
/// is no longer `queued`.
///
/// A request repeated with the same `Idempotency-Key` returns the order that the first one created. A refusal does
/// not use up the key: retry with the same key.
#[utoipa::path(post, path = "/v1/sales/{id}/orders", tag = "buyers", request_body = OrderInput,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = OrderShape), (status = 202, body = OrderShape), (status = 401, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
              (status = 503, body = Problem)))]
pub(crate) async fn place(State(site): State<Site>, Id(id): Id<CampaignId>, request: Request) -> Response {
    let (Parts { headers, .. }, body) = request.into_parts();
    answer(&site, id, (&headers).into(), RequestBody::Incoming(body), ReceivedAt::now(&site.app))
        .await
        .into_response()
}

/// Answers an order from the router or from a hot route.
pub(crate) async fn answer(
    site: &Site,
    id: CampaignId,
    headers: Headers<'_>,
    body: RequestBody<'_>,
    received: ReceivedAt,
) -> PlainResponse {
    let request = OrderRequest { site, headers };
    let received = Received { at: received.at, now: received.now };
    let app = &site.app;
    let outcome = app.attempts.attempt(&app.ordering, id, received, request, body).await;
    let Placed { order, replayed } = match outcome {
        Ok(placed) => placed,
        Err(problem) => return problem.into_response_parts(),
    };
    let status = if order.state == OrderState::Queued { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    let shape = OrderShape::of(&site.app, &order);
    created(status, ["/v1/orders/", shape.id()].concat(), |body| shape.write(body), replayed)
}

/// An order whose body has not been read yet: the cheaper checks come first.
struct OrderRequest<'a> {
    site: &'a Site,
    headers: Headers<'a>,
}

impl<'a> AttemptRequest<Ordering> for OrderRequest<'a> {
    type Error = Problem;
    type Body = RequestBody<'a>;

    fn token(&self) -> Result<Option<&str>, Problem> {
        token(&Method::POST, self.headers)
    }

    fn key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        idempotency_key(self.headers)
    }

    async fn read(
        &self,
        body: RequestBody<'a>,
        _: Option<(UserId, &Campaign)>,
    ) -> Result<WantedOrder, Problem> {
        let input: OrderInput = json(self.headers, body, self.site.bounds).await?;
        Ok(WantedOrder { quantity: input.check()?, pass: input.pass })
    }

    fn code(problem: &Problem) -> ProblemCode {
        problem.code()
    }
}
