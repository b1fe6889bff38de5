//! Payments and refunds. A payment is booked once per provider and reference, and ends as a paid order or as
//! exactly one refund.

use std::sync::Arc;

use tidegate_core::order::WrongState;
use tidegate_core::{Currency, EventKind, Moment, Money, Order, OrderId, RefundReason, Stored};

use super::events::{NewEvent, append_event};
use super::orders::{advance, by_id, locked};
use super::rows::{broken, id, moment, money, sql, word};
use super::stock;
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, LedgerError, Payment, Settlement};

/// A refund, due or done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundRecord {
    pub provider: String,
    pub reference: String,
    pub order: OrderId,
    pub amount: Money,
    pub reason: Stored<RefundReason>,
    pub at: Moment,
    pub done: bool,
}

/// A booked payment.
#[derive(Clone, Debug)]
pub struct PaymentRecord {
    pub provider: String,
    pub reference: String,
    pub amount: Money,
    pub at: Moment,
}

pub(crate) fn settle(
    tx: &Connection,
    payment: &Payment,
    by: &Actor,
    now: Moment,
) -> engine::Result<Settlement> {
    let Some(before) = locked(tx, payment.order)? else { return Ok(Settlement::NoSuchOrder) };
    if let Some((order, amount)) = booked(tx, payment)? {
        if order != payment.order || amount != payment.amount.amount {
            let what =
                format!("the reference {} of {} names two payments", payment.reference, payment.provider);
            return Err(broken(what));
        }
        return settled_before(tx, payment, before);
    }
    book(tx, payment, now)?;
    if payment.amount != before.total() {
        return refund_payment(tx, payment, before, RefundReason::WrongAmount, now);
    }
    let from = before.state;
    match before.clone().pay(now) {
        Ok(after) => {
            advance(tx, from, &after, by, EventKind::OrderPaid)?;
            Ok(Settlement::Paid(after))
        }
        Err(refused) => {
            refund_payment(tx, payment, before, RefundReason::of_late_payment(refused.state), now)
        }
    }
}

fn booked(tx: &Connection, payment: &Payment) -> engine::Result<Option<(OrderId, i64)>> {
    tx.prepare_cached("SELECT order_id, amount FROM payment WHERE provider = ? AND reference = ?")?
        .query_row(params![payment.provider, payment.reference], |row| {
            Ok((OrderId::from_raw(id(row, "order_id")?), row.get("amount")?))
        })
        .optional()
}

fn settled_before(tx: &Connection, payment: &Payment, order: Order) -> engine::Result<Settlement> {
    let reason: Option<String> = tx
        .prepare_cached("SELECT reason FROM refund WHERE provider = ? AND reference = ?")?
        .query_row(params![payment.provider, payment.reference], |row| row.get("reason"))
        .optional()?;
    let Some(reason) = reason else { return Ok(Settlement::Paid(order)) };
    match RefundReason::parse(&reason) {
        // The payment was kept; an operator gave it back later.
        Some(RefundReason::RefundedByOperator) => Ok(Settlement::Paid(order)),
        Some(reason) => Ok(Settlement::Refund { order, reason }),
        None => Err(broken(format!("a refund's reason is {reason:?}, which this program does not know"))),
    }
}

fn book(tx: &Connection, payment: &Payment, now: Moment) -> engine::Result<()> {
    tx.prepare_cached("INSERT INTO payment VALUES (?, ?, ?, ?, ?, ?)")?.execute(params![
        payment.provider,
        payment.reference,
        sql(payment.order.raw()),
        payment.amount.amount,
        payment.amount.currency.as_str(),
        now.millis()
    ])?;
    Ok(())
}

fn refund_payment(
    tx: &Connection,
    payment: &Payment,
    order: Order,
    reason: RefundReason,
    now: Moment,
) -> engine::Result<Settlement> {
    owe(tx, payment, &order, reason, now)?;
    Ok(Settlement::Refund { order, reason })
}

/// Inserts a refund; the primary key rejects a second one for the same payment.
fn owe(
    tx: &Connection,
    payment: &Payment,
    order: &Order,
    reason: RefundReason,
    now: Moment,
) -> engine::Result<()> {
    tx.prepare_cached("INSERT INTO refund VALUES (?, ?, ?, ?, ?, ?, ?, NULL)")?.execute(params![
        payment.provider,
        payment.reference,
        sql(order.id.raw()),
        payment.amount.amount,
        payment.amount.currency.as_str(),
        reason.as_str(),
        now.millis()
    ])?;
    let event = NewEvent {
        kind: EventKind::RefundDue,
        campaign: Some(order.campaign),
        subject: order.id.raw(),
        detail: Some(reason.as_str()),
    };
    append_event(tx, &Actor::Clock, now, event)
}

