//! Orders: found, listed, cancelled, expired. Every change is guarded by the state it starts from.

use tidegate_core::order::WrongState;
use tidegate_core::{CampaignId, IdempotencyKey, Moment, Order, OrderId, OrderState, UserId};

use super::campaigns::lock;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use super::events::{Told, tell};
use super::rows::{broken, order, sql};
use super::{SqlLedger, stock};
use crate::ledger::{Actor, LedgerError, Page};

/// `orders` with its campaign's item.
macro_rules! select_orders {
    ($rest:literal) => {
        concat!("SELECT orders.*, campaign.item AS item FROM orders JOIN campaign ON campaign.id = orders.campaign ", $rest)
    };
}

pub(super) fn by_id(connection: &Connection, id: OrderId) -> engine::Result<Option<Order>> {
    let mut select = connection.prepare_cached(select_orders!("WHERE orders.id = ?"))?;
    select.query_row([sql(id.raw())], order).optional()
}

/// The order, with its campaign locked.
pub(super) fn locked(tx: &Connection, id: OrderId) -> engine::Result<Option<Order>> {
    let Some(order) = by_id(tx, id)? else { return Ok(None) };
    if !tx.is_shared() {
        return Ok(Some(order));
    }
    lock(tx, &[order.campaign])?;
    by_id(tx, id)
}

pub(super) fn next_deadline(connection: &Connection) -> engine::Result<Option<Moment>> {
    connection
        .prepare_cached("SELECT pay_by FROM orders WHERE state = 'awaiting_payment' ORDER BY pay_by LIMIT 1")?
        .query_row(params![], |row| row.get(0).map(Moment::from_millis))
        .optional()
}

/// Writes the order's new state, if it is still in the one it came from, and moves the campaign's tally.
pub(super) fn advance(
    tx: &Connection,
    from: OrderState,
    to: &Order,
    by: &Actor,
    kind: &str,
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
    let told = Told { kind, campaign: Some(to.campaign), subject: to.id.raw(), detail: None };
    tell(tx, by, to.updated_at, told)
}

pub(super) fn cancel(
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
    advance(tx, from, &after, by, "order.cancelled")?;
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

pub(super) fn expire_due(tx: &Connection, now: Moment, most: u32) -> engine::Result<Vec<Order>> {
    let mut due_now = due(tx, now, most)?;
    if tx.is_shared() && !due_now.is_empty() {
        // Another node may be about it, too: looked at again once nobody else can.
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
        advance(tx, from, &after, &Actor::Clock, "order.expired")?;
        expired.push(after);
    }
    Ok(expired)
}

/// Which orders an operator wants to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderFilter {
    pub campaign: Option<CampaignId>,
    pub state: Option<OrderState>,
}

impl SqlLedger {
    pub async fn find_order(&self, id: OrderId) -> Result<Option<Order>, LedgerError> {
        self.read(move |connection| by_id(connection, id)).await
    }

    pub async fn find_by_key(&self, user: UserId, key: IdempotencyKey) -> Result<Option<Order>, LedgerError> {
        self.read(move |connection| {
            let mut select =
                connection.prepare_cached(select_orders!("WHERE orders.user = ? AND orders.key = ?"))?;
            select.query_row(params![sql(user.raw()), key.0], order).optional()
        })
        .await
    }

    /// A buyer's orders, newest first.
    pub async fn orders_of(&self, user: UserId, page: Page) -> Result<Vec<Order>, LedgerError> {
        self.read(move |connection| {
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

    /// Units of unpaid orders that are due by each of these moments, the last of which is the latest, by campaign; those that
    /// have none are left out.
    ///
    /// Read from the index of deadlines, from its front: the plus keeps the planner from the campaigns' own index, which has
    /// paid orders, too.
    pub async fn units_due(&self, by: [Moment; 3]) -> Result<Vec<(CampaignId, [u64; 3])>, LedgerError> {
        self.scan(move |connection| {
            connection
                .prepare_cached(
                    "SELECT campaign, coalesce(sum(CASE WHEN pay_by <= ?1 THEN units ELSE 0 END), 0) AS first,
                            coalesce(sum(CASE WHEN pay_by <= ?2 THEN units ELSE 0 END), 0) AS second,
                            coalesce(sum(units), 0) AS third
                     FROM (SELECT +campaign AS campaign, pay_by, 1 + length(slots) - length(replace(slots, ',', '')) AS units
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

    /// Everybody's orders, newest first.
    pub async fn orders(&self, filter: OrderFilter, page: Page) -> Result<Vec<Order>, LedgerError> {
        let of_one = select_orders!(
            "WHERE orders.campaign = ?1 AND orders.id < ?3 AND (CAST(?2 AS TEXT) IS NULL OR orders.state = ?2)
             ORDER BY orders.id DESC LIMIT ?4"
        );
        let of_all = select_orders!(
            "WHERE CAST(?1 AS BIGINT) IS NULL AND orders.id < ?3 AND (CAST(?2 AS TEXT) IS NULL OR orders.state = ?2)
             ORDER BY orders.id DESC LIMIT ?4"
        );
        self.scan(move |connection| {
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
}
