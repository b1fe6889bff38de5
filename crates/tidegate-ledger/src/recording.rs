//! Recording: turns claims into orders and plays, in order, exactly once.
//!
//! Three steps per batch: read everything the decisions depend on (`snapshot`), decide claim by claim as if each were
//! recorded before the next, write all changes (`changes`). A conflict rejects that claim alone; those of its slots
//! that no other claim holds go back on sale. A journal's position is committed with the rows and must directly
//! follow the last one, so that a batch recorded twice or out of order fails as a whole.

mod changes;
mod insert_new;
mod snapshot;

use std::sync::Arc;

use tidegate_core::dealer::{Dealt, link};
use tidegate_core::{
    Campaign, Claim, ClaimId, Granted, Kind, Moment, PrizeNumber, Rejection, Slots, StockChange,
};

use self::changes::{Changes, Entry, HistoryEntry};
use self::snapshot::Snapshot;
use super::engine;
use super::engine::dialect::Column;
use super::engine::{Connection, Values, params, row};
use super::tables::campaigns::{by_id, lock};
use super::tables::rows::{broken, id, refused, sql};
use crate::Position;
use crate::{History, RecordOutcome};

pub(crate) fn position(connection: &Connection) -> engine::Result<Position> {
    connection.prepare_cached("SELECT recorded FROM intake")?.query_row(params![], |row| id(row, "recorded"))
}

