//! Stock: the seed of a gate, and the log of all changes that the gate must apply.

use std::sync::Arc;

use tidegate_core::limits::MAX_STOCK;
use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Campaign, CampaignId, EventVerb, Moment, Order, Seed, Slot, Slots, StockChange, StockEntry, UserId,
};

use super::campaigns::{announce, by_id, lock};
use super::draws;
use super::idempotency::insert_key;
use super::rows::{broken, id, refused, sql, word};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, IdempotentRequest, LedgerError};

/// The embedded gate has one shard.
const SHARD: u32 = 0;

pub(crate) fn seed(connection: &Connection, campaign: CampaignId) -> engine::Result<Option<Seed>> {
    // One transaction, so that all parts are of the same snapshot.
    let snapshot = connection.read_transaction()?;
    read_seed(&snapshot, campaign)
}

pub(crate) fn reseed(tx: &Connection, campaign: CampaignId, now: Moment) -> engine::Result<Option<Seed>> {
    // Waits for transactions of recorders; later ones see the new epoch.
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
    Ok(Some(Seed { epoch, gate_state: found.gate_state(), top, taken, users, applied, shards, prizes }))
}

pub(crate) fn log_end(connection: &Connection, campaign: CampaignId) -> engine::Result<u64> {
    connection
        .prepare_cached(
            "SELECT seq FROM stock_log WHERE campaign = ? AND shard = ? ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(params![sql(campaign.raw()), SHARD], |row| id(row, "seq"))
        .optional()
        .map(|seq| seq.unwrap_or(0))
}

/// Appends to the log; the campaign's lock keeps its numbers without gaps.
pub(crate) fn log(
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

pub(crate) fn log_after(
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

pub(crate) fn restock(
    tx: &Connection,
    id: CampaignId,
    units: u32,
    by: &Actor,
    now: Moment,
    request: Option<IdempotentRequest>,
) -> engine::Result<Option<Result<Campaign, RestockRefused>>> {
    lock(tx, &[id])?;
    let Some(campaign) = by_id(tx, id)? else { return Ok(None) };
    if !campaign.runs() {
        return Ok(Some(Err(RestockRefused::NotRunning)));
    } else if campaign.stock > MAX_STOCK.saturating_sub(units) {
        return Ok(Some(Err(RestockRefused::TooMany)));
    }
    let top = campaign.top + units;
    resize(tx, id, campaign.stock + units, top, now)?;
    log(tx, id, &StockChange::Restock { top }, now)?;
    insert_key(tx, request, id.raw(), units.into(), now)?;
    announce(tx, &campaign, EventVerb::Restocked, by, now, Some(&format!("+{units}")))?;
    Ok(by_id(tx, id)?.map(Ok))
}

pub(crate) fn withdraw(
    tx: &Connection,
    id: CampaignId,
    withdrawal: &Withdrawal,
    by: &Actor,
    now: Moment,
    request: Option<IdempotentRequest>,
) -> engine::Result<Option<Campaign>> {
    lock(tx, &[id])?;
    let Some(campaign) = by_id(tx, id)? else { return Ok(None) };
    let cut = withdrawal.units - withdrawal.slots.units();
    if (campaign.epoch, campaign.top) != (withdrawal.epoch, withdrawal.top + cut)
        || campaign.stock < withdrawal.units
    {
        // The stock was changed or the gate rebuilt since the gate took the units out.
        return Err(refused("the stock was changed meanwhile"));
    }
    let mut insert = tx.prepare_cached("INSERT INTO held VALUES (?, ?, NULL)")?;
    for slot in withdrawal.slots.iter() {
        insert.execute(params![sql(id.raw()), slot])?;
    }
    resize(tx, id, campaign.stock - withdrawal.units, withdrawal.top, now)?;
    let change = StockChange::Withdraw { top: withdrawal.top, slots: withdrawal.slots.clone() };
    log(tx, id, &change, now)?;
    insert_key(tx, request, id.raw(), -i64::from(withdrawal.units), now)?;
    let detail = format!("-{}", withdrawal.units);
    announce(tx, &campaign, EventVerb::Restocked, by, now, Some(&detail))?;
    by_id(tx, id)
}

fn resize(tx: &Connection, id: CampaignId, stock: u32, top: Slot, now: Moment) -> engine::Result<()> {
    tx.execute(
        "UPDATE campaign SET stock = ?, top = ?, updated_at = ? WHERE id = ?",
        params![stock, top, now.millis(), sql(id.raw())],
    )?;
    Ok(())
}

/// Frees an order's slots, reduces the buyer's count and logs the return, which puts the units back on sale.
pub(crate) fn give_back(tx: &Connection, order: &Order, now: Moment) -> engine::Result<()> {
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

/// Why units were not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestockRefused {
    /// The sale is not published, or has ended.
    NotRunning,
    /// The stock would exceed `limits::MAX_STOCK`.
    TooMany,
}

/// The units of a campaign that the ledger accounts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerUnits {
    pub epoch: u32,
    pub stock: u32,
    /// Held by active orders, or returned by log entries that the gate has not applied.
    pub accounted: u64,
}

/// Log entries that a gate may be behind when its units are counted.
const MAX_BEHIND: u32 = 1000;

/// The slots that log entries after `applied` return; `None` if one of them changes the stock, or there are too many.
fn returned_after(
    connection: &Connection,
    campaign: CampaignId,
    applied: u64,
) -> engine::Result<Option<Vec<Slot>>> {
    let entries = log_after(connection, campaign, applied, MAX_BEHIND)?;
    let mut returned = Vec::new();
    for entry in &entries {
        let StockChange::Return { slots, .. } = &entry.change else { return Ok(None) };
        returned.extend(slots.iter());
    }
    Ok((entries.len() < MAX_BEHIND as usize).then_some(returned))
}

fn units(connection: &Connection, campaign: CampaignId, applied: u64) -> engine::Result<Option<LedgerUnits>> {
    let snapshot = connection.read_transaction()?;
    let sql_text = "SELECT epoch, stock, awaiting + paid AS active FROM campaign WHERE id = ?";
    let found = snapshot
        .prepare_cached(sql_text)?
        .query_row([sql(campaign.raw())], |row| {
            Ok((row.get::<_, u32>("epoch")?, row.get::<_, u32>("stock")?, row.get::<_, u32>("active")?))
        })
        .optional()?;
    let Some((epoch, stock, active)) = found else { return Ok(None) };
    let returned = returned_after(&snapshot, campaign, applied)?;
    Ok(returned.map(|returned| LedgerUnits {
        epoch,
        stock,
        accounted: u64::from(active) + returned.len() as u64,
    }))
}

/// The slots that are neither held, nor in `unsold`, nor returned by a log entry that the gate has not applied.
fn missing_slots(
    connection: &Connection,
    id: CampaignId,
    epoch: u32,
    applied: u64,
    unsold: &[Slot],
) -> engine::Result<Vec<Slot>> {
    let found = by_id(connection, id)?.filter(|campaign| campaign.epoch == epoch);
    let (Some(campaign), Some(returned)) = (found, returned_after(connection, id, applied)?) else {
        return Ok(Vec::new());
    };
    let held = connection
        .prepare_cached("SELECT slot FROM held WHERE campaign = ?")?
        .query_map([sql(id.raw())], |row| row.get(0))?
        .collect::<engine::Result<Vec<Slot>>>()?;
    let mut is_missing = vec![true; campaign.top as usize + 1];
    for slot in held.iter().chain(&returned).chain(unsold) {
        if let Some(missing) = is_missing.get_mut(*slot as usize) {
            *missing = false;
        }
    }
    Ok((1..=campaign.top).filter(|slot| is_missing[*slot as usize]).collect())
}

/// Puts missing slots back on sale; returns them.
fn return_missing(
    tx: &Connection,
    id: CampaignId,
    epoch: u32,
    applied: u64,
    unsold: &[Slot],
    now: Moment,
) -> engine::Result<Vec<Slot>> {
    lock(tx, &[id])?;
    let missing = missing_slots(tx, id, epoch, applied, unsold)?;
    if !missing.is_empty() {
        let slots = missing.iter().copied().collect();
        log(tx, id, &StockChange::Return { user: UserId::NOBODY, slots, prize: None }, now)?;
    }
    Ok(missing)
}

#[derive(Clone, Debug)]
pub struct Stock(pub(crate) Arc<Database>);

impl Stock {
    /// The state that a gate is rebuilt from.
    pub async fn seed(&self, campaign: CampaignId) -> Result<Option<Seed>, LedgerError> {
        self.0.scan(move |connection| seed(connection, campaign)).await
    }

    /// Begins a new epoch and returns its seed: claims of earlier epochs are rejected from now on.
    pub async fn reseed(&self, campaign: CampaignId, now: Moment) -> Result<Option<Seed>, LedgerError> {
        self.0.write_long(move |tx| reseed(tx, campaign, now)).await
    }

    /// The units that the ledger accounts for, if the gate has applied its log up to `applied`; `None` if the campaign
    /// does not exist, or its stock was changed since.
    pub async fn units(
        &self,
        campaign: CampaignId,
        applied: u64,
    ) -> Result<Option<LedgerUnits>, LedgerError> {
        self.0.read(move |connection| units(connection, campaign, applied)).await
    }

    /// The slots that `return_missing` would put back on sale.
    pub async fn missing_slots(
        &self,
        campaign: CampaignId,
        epoch: u32,
        applied: u64,
        unsold: Vec<Slot>,
    ) -> Result<Vec<Slot>, LedgerError> {
        let find = move |connection: &Connection| {
            let snapshot = connection.read_transaction()?;
            missing_slots(&snapshot, campaign, epoch, applied, &unsold)
        };
        self.0.scan(find).await
    }

    /// Puts slots back on sale that neither the ledger nor the gate has: `unsold` is what the gate had in this epoch
    /// when it had applied the log up to `applied`. Returns them.
    pub async fn return_missing(
        &self,
        campaign: CampaignId,
        epoch: u32,
        applied: u64,
        unsold: Vec<Slot>,
        now: Moment,
    ) -> Result<Vec<Slot>, LedgerError> {
        self.0.write_long(move |tx| return_missing(tx, campaign, epoch, applied, &unsold, now)).await
    }

    /// Entries of the stock log after `after`, oldest first.
    pub async fn log(
        &self,
        campaign: CampaignId,
        after: u64,
        most: u32,
    ) -> Result<Vec<StockEntry>, LedgerError> {
        self.0.read(move |connection| log_after(connection, campaign, after, most)).await
    }

    /// Adds units to a running sale; returns the campaign as it is then.
    pub async fn restock(
        &self,
        campaign: CampaignId,
        units: u32,
        by: Actor,
        now: Moment,
        request: Option<IdempotentRequest>,
    ) -> Result<Option<Result<Campaign, RestockRefused>>, LedgerError> {
        self.0.write(move |tx| restock(tx, campaign, units, &by, now, request)).await
    }

    /// Records units that the gate took out of sale; returns the campaign as it is then.
    pub async fn withdraw(
        &self,
        campaign: CampaignId,
        withdrawal: Withdrawal,
        by: Actor,
        now: Moment,
        request: Option<IdempotentRequest>,
    ) -> Result<Option<Campaign>, LedgerError> {
        self.0.write(move |tx| withdraw(tx, campaign, &withdrawal, &by, now, request)).await
    }
}
