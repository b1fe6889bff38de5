//! One order: its terms, its history, and cancelling or refunding it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::ledger_types::{PaymentRecord, RefundRecord};
use tidegate_core::{Order, OrderId, OrderState, Role};
use tidegate_http::Site;

use crate::badge::Badge;
use crate::console::badges::order_badge;
use crate::console::listing::PathId;
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::{Timestamp, money};
use crate::forms::Form;
use crate::i18n::phrases::orders::OrderPhrases;
use crate::page::{PageError, render};

/// Unit numbers listed on the page; an order may have more.
const MAX_UNIT_NUMBERS: usize = 50;

#[derive(Template)]
#[template(path = "console/order.html")]
pub(crate) struct OrderPage {
    ctx: ConsoleContext,
    t: &'static OrderPhrases,
    id: String,
    sale: String,
    item: String,
    buyer: String,
    units: u32,
    unit_numbers: String,
    unit_price: String,
    total: String,
    state: Badge,
    reason: Option<&'static str>,
    steps: Vec<Step>,
    can_cancel: bool,
    can_refund: bool,
}

/// An entry of the order's history.
#[derive(Debug)]
struct Step {
    label: String,
    at: Timestamp,
    details: Vec<String>,
    /// The step is still to come.
    is_future: bool,
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<OrderId>,
) -> Result<Response, PageError> {
    let (app, t) = (&site.app, OrderPhrases::of(session.ctx.lang));
    let order = app.ordering.recorded_order(id).await?;
    let (payments, refunds) = (app.ordering.payments_of(id).await?, app.ordering.refunds_of(id).await?);
    let mut numbers: Vec<_> =
        order.slots.iter().take(MAX_UNIT_NUMBERS).map(|slot| format!("#{slot}")).collect();
    if order.quantity() as usize > MAX_UNIT_NUMBERS {
        numbers.push("…".to_owned());
    }
    Ok(render(&OrderPage {
        id: app.print(order.id),
        sale: app.print(order.campaign),
        item: app.catalogue.item(order.item).await?.name,
        buyer: app.print(order.user),
        units: order.quantity(),
        unit_numbers: numbers.join(" "),
        unit_price: money(order.unit_price),
        total: money(order.total()),
        state: order_badge(t, order.state),
        reason: order.reason.map(tidegate_core::Rejection::code),
        steps: steps(t, &order, &payments, &refunds),
        can_cancel: order.state == OrderState::AwaitingPayment,
        can_refund: order.state == OrderState::Paid,
        t,
        ctx: session.ctx,
    }))
}

/// The order's history, oldest first.
fn steps(t: &OrderPhrases, order: &Order, payments: &[PaymentRecord], refunds: &[RefundRecord]) -> Vec<Step> {
    let step = |label: String, at, details: Vec<String>| Step {
        label,
        at: Timestamp(at),
        details,
        is_future: false,
    };
    let mut steps = vec![step(t.ordered.to_string(), order.created_at, Vec::new())];
    for payment in payments {
        let details = vec![money(payment.amount), payment.reference.clone()];
        steps.push(step(t.paid_by.with(&payment.provider), payment.at, details));
    }
    match order.state {
        OrderState::Queued | OrderState::Paid => {}
        OrderState::AwaitingPayment => {
            steps.push(Step { is_future: true, ..step(t.pay_by.to_string(), order.pay_by, Vec::new()) });
        }
        state => steps.push(step(order_badge(t, state).label.to_string(), order.updated_at, Vec::new())),
    }
    for refund in refunds {
        let label = if refund.done { t.refund_done } else { t.refund_due };
        let details = vec![money(refund.amount), refund.reference.clone(), refund.reason.to_string()];
        steps.push(step(label.with(&refund.provider), refund.at, details));
    }
    steps.sort_by_key(|step| step.at.0);
    steps
}

pub(crate) async fn cancel(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<OrderId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.ordering.cancel_for(id, by).await }).await;
    redirect_with_notice(&format!("/console/orders/{}", site.app.print(id)), done)
}

pub(crate) async fn refund(
    State(site): State<Site>,
    session: OperatorSession,
    PathId(id): PathId<OrderId>,
    _: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let (app, by) = (site.app.clone(), session.operator.actor());
    let done = site.run_to_completion(async move { app.ordering.refund(id, by).await }).await;
    redirect_with_notice(&format!("/console/orders/{}", site.app.print(id)), done)
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    const AT: Timestamp = Timestamp(Moment::from_millis(1_777_629_600_000));

    impl OrderPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = OrderPhrases::of(ctx.lang);
            let step =
                |is_future| Step { label: "Paid".into(), at: AT, details: vec!["ref".into()], is_future };
            Self {
                id: "4K7ZQ0V5T1M2N".into(),
                sale: "S".into(),
                item: "Lamp".into(),
                buyer: "0ABCDEFGHJKMN".into(),
                units: 2,
                unit_numbers: "#1 #2".into(),
                unit_price: "¥99.00".into(),
                total: "¥198.00".into(),
                state: order_badge(t, OrderState::Paid),
                reason: Some("sold_out"),
                steps: vec![step(false), step(true)],
                can_cancel: true,
                can_refund: true,
                t,
                ctx,
            }
        }
    }
}