pub(crate) fn refund(
    tx: &Connection,
    order: OrderId,
    by: &Actor,
    now: Moment,
) -> engine::Result<Option<Result<Order, WrongState>>> {
    let Some(before) = locked(tx, order)? else { return Ok(None) };
    let from = before.state;
    let after = match before.refund(now) {
        Ok(after) => after,
        Err(refused) => return Ok(Some(Err(refused))),
    };
    stock::give_back(tx, &after, now)?;
    advance(tx, from, &after, by, EventKind::OrderRefunded)?;
    owe(tx, &payment_kept(tx, &after)?, &after, RefundReason::RefundedByOperator, now)?;
    Ok(Some(Ok(after)))
}

/// The only payment of a paid order without a refund.
fn payment_kept(tx: &Connection, order: &Order) -> engine::Result<Payment> {
    tx.prepare_cached(
        "SELECT provider, reference, amount, currency FROM payment WHERE order_id = ?
         AND NOT EXISTS (SELECT 1 FROM refund WHERE refund.provider = payment.provider
                         AND refund.reference = payment.reference)",
    )?
    .query_row([sql(order.id.raw())], |row| {
        Ok(Payment {
            provider: row.get("provider")?,
            reference: row.get("reference")?,
            order: order.id,
            amount: amount(row)?,
        })
    })
}

fn amount(row: &Row<'_>) -> engine::Result<Money> {
    let currency = word(row, "currency", |text| text.parse::<Currency>().ok())?;
    Ok(Money { amount: row.get("amount")?, currency })
}

fn due_refund(row: &Row<'_>) -> engine::Result<RefundRecord> {
    Ok(RefundRecord {
        provider: row.get("provider")?,
        reference: row.get("reference")?,
        order: OrderId::from_raw(id(row, "order_id")?),
        amount: amount(row)?,
        reason: Stored::read(row.get("reason")?),
        at: row.get("at").map(Moment::from_millis)?,
        done: row.get::<_, Option<i64>>("done_at")?.is_some(),
    })
}

#[derive(Clone, Debug)]
pub struct Payments(pub(crate) Arc<Database>);

impl Payments {
    /// Refunds that the provider has not completed yet, oldest first.
    pub async fn refunds_due(&self, most: u32) -> Result<Vec<RefundRecord>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM refund WHERE done_at IS NULL ORDER BY at LIMIT ?")?
                    .query_map([most], due_refund)?
                    .collect()
            })
            .await
    }

    /// An order's payments, refunded or not, oldest first.
    pub async fn by_order(&self, order: OrderId) -> Result<Vec<PaymentRecord>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT *, amount AS price FROM payment WHERE order_id = ? ORDER BY at")?
                    .query_map([sql(order.raw())], |row| {
                        Ok(PaymentRecord {
                            provider: row.get("provider")?,
                            reference: row.get("reference")?,
                            amount: money(row)?,
                            at: moment(row, "at")?,
                        })
                    })?
                    .collect()
            })
            .await
    }

    pub async fn refunds_of(&self, order: OrderId) -> Result<Vec<RefundRecord>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM refund WHERE order_id = ? ORDER BY at")?
                    .query_map([sql(order.raw())], due_refund)?
                    .collect()
            })
            .await
    }

    /// Marks a refund as completed by the provider.
    pub async fn complete_refund(&self, refund: RefundRecord, now: Moment) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| {
                let changed = tx.execute(
                    "UPDATE refund SET done_at = ? WHERE provider = ? AND reference = ? AND done_at IS NULL",
                    params![now.millis(), refund.provider, refund.reference],
                )?;
                if changed == 0 {
                    return Ok(());
                }
                let campaign = by_id(tx, refund.order)?.map(|order| order.campaign);
                let event = NewEvent {
                    kind: EventKind::RefundDone,
                    campaign,
                    subject: refund.order.raw(),
                    detail: None,
                };
                append_event(tx, &Actor::Clock, now, event)
            })
            .await
    }

    /// Books a payment, once per provider and reference.
    pub async fn settle(&self, payment: Payment, by: Actor, now: Moment) -> Result<Settlement, LedgerError> {
        self.0.write(move |tx| settle(tx, &payment, &by, now)).await
    }

    /// Refunds a paid order: its money goes back to the buyer, its units go back on sale.
    pub async fn refund(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.0.write(move |tx| refund(tx, id, &by, now)).await
    }
}
