//! Recording: claims become orders and plays, in order, exactly once.
//!
//! The position is committed with the rows and must follow the last one, so a batch recorded twice or out of
//! order fails as a whole. A conflict rejects that claim alone; those of its slots that nobody holds go back on sale.

use std::sync::Arc;

use hashbrown::HashMap;
use rusqlite::{Connection, OptionalExtension, params};
use tidegate_core::{
    Campaign, CampaignId, Claim, Granted, Kind, Moment, OrderState, PlayState, Rejection, Slot, Slots,
    StockChange,
};

use super::campaigns::by_id;
use super::draws;
use super::events::{Told, tell};
use super::plays;
use super::rows::{broken, id, sql};
use super::stock::log;
use crate::intake::Position;
use crate::ledger::{Actor, History, Recorded};

pub(super) fn position(connection: &Connection) -> rusqlite::Result<Position> {
    connection.prepare_cached("SELECT recorded FROM intake")?.query_row([], |row| id(row, "recorded"))
}

pub(super) fn record(
    tx: &Connection,
    first: Option<Position>,
    claims: &[Arc<Claim>],
    now: Moment,
) -> rusqlite::Result<Vec<Recorded>> {
    if let Some(first) = first {
        move_on(tx, first, claims.len() as u64)?;
    }
    let mut books: HashMap<CampaignId, Option<Book>> = HashMap::new();
    let mut outcomes = Vec::with_capacity(claims.len());
    for claim in claims {
        let book = match books.entry(claim.campaign) {
            hashbrown::hash_map::Entry::Occupied(found) => found.into_mut(),
            hashbrown::hash_map::Entry::Vacant(new) => new.insert(Book::open(tx, claim.campaign)?),
        };
        outcomes.push(record_one(tx, book.as_mut(), claim, now)?);
    }
    for book in books.into_values().flatten() {
        book.close(tx)?;
    }
    Ok(outcomes)
}

/// A campaign while a batch is recorded, and what the batch adds to its row.
struct Book {
    campaign: Campaign,
    awaiting: u32,
    played: u32,
    /// A draw's, as far as it goes.
    history: History,
}

impl Book {
    fn open(tx: &Connection, campaign: CampaignId) -> rusqlite::Result<Option<Self>> {
        let Some(campaign) = by_id(tx, campaign)? else { return Ok(None) };
        let history = draws::history(tx, campaign.id)?.unwrap_or(History { plays: 0, hash: [0; 32] });
        Ok(Some(Self { campaign, awaiting: 0, played: 0, history }))
    }

    fn close(self, tx: &Connection) -> rusqlite::Result<()> {
        tx.prepare_cached("UPDATE campaign SET awaiting = awaiting + ?, paid = paid + ? WHERE id = ?")?
            .execute(params![self.awaiting, self.played, sql(self.campaign.id.raw())])?;
        if self.played > 0 {
            draws::set_history(tx, self.campaign.id, &self.history)?;
        }
        Ok(())
    }
}

/// The position moves on by `count`, if `first` comes next.
fn move_on(tx: &Connection, first: Position, count: u64) -> rusqlite::Result<()> {
    let moved = tx.execute(
        "UPDATE intake SET recorded = ?1 WHERE recorded = ?2",
        params![sql(first + count - 1), sql(first - 1)],
    )?;
    if moved == 1 {
        return Ok(());
    }
    Err(broken(format!("claims are recorded once and in order, and {first} does not come next")))
}

pub(super) fn set_aside(
    tx: &Connection,
    position: Option<Position>,
    claim: &Claim,
    why: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    if let Some(position) = position {
        move_on(tx, position, 1)?;
    }
    let kept = serde_json::to_string(claim).map_err(|error| broken(error.to_string()))?;
    tx.execute(
        "INSERT INTO set_aside VALUES (?, ?, ?, ?)",
        params![position.map(sql), kept, why, now.millis()],
    )?;
    if by_id(tx, claim.campaign)?.is_none() || is_known(tx, claim)? {
        return Ok(());
    }
    let mut held = tx.prepare_cached("SELECT 1 FROM held WHERE campaign = ? AND slot = ?")?;
    let mut free = Slots::default();
    for slot in claim.slots.iter() {
        if !held.exists(params![sql(claim.campaign.raw()), slot])? {
            free.push(slot);
        }
    }
    reject(tx, claim, Rejection::ClaimLost, &free, now)?;
    Ok(())
}

