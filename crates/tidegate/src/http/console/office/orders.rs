//! Orders: found by sale, state or number; each with its way so far and what an operator can do about it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::{CampaignId, Order, OrderId, OrderState, Role};
use tidegate_store::ledger::Page;
use tidegate_store::ledger::sql::{DueRefund, KeptPayment, OrderFilter};

use super::words::{Word, order_state};
use super::{Choice, Named, address, cursor_after, given, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::input::{Asked, PageQuery};
use crate::http::pages::format::{When, money};
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, see};
use crate::ops::{App, Refusal};

/// Sales to choose from.
const RECENT_SALES: u32 = 30;
/// Unit numbers that are written out.
const SHOWN_UNITS: usize = 50;

#[derive(Template)]
#[template(path = "console/orders.html")]
pub(super) struct OrdersPage {
    desk: Desk,
    o: &'static Office,
    sales: Vec<Choice>,
    states: Vec<Choice>,
    /// What was looked for and is not there.
    missing: Option<String>,
    filtered: bool,
    export: Option<String>,
    orders: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Row {
    id: String,
    item: String,
    buyer: String,
    units: u32,
    total: String,
    state: Word,
    at: When,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct OrdersQuery {
    sale_id: String,
    state: String,
    cursor: String,
    number: String,
}

pub(super) async fn list(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<OrdersQuery>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let number = given(query.number);
    if let Some(id) = number.as_deref().and_then(|number| app.parse::<OrderId>(number))
        && app.recorded_order(id).await.is_ok()
    {
        return Ok(see(&format!("/console/orders/{}", app.print(id))));
    }
    let campaign = app.parse::<CampaignId>(&query.sale_id);
    let state = OrderState::parse(&query.state);
    let page = PageQuery { limit: None, cursor: given(query.cursor) }.page(app, OrderId::raw)?;
    let found = app.orders(OrderFilter { campaign, state }, page).await?;
    let sale_id = campaign.map_or_else(String::new, |id| app.print(id));
    let state_id = state.map_or("", OrderState::as_str);
    let next = cursor_after(&found, page.limit, |order| app.print(order.id));
    let next = next.map(|next| {
        address("/console/orders", &[("sale_id", &sale_id), ("state", state_id), ("cursor", &next)])
    });
    let mut orders = Vec::with_capacity(found.len());
    for order in &found {
        orders.push(row(app, o, order).await?);
    }
    Ok(shown(&OrdersPage {
        sales: sales(app, campaign).await?,
        states: states(o, state),
        missing: number,
        filtered: campaign.is_some() || state.is_some(),
        export: campaign.map(|_| format!("/console/sales/{sale_id}/orders.csv")),
        orders,
        next,
        o,
        desk: at.desk,
    }))
}

async fn row(app: &App, o: &Office, order: &Order) -> Result<Row, Refusal> {
    Ok(Row {
        id: app.print(order.id),
        item: app.item(order.item).await?.name,
        buyer: app.print(order.user),
        units: order.quantity(),
        total: money(order.total()),
        state: order_state(o, order.state),
        at: When(order.created_at),
    })
}

/// The newest sales, and the chosen one.
async fn sales(app: &App, chosen: Option<CampaignId>) -> Result<Vec<Choice>, Refusal> {
    let recent = app.all_sales(Page { before: None, limit: RECENT_SALES }).await?;
    let mut campaigns: Vec<_> = recent.into_iter().map(|sale| sale.campaign).collect();
    if let Some(chosen) = chosen.filter(|chosen| campaigns.iter().all(|sale| sale.id != *chosen)) {
        campaigns.extend(app.campaign(chosen).await.ok());
    }
    let mut choices = Vec::with_capacity(campaigns.len());
    for sale in campaigns {
        let Some(terms) = sale.sale() else { continue };
        let day = sale.window.starts_at.to_string();
        let label = format!("{} · {}", app.item(terms.item).await?.name, day.get(..10).unwrap_or(&day));
        choices.push(Choice { value: app.print(sale.id), label, chosen: Some(sale.id) == chosen });
    }
    Ok(choices)
}

fn states(o: &Office, chosen: Option<OrderState>) -> Vec<Choice> {
    // Nothing in the ledger is queued.
    let kept = OrderState::ALL.iter().filter(|state| **state != OrderState::Queued);
    let choice = |state: &OrderState| Choice {
        value: state.as_str().to_owned(),
        label: order_state(o, *state).word.to_string(),
        chosen: Some(*state) == chosen,
    };
    kept.map(choice).collect()
}

#[derive(Template)]
#[template(path = "console/order.html")]
pub(super) struct OrderPage {
    desk: Desk,
    o: &'static Office,
    id: String,
    sale: String,
    item: String,
    buyer: String,
    units: u32,
    unit_numbers: String,
    unit_price: String,
    total: String,
    state: Word,
    reason: Option<&'static str>,
    steps: Vec<Step>,
    can_cancel: bool,
    can_refund: bool,
}

/// One step of an order's way.
#[derive(Debug)]
struct Step {
    word: String,
    at: When,
    more: Vec<String>,
    /// It has not happened yet.
    ahead: bool,
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<OrderId>,
) -> Result<Response, Trouble> {
    let (app, o) = (&site.app, phrases(&at.desk));
    let order = app.recorded_order(id).await?;
    let (payments, refunds) = (app.payments_of(id).await?, app.refunds_of(id).await?);
    let mut numbers: Vec<_> = order.slots.iter().take(SHOWN_UNITS).map(|slot| format!("#{slot}")).collect();
    if order.quantity() as usize > SHOWN_UNITS {
        numbers.push("…".to_owned());
    }
    Ok(shown(&OrderPage {
        id: app.print(order.id),
        sale: app.print(order.campaign),
        item: app.item(order.item).await?.name,
        buyer: app.print(order.user),
        units: order.quantity(),
        unit_numbers: numbers.join(" "),
        unit_price: money(order.unit_price),
        total: money(order.total()),
        state: order_state(o, order.state),
        reason: order.reason.map(tidegate_core::Rejection::code),
        steps: steps(o, &order, &payments, &refunds),
        can_cancel: order.state == OrderState::AwaitingPayment,
        can_refund: order.state == OrderState::Paid,
        o,
        desk: at.desk,
    }))
}

/// What happened to the order, in its order.
fn steps(o: &Office, order: &Order, payments: &[KeptPayment], refunds: &[DueRefund]) -> Vec<Step> {
    let step = |word: String, at, more: Vec<String>| Step { word, at: When(at), more, ahead: false };
    let mut steps = vec![step(o.ordered.to_string(), order.created_at, Vec::new())];
    for payment in payments {
        let more = vec![money(payment.amount), payment.reference.clone()];
        steps.push(step(o.paid_by.with(&payment.provider), payment.at, more));
    }
    match order.state {
        OrderState::Queued | OrderState::Paid => {}
        OrderState::AwaitingPayment => {
            steps.push(Step { ahead: true, ..step(o.pay_by.to_string(), order.pay_by, Vec::new()) });
        }
        state => steps.push(step(order_state(o, state).word.to_string(), order.updated_at, Vec::new())),
    }
    for refund in refunds {
        let word = if refund.done { o.refund_done } else { o.refund_due };
        let more = vec![money(refund.amount), refund.reference.clone(), refund.reason.clone()];
        steps.push(step(word.with(&refund.provider), refund.at, more));
    }
    steps.sort_by_key(|step| step.at.0);
    steps
}

pub(super) async fn cancel(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<OrderId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.cancel_for(id, by).await }).await;
    answered(&format!("/console/orders/{}", site.app.print(id)), done)
}

