//! A buyer's orders: the list, and one order with its history, payment and cancellation.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::ledger_types::Page as Rows;
use tidegate_core::public_id::Public;
use tidegate_core::{Order, OrderId, OrderState};
use tidegate_http::Site;
use tidegate_http::input::{Id, PageQuery, StrictQuery};
use tidegate_http::problem::Problem;

use super::messages::message;
use super::{PageContext, Visitor};
use crate::badge::Badge;
use crate::format::{Timestamp, money};
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;
use crate::page::{PageError, redirect, render};

pub(crate) fn order_badge(t: &ShopPhrases, state: OrderState) -> Badge {
    match state {
        OrderState::Queued => Badge::accent(t.order_queued),
        OrderState::AwaitingPayment => Badge::warn(t.order_awaiting),
        OrderState::Paid => Badge::good(t.order_paid),
        OrderState::Cancelled => Badge::plain(t.order_cancelled),
        OrderState::Expired => Badge::bad(t.order_expired),
        OrderState::Refunded => Badge::plain(t.order_refunded),
        OrderState::Rejected => Badge::bad(t.order_rejected),
    }
}

#[derive(Template)]
#[template(path = "orders.html")]
pub(crate) struct OrdersPage {
    pub(crate) page: PageContext,
    pub(crate) orders: Vec<Row>,
    pub(crate) next: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) quantity: u32,
    pub(crate) total: String,
    pub(crate) at: Timestamp,
    pub(crate) state: Badge,
}

#[derive(Template)]
#[template(path = "order.html")]
pub(crate) struct OrderPage {
    pub(crate) page: PageContext,
    pub(crate) id: String,
    pub(crate) sale: String,
    pub(crate) name: String,
    pub(crate) quantity: u32,
    pub(crate) total: String,
    pub(crate) units: String,
    pub(crate) view: &'static str,
    pub(crate) state: Badge,
    pub(crate) pay_by: Timestamp,
    pub(crate) pay_by_ms: i64,
    pub(crate) timeline: Vec<Step>,
    pub(crate) message: Option<String>,
}

/// An entry of the order's history.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) label: Phrase,
    pub(crate) at: Timestamp,
    /// The step is still to come.
    pub(crate) is_future: bool,
}

pub(crate) async fn list(
    State(site): State<Site>,
    visitor: Visitor,
    StrictQuery(query): StrictQuery<Cursor>,
) -> Result<Response, PageError> {
    let (app, (page, user)) = (&site.app, visitor.require_user()?);
    let rows = query.rows(app, OrderId::raw)?;
    let orders = app.ordering.orders_of_buyer(user, rows).await?;
    let next = orders.last().filter(|_| orders.len() == rows.limit as usize).map(|order| app.print(order.id));
    let mut order_rows = Vec::with_capacity(orders.len());
    for order in orders {
        order_rows.push(Row {
            id: app.print(order.id),
            name: app.catalogue.item(order.item).await?.name,
            quantity: order.quantity(),
            total: money(order.total()),
            at: Timestamp(order.created_at),
            state: order_badge(page.t, order.state),
        });
    }
    Ok(render(&OrdersPage { page, orders: order_rows, next }))
}

/// Query of a list page.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Cursor {
    cursor: Option<String>,
}

/// Rows on one page of a list.
const ROWS: &str = "20";

impl Cursor {
    pub(crate) fn rows<T: Public>(self, app: &App, raw: impl Fn(T) -> u64) -> Result<Rows, Problem> {
        PageQuery { limit: Some(ROWS.into()), cursor: self.cursor }.page(app, raw)
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct OrderQuery {
    said: String,
}

pub(crate) async fn show(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<OrderId>,
    StrictQuery(query): StrictQuery<OrderQuery>,
) -> Result<Response, PageError> {
    let (app, (page, user)) = (&site.app, visitor.require_user()?);
    let order = app.ordering.order_of_buyer(user, id).await?;
    let item = app.catalogue.item(order.item).await?;
    let units: Vec<String> = order.slots.iter().take(20).map(|slot| format!("#{slot}")).collect();
    let t = page.t;
    Ok(render(&OrderPage {
        id: app.print(order.id),
        sale: app.print(order.campaign),
        name: item.name,
        quantity: order.quantity(),
        total: money(order.total()),
        units: units.join(" "),
        view: order.state.as_str(),
        state: order_badge(t, order.state),
        pay_by: Timestamp(order.pay_by),
        pay_by_ms: order.pay_by.millis(),
        timeline: timeline(t, &order),
        // The limit is unused: an order's page never reports `limit_reached`.
        message: message(t, &query.said, 0),
        page,
    }))
}

fn timeline(t: &ShopPhrases, order: &Order) -> Vec<Step> {
    let step = |label, at, is_future| Step { label, at: Timestamp(at), is_future };
    let mut steps = vec![step(t.step_placed, order.created_at, false)];
    match order.state {
        OrderState::Queued => {}
        OrderState::AwaitingPayment => steps.push(step(t.step_pay_by, order.pay_by, true)),
        state => steps.push(step(order_badge(t, state).label, order.updated_at, false)),
    }
    steps
}

fn redirect_to_order(site: &Site, id: OrderId, outcome: Result<Order, Problem>) -> Response {
    let id = site.app.print(id);
    match outcome {
        Ok(_) => redirect(&format!("/orders/{id}")),
        Err(problem) => redirect(&format!("/orders/{id}?said={}", problem.code())),
    }
}

pub(crate) async fn pay(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<OrderId>,
    _: Form,
) -> Result<Response, PageError> {
    let (app, (_, user)) = (site.app.clone(), visitor.require_user()?);
    let paid = site.run_to_completion(async move { app.ordering.pay(user, id).await }).await;
    Ok(redirect_to_order(&site, id, paid))
}

pub(crate) async fn cancel(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<OrderId>,
    _: Form,
) -> Result<Response, PageError> {
    let (app, (_, user)) = (site.app.clone(), visitor.require_user()?);
    let cancelled = site.run_to_completion(async move { app.ordering.cancel(user, id).await }).await;
    Ok(redirect_to_order(&site, id, cancelled))
}