fn record_one(
    tx: &Connection,
    book: Option<&mut Book>,
    claim: &Claim,
    now: Moment,
) -> rusqlite::Result<Recorded> {
    if is_known(tx, claim)? {
        return Ok(Recorded::Known);
    }
    // A claim on a campaign that is not there has nothing to refer to; it can only come from a foreign journal.
    let Some(book) = book else { return Ok(Recorded::Rejected(Rejection::NotFound)) };
    let campaign = &book.campaign;
    if !fits(campaign, claim) {
        return Err(broken(format!("a claim on a {} asks for something else", campaign.kind.noun())));
    }
    if claim.epoch < campaign.epoch {
        // The reseed has counted its slots as free already: nothing goes back.
        return reject(tx, claim, Rejection::ClaimLost, &Slots::default(), now);
    }
    let (held, conflict) = hold(tx, campaign, claim)?;
    if conflict {
        release(tx, claim, &held)?;
        return reject(tx, claim, Rejection::ClaimLost, &held, now);
    }
    if !count(tx, campaign, claim)? {
        release(tx, claim, &held)?;
        return reject(tx, claim, Rejection::LimitReached, &held, now);
    }
    if key_is_taken(tx, claim)? {
        release(tx, claim, &held)?;
        uncount(tx, claim)?;
        return reject(tx, claim, Rejection::ClaimLost, &held, now);
    }
    let outcome = match &claim.granted {
        Granted::Order { .. } => {
            insert_order(tx, claim, OrderState::AwaitingPayment, None, now)?;
            book.awaiting += claim.slots.units();
            Recorded::Order
        }
        Granted::Play { .. } => {
            if !plays::record(tx, &book.campaign, claim, &mut book.history, now)? {
                release(tx, claim, &held)?;
                uncount(tx, claim)?;
                return reject(tx, claim, Rejection::ClaimLost, &held, now);
            }
            book.played += 1;
            Recorded::Play
        }
    };
    tell_of(tx, claim, "created", None, now)?;
    Ok(outcome)
}

/// Whether a claim is of the kind its campaign takes.
fn fits(campaign: &Campaign, claim: &Claim) -> bool {
    matches!(
        (&campaign.kind, &claim.granted),
        (Kind::Sale(_), Granted::Order { .. }) | (Kind::Draw(_), Granted::Play { .. })
    )
}

/// Tells that an order or play was created or rejected.
fn tell_of(
    tx: &Connection,
    claim: &Claim,
    what: &str,
    detail: Option<&str>,
    now: Moment,
) -> rusqlite::Result<()> {
    let kind = match (&claim.granted, what) {
        (Granted::Order { .. }, "created") => "order.created",
        (Granted::Order { .. }, _) => "order.rejected",
        (Granted::Play { .. }, "created") => "play.created",
        (Granted::Play { .. }, _) => "play.rejected",
    };
    let told = Told { kind, campaign: Some(claim.campaign), subject: claim.id.raw(), detail };
    tell(tx, Actor::Buyer(claim.user), now, told)
}

fn is_known(tx: &Connection, claim: &Claim) -> rusqlite::Result<bool> {
    let query = match claim.granted {
        Granted::Order { .. } => "SELECT 1 FROM orders WHERE id = ?",
        Granted::Play { .. } => "SELECT 1 FROM play WHERE id = ?",
    };
    tx.prepare_cached(query)?.exists([sql(claim.id.raw())])
}

