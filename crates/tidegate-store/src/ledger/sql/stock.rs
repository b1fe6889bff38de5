//! Stock: what a gate is seeded from, and the log of everything that changes what is for sale.

use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Campaign, CampaignId, Moment, Order, Seed, Slot, Slots, StockChange, StockEntry, UserId,
};

use super::campaigns::{announce, by_id, lock};
use super::draws;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::remembered::remember;
use super::rows::{broken, id, sql, word};
use crate::ledger::{Actor, Remember};

/// The embedded gate has one shard.
const SHARD: u32 = 0;

pub(super) fn seed(connection: &Connection, campaign: CampaignId) -> engine::Result<Option<Seed>> {
    // One transaction, so that all parts are of the same moment.
    let snapshot = connection.snapshot()?;
    read_seed(&snapshot, campaign)
}

pub(super) fn reseed(tx: &Connection, campaign: CampaignId, now: Moment) -> engine::Result<Option<Seed>> {
    // Waits for recorders in flight; later ones see the new epoch.
    lock(tx, &[campaign])?;
    tx.execute(
        "UPDATE campaign SET epoch = epoch + 1, updated_at = ? WHERE id = ?",
        params![now.millis(), sql(campaign.raw())],
    )?;
    read_seed(tx, campaign)
}

fn read_seed(connection: &Connection, campaign: CampaignId) -> engine::Result<Option<Seed>> {
    let Some(found) = by_id(connection, campaign)? else { return Ok(None) };
    let raw = sql(campaign.raw());
    let taken = connection
        .prepare_cached("SELECT slot FROM held WHERE campaign = ? ORDER BY slot")?
        .query_map([raw], |row| row.get(0))?
        .collect::<engine::Result<Vec<Slot>>>()?;
    let users = connection
        .prepare_cached("SELECT user, units FROM held_by_user WHERE campaign = ?")?
        .query_map([raw], |row| Ok((UserId::from_raw(id(row, "user")?), row.get("units")?)))?
        .collect::<engine::Result<Vec<_>>>()?;
    let applied = log_end(connection, campaign)?;
    let prizes = draws::prize_seed(connection, &found)?;
    let Campaign { epoch, top, shards, .. } = found;
    Ok(Some(Seed { epoch, door: found.door(), top, taken, users, applied, shards, prizes }))
}

pub(super) fn log_end(connection: &Connection, campaign: CampaignId) -> engine::Result<u64> {
    connection
        .prepare_cached(
            "SELECT seq FROM stock_log WHERE campaign = ? AND shard = ? ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(params![sql(campaign.raw()), SHARD], |row| id(row, "seq"))
        .optional()
        .map(|seq| seq.unwrap_or(0))
}

/// Appends to the log, without a gap.
pub(super) fn log(
    tx: &Connection,
    campaign: CampaignId,
    change: &StockChange,
    now: Moment,
) -> engine::Result<()> {
    let none = Slots::default();
    let (top, user, slots, prize) = match change {
        StockChange::Restock { top } => (Some(*top), None, &none, None),
        StockChange::Return { user, slots, prize } => (None, Some(sql(user.raw())), slots, *prize),
        StockChange::Withdraw { top, slots } => (Some(*top), None, slots, None),
    };
    let seq = log_end(tx, campaign)? + 1;
    tx.prepare_cached("INSERT INTO stock_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        sql(campaign.raw()),
        SHARD,
        sql(seq),
        change.kind(),
        top,
        user,
        slots.to_string(),
        now.millis(),
        prize
    ])?;
    Ok(())
}

pub(super) fn log_after(
    connection: &Connection,
    campaign: CampaignId,
    after: u64,
    most: u32,
) -> engine::Result<Vec<StockEntry>> {
    connection
        .prepare_cached(
            "SELECT * FROM stock_log WHERE campaign = ? AND shard = ? AND seq > ? ORDER BY seq LIMIT ?",
        )?
        .query_map(params![sql(campaign.raw()), SHARD, sql(after), most], entry)?
        .collect()
}

