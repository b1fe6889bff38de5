//! Orders. Every change is a compare-and-set on the order's state.

use std::sync::Arc;

use tidegate_core::order::WrongState;
use tidegate_core::{CampaignId, EventKind, IdempotencyKey, Moment, Order, OrderId, OrderState, UserId};

use super::campaigns::lock;
use super::events::{NewEvent, append_event};
use super::rows::{broken, id as read_id, order, sql};
use super::stock;
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, params};
use crate::{Actor, LedgerError, Page};

/// Selects from `orders`, joined with the campaign's item.
macro_rules! select_orders {
    ($rest:literal) => {
        concat!(
            "SELECT orders.*, campaign.item AS item FROM orders
             JOIN campaign ON campaign.id = orders.campaign ",
            $rest
        )
    };
}

pub(crate) fn by_id(connection: &Connection, id: OrderId) -> engine::Result<Option<Order>> {
    let mut select = connection.prepare_cached(select_orders!("WHERE orders.id = ?"))?;
    select.query_row([sql(id.raw())], order).optional()
}

/// Locks the order's campaign, then reads the order.
pub(crate) fn locked(tx: &Connection, id: OrderId) -> engine::Result<Option<Order>> {
    let Some(order) = by_id(tx, id)? else { return Ok(None) };
    if !tx.is_shared() {
        return Ok(Some(order));
    }
    lock(tx, &[order.campaign])?;
    by_id(tx, id)
}

pub(crate) fn next_deadline(connection: &Connection) -> engine::Result<Option<Moment>> {
    connection
        .prepare_cached("SELECT pay_by FROM orders WHERE state = 'awaiting_payment' ORDER BY pay_by LIMIT 1")?
        .query_row(params![], |row| row.get(0).map(Moment::from_millis))
        .optional()
}

/// Compare-and-set of the order's state; updates the campaign's tally and appends the event.
pub(crate) fn advance(
    tx: &Connection,
    from: OrderState,
    to: &Order,
    by: &Actor,
    kind: EventKind,
) -> engine::Result<()> {
    let changed = tx
        .prepare_cached("UPDATE orders SET state = ?, updated_at = ? WHERE id = ? AND state = ?")?
        .execute(params![to.state.as_str(), to.updated_at.millis(), sql(to.id.raw()), from.as_str()])?;
    if changed != 1 {
        return Err(broken(format!("order {} is no longer {}", to.id.raw(), from.as_str())));
    }
    let units = i64::from(to.quantity());
    let delta = |state| {
        let entered = if to.state == state { units } else { 0 };
        let left = if from == state { units } else { 0 };
        entered - left
    };
    let returned = if to.state.is_active() { 0 } else { units };
    tx.prepare_cached(
        "UPDATE campaign SET awaiting = awaiting + ?, paid = paid + ?, returned = returned + ? WHERE id = ?",
    )?
    .execute(params![
        delta(OrderState::AwaitingPayment),
        delta(OrderState::Paid),
        returned,
        sql(to.campaign.raw())
    ])?;
    let event = NewEvent { kind, campaign: Some(to.campaign), subject: to.id.raw(), detail: None };
    append_event(tx, by, to.updated_at, event)
}

pub(crate) fn cancel(
    tx: &Connection,
    id: OrderId,
    by: &Actor,
    now: Moment,
) -> engine::Result<Option<Result<Order, WrongState>>> {
    let Some(before) = locked(tx, id)? else { return Ok(None) };
    let from = before.state;
    let after = match before.cancel(now) {
        Ok(after) => after,
        Err(refused) => return Ok(Some(Err(refused))),
    };
    stock::give_back(tx, &after, now)?;
    advance(tx, from, &after, by, EventKind::OrderCancelled)?;
    Ok(Some(Ok(after)))
}

fn due(connection: &Connection, now: Moment, most: u32) -> engine::Result<Vec<Order>> {
    connection
        .prepare_cached(select_orders!(
            "WHERE orders.state = 'awaiting_payment' AND pay_by <= ? ORDER BY pay_by LIMIT ?"
        ))?
        .query_map(params![now.millis(), most], order)?
        .collect()
}

pub(crate) fn expire_due(tx: &Connection, now: Moment, most: u32) -> engine::Result<Vec<Order>> {
    let mut due_now = due(tx, now, most)?;
    if tx.is_shared() && !due_now.is_empty() {
        // Another node may expire them at the same time: read again under the lock.
        let campaigns: Vec<CampaignId> = due_now.iter().map(|order| order.campaign).collect();
        lock(tx, &campaigns)?;
        due_now = due(tx, now, most)?;
        due_now.retain(|order| campaigns.contains(&order.campaign));
    }
    let mut expired = Vec::with_capacity(due_now.len());
    for before in due_now {
        let from = before.state;
        let after = before.expire(now).map_err(|refused| broken(refused.to_string()))?;
        stock::give_back(tx, &after, now)?;
        advance(tx, from, &after, &Actor::Clock, EventKind::OrderExpired)?;
        expired.push(after);
    }
    Ok(expired)
}

/// Expires one order; `None` if it is not due any more.
fn expire_one(tx: &Connection, id: OrderId, now: Moment) -> engine::Result<Option<Order>> {
    let Some(before) = locked(tx, id)? else { return Ok(None) };
    let from = before.state;
    let Ok(after) = before.expire(now) else { return Ok(None) };
    stock::give_back(tx, &after, now)?;
    advance(tx, from, &after, &Actor::Clock, EventKind::OrderExpired)?;
    Ok(Some(after))
}