/// Takes the slots nobody holds; says whether any was held already or does not exist.
fn hold(tx: &Connection, campaign: &Campaign, claim: &Claim) -> rusqlite::Result<(Slots, bool)> {
    let mut insert = tx.prepare_cached("INSERT INTO held VALUES (?, ?, ?) ON CONFLICT DO NOTHING")?;
    let mut take = |slot: Slot| -> rusqlite::Result<bool> {
        let row = params![sql(claim.campaign.raw()), slot, sql(claim.id.raw())];
        Ok(slot <= campaign.top && insert.execute(row)? == 1)
    };
    let mut held = Slots::default();
    let mut conflict = false;
    for slot in claim.slots.iter() {
        if take(slot)? {
            held.push(slot);
        } else {
            conflict = true;
        }
    }
    Ok((held, conflict))
}

fn release(tx: &Connection, claim: &Claim, held: &Slots) -> rusqlite::Result<()> {
    let mut delete = tx.prepare_cached("DELETE FROM held WHERE campaign = ? AND slot = ?")?;
    for slot in held.iter() {
        delete.execute(params![sql(claim.campaign.raw()), slot])?;
    }
    Ok(())
}

/// Raises what the buyer holds, only while it stays within the limit.
fn count(tx: &Connection, campaign: &Campaign, claim: &Claim) -> rusqlite::Result<bool> {
    let units = claim.slots.units();
    if units > campaign.per_user_limit {
        return Ok(false);
    }
    let raised = tx
        .prepare_cached(
            "INSERT INTO held_by_user VALUES (?1, ?2, ?3)
             ON CONFLICT (campaign, user) DO UPDATE SET units = units + ?3 WHERE units + ?3 <= ?4",
        )?
        .execute(params![sql(claim.campaign.raw()), sql(claim.user.raw()), units, campaign.per_user_limit])?;
    Ok(raised == 1)
}

fn uncount(tx: &Connection, claim: &Claim) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE held_by_user SET units = units - ? WHERE campaign = ? AND user = ?")?
        .execute(params![claim.slots.units(), sql(claim.campaign.raw()), sql(claim.user.raw())])?;
    Ok(())
}

fn key_is_taken(tx: &Connection, claim: &Claim) -> rusqlite::Result<bool> {
    let Some(key) = claim.key else { return Ok(false) };
    let query = match claim.granted {
        Granted::Order { .. } => "SELECT 1 FROM orders WHERE user = ? AND key = ?",
        Granted::Play { .. } => "SELECT 1 FROM play WHERE user = ? AND key = ?",
    };
    tx.prepare_cached(query)?
        .query_row(params![sql(claim.user.raw()), key.0], |_| Ok(()))
        .optional()
        .map(|found| found.is_some())
}

/// Keeps the claim as a rejected order or play, so that its buyer sees why; `free` goes back on sale.
fn reject(
    tx: &Connection,
    claim: &Claim,
    reason: Rejection,
    free: &Slots,
    now: Moment,
) -> rusqlite::Result<Recorded> {
    match claim.granted {
        Granted::Order { .. } => insert_order(tx, claim, OrderState::Rejected, Some(reason), now)?,
        Granted::Play { .. } => plays::insert(tx, claim, PlayState::Rejected, Some(reason), None, now)?,
    }
    if free.units() > 0 {
        let change = StockChange::Return { user: claim.user, slots: free.clone(), prize: claim.prize() };
        log(tx, claim.campaign, &change, now)?;
    }
    tell_of(tx, claim, "rejected", Some(reason.code()), now)?;
    Ok(Recorded::Rejected(reason))
}

fn insert_order(
    tx: &Connection,
    claim: &Claim,
    state: OrderState,
    reason: Option<Rejection>,
    now: Moment,
) -> rusqlite::Result<()> {
    let Granted::Order { unit_price, pay_by } = &claim.granted else {
        return Err(broken("a play is no order"));
    };
    // A rejected claim does not use its key up: the buyer may try again with it.
    let key = claim.key.filter(|_| state != OrderState::Rejected).map(|key| key.0);
    tx.prepare_cached("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        sql(claim.id.raw()),
        sql(claim.campaign.raw()),
        sql(claim.user.raw()),
        claim.slots.to_string(),
        unit_price.amount,
        unit_price.currency.as_str(),
        state.as_str(),
        reason.map(Rejection::code),
        key,
        claim.created_at.millis(),
        pay_by.millis(),
        now.millis()
    ])?;
    Ok(())
}