fn entry(row: &Row<'_>) -> engine::Result<StockEntry> {
    let slots = word(row, "slots", Slots::parse)?;
    let kind: String = row.get("kind")?;
    let change = match kind.as_str() {
        "restock" => StockChange::Restock { top: row.get("top")? },
        "withdraw" => StockChange::Withdraw { top: row.get("top")?, slots },
        _ => {
            let user = UserId::from_raw(id(row, "user")?);
            StockChange::Return { user, slots, prize: row.get("prize")? }
        }
    };
    Ok(StockEntry { seq: id(row, "seq")?, change })
}

pub(super) fn restock(
    tx: &Connection,
    id: CampaignId,
    units: u32,
    by: &Actor,
    now: Moment,
    key: Option<Remember>,
) -> engine::Result<Option<Campaign>> {
    lock(tx, &[id])?;
    let Some(campaign) = by_id(tx, id)? else { return Ok(None) };
    let top = campaign.top + units;
    resize(tx, id, campaign.stock + units, top, now)?;
    log(tx, id, &StockChange::Restock { top }, now)?;
    remember(tx, key, id.raw(), units.into(), now)?;
    announce(tx, &campaign, "restocked", by, now, Some(&format!("+{units}")))?;
    by_id(tx, id)
}

pub(super) fn withdraw(
    tx: &Connection,
    id: CampaignId,
    withdrawal: &Withdrawal,
    by: &Actor,
    now: Moment,
    key: Option<Remember>,
) -> engine::Result<Option<Campaign>> {
    lock(tx, &[id])?;
    let Some(campaign) = by_id(tx, id)? else { return Ok(None) };
    let cut = withdrawal.units - withdrawal.slots.units();
    if (campaign.epoch, campaign.top) != (withdrawal.epoch, withdrawal.top + cut)
        || campaign.stock < withdrawal.units
    {
        // Somebody else has changed the stock, or rebuilt the gate, since the gate took them out.
        return Err(broken("the stock was changed meanwhile"));
    }
    let mut insert = tx.prepare_cached("INSERT INTO held VALUES (?, ?, NULL)")?;
    for slot in withdrawal.slots.iter() {
        insert.execute(params![sql(id.raw()), slot])?;
    }
    resize(tx, id, campaign.stock - withdrawal.units, withdrawal.top, now)?;
    let change = StockChange::Withdraw { top: withdrawal.top, slots: withdrawal.slots.clone() };
    log(tx, id, &change, now)?;
    remember(tx, key, id.raw(), -i64::from(withdrawal.units), now)?;
    let detail = format!("-{}", withdrawal.units);
    announce(tx, &campaign, "restocked", by, now, Some(&detail))?;
    by_id(tx, id)
}

fn resize(tx: &Connection, id: CampaignId, stock: u32, top: Slot, now: Moment) -> engine::Result<()> {
    tx.execute(
        "UPDATE campaign SET stock = ?, top = ?, updated_at = ? WHERE id = ?",
        params![stock, top, now.millis(), sql(id.raw())],
    )?;
    Ok(())
}

/// Frees an order's slots: no longer held, no longer counted, back for sale through the log.
pub(super) fn give_back(tx: &Connection, order: &Order, now: Moment) -> engine::Result<()> {
    let campaign = sql(order.campaign.raw());
    let mut delete =
        tx.prepare_cached("DELETE FROM held WHERE campaign = ? AND slot = ? AND order_id = ?")?;
    for slot in order.slots.iter() {
        let deleted = delete.execute(params![campaign, slot, sql(order.id.raw())])?;
        if deleted != 1 {
            return Err(broken(format!("order {} is active but does not hold slot {slot}", order.id.raw())));
        }
    }
    tx.prepare_cached("UPDATE held_by_user SET units = units - ? WHERE campaign = ? AND user = ?")?
        .execute(params![order.quantity(), campaign, sql(order.user.raw())])?;
    let change = StockChange::Return { user: order.user, slots: order.slots.clone(), prize: None };
    log(tx, order.campaign, &change, now)
}
