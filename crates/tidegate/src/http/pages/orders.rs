//! A buyer's orders: the list, and each with its clock, its way so far, and what can be done.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::public_id::Public;
use tidegate_core::{Order, OrderId, OrderState};
use tidegate_store::ledger::Page as Rows;

use super::super::Site;
use super::super::input::{Asked, Id, PageQuery};
use super::super::problem::Problem;
use super::format::{When, money};
use super::forms::Form;
use super::phrases::Phrase;
use super::phrases::shop::Shop;
use super::refusals::said;
use super::{Page, Trouble, Visit, see, shown};
use crate::ops::App;

/// A state in words and colour.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateWord {
    pub(super) word: Phrase,
    pub(super) tone: &'static str,
}

pub(super) fn state_word(w: &Shop, state: OrderState) -> StateWord {
    let (word, tone) = match state {
        OrderState::Queued => (w.order_queued, "accent"),
        OrderState::AwaitingPayment => (w.order_awaiting, "warn"),
        OrderState::Paid => (w.order_paid, "good"),
        OrderState::Cancelled => (w.order_cancelled, "plain"),
        OrderState::Expired => (w.order_expired, "bad"),
        OrderState::Refunded => (w.order_refunded, "plain"),
        OrderState::Rejected => (w.order_rejected, "bad"),
    };
    StateWord { word, tone }
}

#[derive(Template)]
#[template(path = "orders.html")]
pub(super) struct OrdersPage {
    pub(super) page: Page,
    pub(super) orders: Vec<Row>,
    pub(super) next: Option<String>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) quantity: u32,
    pub(super) total: String,
    pub(super) at: When,
    pub(super) state: StateWord,
}

#[derive(Template)]
#[template(path = "order.html")]
pub(super) struct OrderPage {
    pub(super) page: Page,
    pub(super) id: String,
    pub(super) sale: String,
    pub(super) name: String,
    pub(super) quantity: u32,
    pub(super) total: String,
    pub(super) units: String,
    pub(super) view: &'static str,
    pub(super) state: StateWord,
    pub(super) pay_by: When,
    pub(super) pay_by_ms: i64,
    pub(super) timeline: Vec<Step>,
    pub(super) said: Option<Phrase>,
}

/// One step of an order's way.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) word: Phrase,
    pub(super) at: When,
    /// It has not happened yet.
    pub(super) ahead: bool,
}

pub(super) async fn list(
    State(site): State<Site>,
    visit: Visit,
    Asked(query): Asked<Cursor>,
) -> Result<Response, Trouble> {
    let (app, (page, user)) = (&site.app, visit.own()?);
    let rows = query.rows(app, OrderId::raw)?;
    let orders = app.orders_of_buyer(user, rows).await?;
    let next = orders.last().filter(|_| orders.len() == rows.limit as usize).map(|order| app.print(order.id));
    let mut shown_orders = Vec::with_capacity(orders.len());
    for order in orders {
        shown_orders.push(Row {
            id: app.print(order.id),
            name: app.item(order.item).await?.name,
            quantity: order.quantity(),
            total: money(order.total()),
            at: When(order.created_at),
            state: state_word(page.w, order.state),
        });
    }
    Ok(shown(&OrdersPage { page, orders: shown_orders, next }))
}

/// Where a list goes on.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Cursor {
    cursor: Option<String>,
}

/// Rows on one page of a list.
const ROWS: &str = "20";

impl Cursor {
    pub(super) fn rows<T: Public>(self, app: &App, raw: impl Fn(T) -> u64) -> Result<Rows, Problem> {
        PageQuery { limit: Some(ROWS.into()), cursor: self.cursor }.page(app, raw)
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct OrderQuery {
    said: String,
}

pub(super) async fn show(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<OrderId>,
    Asked(query): Asked<OrderQuery>,
) -> Result<Response, Trouble> {
    let (app, (page, user)) = (&site.app, visit.own()?);
    let order = app.order_of_buyer(user, id).await?;
    let item = app.item(order.item).await?;
    let units: Vec<String> = order.slots.iter().take(20).map(|slot| format!("#{slot}")).collect();
    let w = page.w;
    Ok(shown(&OrderPage {
        id: app.print(order.id),
        sale: app.print(order.campaign),
        name: item.name,
        quantity: order.quantity(),
        total: money(order.total()),
        units: units.join(" "),
        view: order.state.as_str(),
        state: state_word(w, order.state),
        pay_by: When(order.pay_by),
        pay_by_ms: order.pay_by.millis(),
        timeline: timeline(w, &order),
        said: said(w, &query.said),
        page,
    }))
}

fn timeline(w: &Shop, order: &Order) -> Vec<Step> {
    let step = |word, at, ahead| Step { word, at: When(at), ahead };
    let mut steps = vec![step(w.step_placed, order.created_at, false)];
    match order.state {
        OrderState::Queued => {}
        OrderState::AwaitingPayment => steps.push(step(w.step_pay_by, order.pay_by, true)),
        state => steps.push(step(state_word(w, state).word, order.updated_at, false)),
    }
    steps
}

fn back(site: &Site, id: OrderId, outcome: Result<Order, Problem>) -> Response {
    let id = site.app.print(id);
    match outcome {
        Ok(_) => see(&format!("/orders/{id}")),
        Err(problem) => see(&format!("/orders/{id}?said={}", problem.code())),
    }
}

pub(super) async fn pay(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<OrderId>,
    _: Form,
) -> Result<Response, Trouble> {
    let (app, (_, user)) = (site.app.clone(), visit.own()?);
    let paid = site.carry_out(async move { app.pay(user, id).await }).await;
    Ok(back(&site, id, paid))
}

pub(super) async fn cancel(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<OrderId>,
    _: Form,
) -> Result<Response, Trouble> {
    let (app, (_, user)) = (site.app.clone(), visit.own()?);
    let cancelled = site.carry_out(async move { app.cancel(user, id).await }).await;
    Ok(back(&site, id, cancelled))
}