/// Filter of an operator's list of orders.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderFilter {
    pub campaign: Option<CampaignId>,
    pub state: Option<OrderState>,
}

#[derive(Clone, Debug)]
pub struct Orders(pub(crate) Arc<Database>);

impl Orders {
    pub async fn get(&self, id: OrderId) -> Result<Option<Order>, LedgerError> {
        self.0.read(move |connection| by_id(connection, id)).await
    }

    pub async fn by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Order>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select =
                    connection.prepare_cached(select_orders!("WHERE orders.user = ? AND orders.key = ?"))?;
                select.query_row(params![sql(user.raw()), key.0], order).optional()
            })
            .await
    }

    /// A buyer's orders, newest first.
    pub async fn by_buyer(&self, user: UserId, page: Page) -> Result<Vec<Order>, LedgerError> {
        self.0
            .read(move |connection| {
                let before = page.before.map_or(i64::MAX, sql);
                connection
                    .prepare_cached(select_orders!(
                        "WHERE orders.user = ? AND orders.id < ? ORDER BY orders.id DESC LIMIT ?"
                    ))?
                    .query_map(params![sql(user.raw()), before, page.limit], order)?
                    .collect()
            })
            .await
    }

    /// Units of unpaid orders due by each of three ascending times, per campaign; campaigns without any are left out.
    ///
    /// Scans the index of deadlines from its front. The unary plus keeps SQLite's planner from using the campaign's
    /// index, which contains paid orders, too.
    pub async fn units_due(&self, by: [Moment; 3]) -> Result<Vec<(CampaignId, [u64; 3])>, LedgerError> {
        self.0.scan(move |connection| {
            connection
                .prepare_cached(
                    "SELECT campaign, coalesce(sum(CASE WHEN pay_by <= ?1 THEN units ELSE 0 END), 0) AS first,
                            coalesce(sum(CASE WHEN pay_by <= ?2 THEN units ELSE 0 END), 0) AS second,
                            coalesce(sum(units), 0) AS third
                     FROM (SELECT +campaign AS campaign, pay_by,
                                  1 + length(slots) - length(replace(slots, ',', '')) AS units
                           FROM orders WHERE state = 'awaiting_payment' AND pay_by <= ?3) AS due GROUP BY campaign",
                )?
                .query_map(params![by[0].millis(), by[1].millis(), by[2].millis()], |row| {
                    let units = |column: &'static str| row.get::<_, i64>(column).map(i64::cast_unsigned);
                    let due = [units("first")?, units("second")?, units("third")?];
                    Ok((CampaignId::from_raw(units("campaign")?), due))
                })?
                .collect()
        })
        .await
    }

    /// All buyers' orders, newest first.
    pub async fn list(&self, filter: OrderFilter, page: Page) -> Result<Vec<Order>, LedgerError> {
        let of_one = select_orders!(
            "WHERE orders.campaign = ?1 AND orders.id < ?3 AND (CAST(?2 AS TEXT) IS NULL OR orders.state = ?2)
             ORDER BY orders.id DESC LIMIT ?4"
        );
        let of_all = select_orders!(
            "WHERE CAST(?1 AS BIGINT) IS NULL AND orders.id < ?3 AND (CAST(?2 AS TEXT) IS NULL OR orders.state = ?2)
             ORDER BY orders.id DESC LIMIT ?4"
        );
        self.0
            .scan(move |connection| {
                let campaign = filter.campaign.map(|campaign| sql(campaign.raw()));
                let state = filter.state.map(OrderState::as_str);
                let before = page.before.map_or(i64::MAX, sql);
                connection
                    .prepare_cached(if campaign.is_some() { of_one } else { of_all })?
                    .query_map(params![campaign, state, before, page.limit], order)?
                    .collect()
            })
            .await
    }

    /// Cancels an unpaid order and returns its units; `None` if the order does not exist.
    pub async fn cancel(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<Result<Order, WrongState>>, LedgerError> {
        self.0.write(move |tx| cancel(tx, id, &by, now)).await
    }

    /// Expires up to `most` orders whose deadline has passed, the most overdue first.
    pub async fn expire_due(&self, now: Moment, most: u32) -> Result<Vec<Order>, LedgerError> {
        self.0.write(move |tx| expire_due(tx, now, most)).await
    }

    /// Like `expire_due`, each in a transaction of its own. Returns the orders that cannot be expired, too, each with
    /// the reason.
    pub async fn expire_each(
        &self,
        now: Moment,
        most: u32,
    ) -> Result<(Vec<Order>, Vec<(OrderId, LedgerError)>), LedgerError> {
        let sql_text =
            "SELECT id FROM orders WHERE state = 'awaiting_payment' AND pay_by <= ? ORDER BY pay_by LIMIT ?";
        let due = self
            .0
            .read(move |connection| {
                let mut select = connection.prepare_cached(sql_text)?;
                let ids = select.query_map(params![now.millis(), most], |row| read_id(row, "id"))?;
                ids.collect::<engine::Result<Vec<u64>>>()
            })
            .await?;
        let (mut expired, mut failed) = (Vec::new(), Vec::new());
        for id in due.into_iter().map(OrderId::from_raw) {
            match self.0.write(move |tx| expire_one(tx, id, now)).await {
                Ok(order) => expired.extend(order),
                Err(error @ LedgerError::Unexpected(_)) => failed.push((id, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((expired, failed))
    }

    /// The earliest deadline of an unpaid order.
    pub async fn next_deadline(&self) -> Result<Option<Moment>, LedgerError> {
        self.0.read(next_deadline).await
    }
}
