//! Payments and refunds. A payment is booked once per provider and reference, and ends as a paid order or as
//! exactly one refund.

use tidegate_core::order::WrongState;
use tidegate_core::{Currency, Moment, Money, Order, OrderId, OrderState};

use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::events::{Told, tell};
use super::orders::{advance, by_id, locked};
use super::rows::{broken, id, moment, money, sql, word};
use super::{SqlLedger, stock};
use crate::ledger::{Actor, LedgerError, Payment, Settlement};

/// Money that has to go back to a buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRefund {
    pub provider: String,
    pub reference: String,
    pub order: OrderId,
    pub amount: Money,
    pub reason: String,
    pub at: Moment,
    pub done: bool,
}

/// Money that came in for an order.
#[derive(Clone, Debug)]
pub struct KeptPayment {
    pub provider: String,
    pub reference: String,
    pub amount: Money,
    pub at: Moment,
}

pub(super) fn settle(
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
        return refund_payment(tx, payment, before, "wrong_amount", now);
    }
    let from = before.state;
    match before.clone().pay(now) {
        Ok(after) => {
            advance(tx, from, &after, by, "order.paid")?;
            Ok(Settlement::Paid(after))
        }
        Err(refused) => refund_payment(tx, payment, before, late_reason(refused.state), now),
    }
}

const REASONS: [&str; 6] =
    ["wrong_amount", "already_paid", "order_cancelled", "order_expired", "order_refunded", "order_rejected"];

fn late_reason(state: OrderState) -> &'static str {
    match state {
        OrderState::Paid => "already_paid",
        OrderState::Cancelled => "order_cancelled",
        OrderState::Refunded => "order_refunded",
        OrderState::Rejected => "order_rejected",
        OrderState::Expired | OrderState::AwaitingPayment | OrderState::Queued => "order_expired",
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
    Ok(match reason.and_then(|reason| REASONS.iter().find(|known| **known == reason)) {
        Some(reason) => Settlement::Refund { order, reason },
        None => Settlement::Paid(order),
    })
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
    reason: &'static str,
    now: Moment,
) -> engine::Result<Settlement> {
    owe(tx, payment, &order, reason, now)?;
    Ok(Settlement::Refund { order, reason })
}

/// Records that a payment goes back; a second time for the same payment is refused by its key.
fn owe(tx: &Connection, payment: &Payment, order: &Order, reason: &str, now: Moment) -> engine::Result<()> {
    tx.prepare_cached("INSERT INTO refund VALUES (?, ?, ?, ?, ?, ?, ?, NULL)")?.execute(params![
        payment.provider,
        payment.reference,
        sql(order.id.raw()),
        payment.amount.amount,
        payment.amount.currency.as_str(),
        reason,
        now.millis()
    ])?;
    let told = Told {
        kind: "refund.due",
        campaign: Some(order.campaign),
        subject: order.id.raw(),
        detail: Some(reason),
    };
    tell(tx, &Actor::Clock, now, told)
}

pub(super) fn refund(
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
    advance(tx, from, &after, by, "order.refunded")?;
    owe(tx, &payment_kept(tx, &after)?, &after, "refunded_by_operator", now)?;
    Ok(Some(Ok(after)))
}

/// The one payment of a paid order that was not refunded.
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

fn due_refund(row: &Row<'_>) -> engine::Result<DueRefund> {
    Ok(DueRefund {
        provider: row.get("provider")?,
        reference: row.get("reference")?,
        order: OrderId::from_raw(id(row, "order_id")?),
        amount: amount(row)?,
        reason: row.get("reason")?,
        at: row.get("at").map(Moment::from_millis)?,
        done: row.get::<_, Option<i64>>("done_at")?.is_some(),
    })
}

impl SqlLedger {
    /// Refunds that the provider has not carried out yet, oldest first.
    pub async fn refunds_due(&self, most: u32) -> Result<Vec<DueRefund>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM refund WHERE done_at IS NULL ORDER BY at LIMIT ?")?
                .query_map([most], due_refund)?
                .collect()
        })
        .await
    }

    /// What was paid for an order, whether or not it went back; oldest first.
    pub async fn payments_of(&self, order: OrderId) -> Result<Vec<KeptPayment>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT *, amount AS price FROM payment WHERE order_id = ? ORDER BY at")?
                .query_map([sql(order.raw())], |row| {
                    Ok(KeptPayment {
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

    pub async fn refunds_of(&self, order: OrderId) -> Result<Vec<DueRefund>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM refund WHERE order_id = ? ORDER BY at")?
                .query_map([sql(order.raw())], due_refund)?
                .collect()
        })
        .await
    }

    /// The provider has given the money back.
    pub async fn refund_done(&self, refund: DueRefund, now: Moment) -> Result<(), LedgerError> {
        self.write(move |tx| {
            let changed = tx.execute(
                "UPDATE refund SET done_at = ? WHERE provider = ? AND reference = ? AND done_at IS NULL",
                params![now.millis(), refund.provider, refund.reference],
            )?;
            if changed == 0 {
                return Ok(());
            }
            let campaign = by_id(tx, refund.order)?.map(|order| order.campaign);
            let told = Told { kind: "refund.done", campaign, subject: refund.order.raw(), detail: None };
            tell(tx, &Actor::Clock, now, told)
        })
        .await
    }
}