pub(crate) fn record(
    tx: &Connection,
    first: Option<Position>,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<Vec<RecordOutcome>> {
    if let Some(first) = first {
        advance_position(tx, first, claims.len() as u64)?;
    }
    let mut snapshot = Snapshot::read(tx, claims)?;
    // Buyers of journal claims already know their outcome, so it stands; buyers of stream claims do not know it yet.
    snapshot.set_outcome_check(first.is_none());
    let mut changes = Changes::default();
    let decide = |claim: &Arc<Claim>| decide(&mut snapshot, &mut changes, claim);
    let outcomes = claims.iter().map(decide).collect::<engine::Result<Vec<_>>>()?;
    changes.write(tx, &snapshot, now)?;
    Ok(outcomes)
}

/// Optimistic path for orders that are all new: three queries fewer than `record`, and a single writing statement.
///
/// Returns `None`, without having written, if a claim turns out not to be a plain new order. Conflicts that are not
/// read here violate a constraint; the caller then rolls back. In both cases the caller falls back to `record`.
pub(crate) fn record_new(
    tx: &Connection,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<Option<Vec<RecordOutcome>>> {
    if claims.iter().any(|claim| matches!(claim.granted, Granted::Play { .. })) {
        return Ok(None);
    }
    let mut snapshot = Snapshot::assume_new(tx, claims)?;
    let mut changes = Changes::default();
    for claim in claims {
        if decide(&mut snapshot, &mut changes, claim)? != RecordOutcome::Order {
            return Ok(None);
        }
    }
    insert_new::write(tx, &snapshot, claims, now)?;
    Ok(Some(vec![RecordOutcome::Order; claims.len()]))
}

/// The outcomes of those claims that are recorded; `Some` for a rejected one.
pub(crate) fn outcomes_of(
    connection: &Connection,
    claims: &[ClaimId],
) -> engine::Result<Vec<(ClaimId, Option<Rejection>)>> {
    let rows: Vec<Values<'_>> = claims.iter().map(|claim| row![sql(claim.raw())]).collect();
    let read = |row: &engine::Row<'_>| {
        let reason: Option<String> = row.get("reason")?;
        let reason = reason.map(|code| Rejection::from_code(&code).unwrap_or(Rejection::ClaimLost));
        Ok((ClaimId::from_raw(id(row, "id")?), reason))
    };
    let columns = [Column::int("id")];
    let orders = "SELECT orders.id AS id, reason FROM given JOIN orders ON orders.id = given.id";
    let plays = "SELECT play.id AS id, reason FROM given JOIN play ON play.id = given.id";
    let mut outcomes = connection.query_many(&columns, &rows, orders, read)?;
    outcomes.extend(connection.query_many(&columns, &rows, plays, read)?);
    Ok(outcomes)
}

/// Advances the recorded position by `count`; fails unless `first` directly follows it.
fn advance_position(tx: &Connection, first: Position, count: u64) -> engine::Result<()> {
    let moved = tx.execute(
        "UPDATE intake SET recorded = ?1 WHERE recorded = ?2",
        params![sql(first + count - 1), sql(first - 1)],
    )?;
    if moved == 1 {
        return Ok(());
    }
    Err(broken(format!("claims are recorded once and in order, and {first} does not come next")))
}

/// Skips a claim that cannot be recorded: stores it with the reason and rejects its order or play.
pub(crate) fn set_aside(
    tx: &Connection,
    position: Option<Position>,
    claim: &Arc<Claim>,
    why: &str,
    now: Moment,
) -> engine::Result<RecordOutcome> {
    let kept = serde_json::to_string(&**claim).map_err(|error| refused(error.to_string()))?;
    match position {
        Some(position) => {
            advance_position(tx, position, 1)?;
            let row = params![sql(position), kept, why, now.millis()];
            tx.execute("INSERT INTO set_aside VALUES (?, ?, ?, ?)", row)?;
        }
        None => {
            tx.execute(
                "INSERT INTO set_aside (claim, why, at) VALUES (?, ?, ?)",
                params![kept, why, now.millis()],
            )?;
        }
    }
    lock(tx, &[claim.campaign])?;
    let snapshot = Snapshot::read(tx, std::slice::from_ref(claim))?;
    if by_id(tx, claim.campaign)?.is_none() || snapshot.is_recorded(claim) {
        return Ok(RecordOutcome::Duplicate);
    }
    let free: Vec<_> = claim.slots.iter().filter(|slot| !snapshot.is_held(claim.campaign, *slot)).collect();
    let mut changes = Changes::default();
    reject(&mut changes, claim, Rejection::ClaimLost, &free.into_iter().collect());
    changes.write(tx, &snapshot, now)?;
    Ok(RecordOutcome::Rejected(Rejection::ClaimLost))
}

/// Whether the claim is an order on a sale or a play of a draw.
fn has_kind_of(campaign: &Campaign, claim: &Claim) -> bool {
    matches!(
        (&campaign.kind, &claim.granted),
        (Kind::Sale(_), Granted::Order { .. }) | (Kind::Draw(_), Granted::Play { .. })
    )
}

fn decide(
    snapshot: &mut Snapshot,
    changes: &mut Changes,
    claim: &Arc<Claim>,
) -> engine::Result<RecordOutcome> {
    if snapshot.is_recorded(claim) {
        return_second_grant(snapshot, changes, claim);
        return Ok(RecordOutcome::Duplicate);
    }
    // A claim on a campaign that does not exist can only come from the journal or stream of another ledger.
    let Some(campaign_snapshot) = snapshot.campaign_snapshot(claim.campaign) else {
        return Ok(RecordOutcome::Rejected(Rejection::NotFound));
    };
    if !has_kind_of(&campaign_snapshot.campaign, claim) {
        return Err(refused(format!(
            "a claim on a {} asks for something else",
            campaign_snapshot.campaign.kind.noun()
        )));
    }
    let (epoch, top, limit) = (
        campaign_snapshot.campaign.epoch,
        campaign_snapshot.campaign.top,
        campaign_snapshot.campaign.per_user_limit,
    );
    snapshot.mark_recorded(claim);
    if claim.epoch < epoch {
        // The reseed has counted its slots as free already: no slot is returned.
        reject(changes, claim, Rejection::ClaimLost, &Slots::default());
        return Ok(RecordOutcome::Rejected(Rejection::ClaimLost));
    }
    let free: Slots =
        claim.slots.iter().filter(|slot| *slot <= top && !snapshot.is_held(claim.campaign, *slot)).collect();
    let refusal = if free.units() < claim.slots.units() {
        reject(changes, claim, Rejection::ClaimLost, &free);
        return Ok(RecordOutcome::Conflict);
    } else if snapshot.units(claim) + claim.slots.units() > limit {
        Some(Rejection::LimitReached)
    } else if !snapshot.is_outcome_correct(claim) {
        // The gate drew from other prizes than the history leaves: a replay would not reproduce this outcome.
        reject(changes, claim, Rejection::ClaimLost, &free);
        return Ok(RecordOutcome::Conflict);
    } else if snapshot.is_key_taken(claim) || !snapshot.is_prize_left(claim) {
        Some(Rejection::ClaimLost)
    } else {
        None
    };
    if let Some(reason) = refusal {
        reject(changes, claim, reason, &free);
        return Ok(RecordOutcome::Rejected(reason));
    }
    snapshot.hold(claim);
    changes.hold(claim);
    Ok(match &claim.granted {
        Granted::Order { .. } => {
            changes.order(claim, None);
            RecordOutcome::Order
        }
        Granted::Play { client_seed, prize } => {
            let place = append_to_history(snapshot, claim, client_seed, *prize)?;
            changes.play(claim, Ok(place));
            RecordOutcome::Play
        }
    })
}

/// A claim that the gate has granted twice holds the slots of its first grant. Those of the second go back on sale,
/// unless a reseed has counted them as free already.
fn return_second_grant(snapshot: &Snapshot, changes: &mut Changes, claim: &Arc<Claim>) {
    let Some(campaign_snapshot) = snapshot.campaign_snapshot(claim.campaign) else { return };
    if claim.epoch < campaign_snapshot.campaign.epoch || !snapshot.is_recorded_otherwise(claim) {
        return;
    }
    let free: Slots = claim.slots.iter().filter(|slot| !snapshot.is_held(claim.campaign, *slot)).collect();
    changes.second_grant(claim, free);
}

/// Appends the play to its draw's history; returns its number and the new hash.
fn append_to_history(
    snapshot: &mut Snapshot,
    claim: &Claim,
    client_seed: &str,
    prize: Option<PrizeNumber>,
) -> engine::Result<HistoryEntry> {
    let seat = claim.slots.iter().next().ok_or_else(|| refused("a play has a seat"))?;
    let history = snapshot.history(claim.campaign).ok_or_else(|| broken("a draw has a history"))?;
    let number = history.plays + 1;
    let hash = link(&history.hash, Dealt { number, seat, prize, client_seed });
    *history = History { plays: number, hash };
    Ok(HistoryEntry { number, hash })
}

/// Records the claim as a rejected order or play, so that its buyer sees the reason; `free` goes back on sale.
fn reject(changes: &mut Changes, claim: &Arc<Claim>, reason: Rejection, free: &Slots) {
    match claim.granted {
        Granted::Order { .. } => changes.order(claim, Some(reason)),
        Granted::Play { .. } => changes.play(claim, Err(reason)),
    }
    if free.units() > 0 {
        let change = StockChange::Return { user: claim.user, slots: free.clone(), prize: claim.prize() };
        changes.log(Entry { campaign: claim.campaign, change });
    }
}