pub(super) async fn refund(
    State(site): State<Site>,
    at: AtDesk,
    Named(id): Named<OrderId>,
    _: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), at.who.actor());
    let done = site.carry_out(async move { app.refund(id, by).await }).await;
    answered(&format!("/console/orders/{}", site.app.print(id)), done)
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    const AT: When = When(Moment::from_millis(1_777_629_600_000));

    impl OrdersPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let row = Row {
                id: "4K7ZQ0V5T1M2N".into(),
                item: "Lamp <b>".into(),
                buyer: "0ABCDEFGHJKMN".into(),
                units: 2,
                total: "¥198.00".into(),
                state: order_state(o, OrderState::Paid),
                at: AT,
            };
            let choice = Choice { value: "S".into(), label: "Lamp".into(), chosen: true };
            Self {
                sales: vec![choice],
                states: states(o, Some(OrderState::Paid)),
                missing: Some("nonsense".into()),
                filtered: true,
                export: Some("/console/sales/S/orders.csv".into()),
                orders: vec![row],
                next: Some("/console/orders?cursor=C".into()),
                o,
                desk,
            }
        }
    }

    impl OrderPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let step = |ahead| Step { word: "Paid".into(), at: AT, more: vec!["ref".into()], ahead };
            Self {
                id: "4K7ZQ0V5T1M2N".into(),
                sale: "S".into(),
                item: "Lamp".into(),
                buyer: "0ABCDEFGHJKMN".into(),
                units: 2,
                unit_numbers: "#1 #2".into(),
                unit_price: "¥99.00".into(),
                total: "¥198.00".into(),
                state: order_state(o, OrderState::Paid),
                reason: Some("sold_out"),
                steps: vec![step(false), step(true)],
                can_cancel: true,
                can_refund: true,
                o,
                desk,
            }
        }
    }
}
