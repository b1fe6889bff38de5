//! Recording: claims become orders and plays, in order, exactly once.
//!
//! What the ledger knows about the claims is read first, all at once (`known`); then one claim after the other is decided,
//! as if each were recorded before the next is looked at; then everything is written, all at once (`written`). A conflict
//! rejects that claim alone; those of its slots that nobody holds go back on sale. The position of a journal is committed
//! with the rows and must follow the last one, so that a batch recorded twice or out of order fails as a whole.

mod fresh;
mod known;
mod written;

use std::sync::Arc;

use tidegate_core::dealer::{Dealt, link};
use tidegate_core::{
    Campaign, Claim, ClaimId, Granted, Kind, Moment, PrizeNumber, Rejection, Slots, StockChange,
};

use self::known::Known;
use self::written::{Entry, Place, Written};
use super::campaigns::{by_id, lock};
use super::dialect::Column;
use super::engine;
use super::engine::{Connection, Values, params, row};
use super::rows::{broken, id, sql};
use crate::intake::Position;
use crate::ledger::{History, Recorded};

pub(super) fn position(connection: &Connection) -> engine::Result<Position> {
    connection.prepare_cached("SELECT recorded FROM intake")?.query_row(params![], |row| id(row, "recorded"))
}

pub(super) fn record(
    tx: &Connection,
    first: Option<Position>,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<Vec<Recorded>> {
    if let Some(first) = first {
        move_on(tx, first, claims.len() as u64)?;
    }
    let mut known = Known::read(tx, claims)?;
    // What a journal keeps was told already, and is kept come what may; what a stream keeps was not.
    known.check_deals(first.is_none());
    let mut written = Written::default();
    let decide = |claim: &Arc<Claim>| decide(&mut known, &mut written, claim);
    let outcomes = claims.iter().map(decide).collect::<engine::Result<Vec<_>>>()?;
    written.write(tx, &known, now)?;
    Ok(outcomes)
}

/// Records orders on the understanding that nothing in the ledger speaks against them: three queries less, and one statement
/// that writes. `None` where
/// something does as far as can be seen, and nothing is written; what cannot be seen here the constraints refuse, and then all
/// of it is to be undone. Either way `record` looks at everything.
pub(super) fn record_new(
    tx: &Connection,
    claims: &[Arc<Claim>],
    now: Moment,
) -> engine::Result<Option<Vec<Recorded>>> {
    if claims.iter().any(|claim| matches!(claim.granted, Granted::Play { .. })) {
        return Ok(None);
    }
    let mut known = Known::assume_new(tx, claims)?;
    let mut written = Written::default();
    for claim in claims {
        if decide(&mut known, &mut written, claim)? != Recorded::Order {
            return Ok(None);
        }
    }
    fresh::write(tx, &known, claims, now)?;
    Ok(Some(vec![Recorded::Order; claims.len()]))
}

/// What became of those of these claims that are recorded.
pub(super) fn outcomes_of(
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

/// The position moves on by `count`, if `first` comes next.
fn move_on(tx: &Connection, first: Position, count: u64) -> engine::Result<()> {
    let moved = tx.execute(
        "UPDATE intake SET recorded = ?1 WHERE recorded = ?2",
        params![sql(first + count - 1), sql(first - 1)],
    )?;
    if moved == 1 {
        return Ok(());
    }
    Err(broken(format!("claims are recorded once and in order, and {first} does not come next")))
}

/// Gets past a claim that cannot be recorded.
pub(super) fn set_aside(
    tx: &Connection,
    position: Option<Position>,
    claim: &Arc<Claim>,
    why: &str,
    now: Moment,
) -> engine::Result<Recorded> {
    let kept = serde_json::to_string(&**claim).map_err(|error| broken(error.to_string()))?;
    match position {
        Some(position) => {
            move_on(tx, position, 1)?;
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
    let known = Known::read(tx, std::slice::from_ref(claim))?;
    if by_id(tx, claim.campaign)?.is_none() || known.has(claim) {
        return Ok(Recorded::Known);
    }
    let free: Vec<_> = claim.slots.iter().filter(|slot| !known.is_held(claim.campaign, *slot)).collect();
    let mut written = Written::default();
    reject(&mut written, claim, Rejection::ClaimLost, &free.into_iter().collect());
    written.write(tx, &known, now)?;
    Ok(Recorded::Rejected(Rejection::ClaimLost))
}

/// Whether a claim is of the kind its campaign takes.
fn fits(campaign: &Campaign, claim: &Claim) -> bool {
    matches!(
        (&campaign.kind, &claim.granted),
        (Kind::Sale(_), Granted::Order { .. }) | (Kind::Draw(_), Granted::Play { .. })
    )
}

fn decide(known: &mut Known, written: &mut Written, claim: &Arc<Claim>) -> engine::Result<Recorded> {
    if known.has(claim) {
        return Ok(Recorded::Known);
    }
    // A claim on a campaign that is not there has nothing to refer to; it can only come from a foreign intake.
    let Some(book) = known.book(claim.campaign) else { return Ok(Recorded::Rejected(Rejection::NotFound)) };
    if !fits(&book.campaign, claim) {
        return Err(broken(format!("a claim on a {} asks for something else", book.campaign.kind.noun())));
    }
    let (epoch, top, limit) = (book.campaign.epoch, book.campaign.top, book.campaign.per_user_limit);
    known.learn(claim);
    if claim.epoch < epoch {
        // The reseed has counted its slots as free already: nothing goes back.
        reject(written, claim, Rejection::ClaimLost, &Slots::default());
        return Ok(Recorded::Rejected(Rejection::ClaimLost));
    }
    let free: Slots =
        claim.slots.iter().filter(|slot| *slot <= top && !known.is_held(claim.campaign, *slot)).collect();
    let refusal = if free.units() < claim.slots.units() {
        reject(written, claim, Rejection::ClaimLost, &free);
        return Ok(Recorded::Conflict);
    } else if known.units(claim) + claim.slots.units() > limit {
        Some(Rejection::LimitReached)
    } else if !known.is_dealt_right(claim) {
        // The gate dealt it from prizes that are not what the history leaves: recorded, it could never be dealt again.
        reject(written, claim, Rejection::ClaimLost, &free);
        return Ok(Recorded::Conflict);
    } else if known.is_key_taken(claim) || !known.is_prize_left(claim) {
        Some(Rejection::ClaimLost)
    } else {
        None
    };
    if let Some(reason) = refusal {
        reject(written, claim, reason, &free);
        return Ok(Recorded::Rejected(reason));
    }
    known.hold(claim);
    written.hold(claim);
    Ok(match &claim.granted {
        Granted::Order { .. } => {
            written.order(claim, None);
            Recorded::Order
        }
        Granted::Play { client_seed, prize } => {
            let place = next_place(known, claim, client_seed, *prize)?;
            written.play(claim, Ok(place));
            Recorded::Play
        }
    })
}

/// The play's place in its draw's history, which goes on with it.
fn next_place(
    known: &mut Known,
    claim: &Claim,
    client_seed: &str,
    prize: Option<PrizeNumber>,
) -> engine::Result<Place> {
    let seat = claim.slots.iter().next().ok_or_else(|| broken("a play has a seat"))?;
    let history = known.history(claim.campaign).ok_or_else(|| broken("a draw has a history"))?;
    let number = history.plays + 1;
    let hash = link(&history.hash, Dealt { number, seat, prize, client_seed });
    *history = History { plays: number, hash };
    Ok(Place { number, hash })
}

/// Keeps the claim as a rejected order or play, so that its buyer sees why; `free` goes back on sale.
fn reject(written: &mut Written, claim: &Arc<Claim>, reason: Rejection, free: &Slots) {
    match claim.granted {
        Granted::Order { .. } => written.order(claim, Some(reason)),
        Granted::Play { .. } => written.play(claim, Err(reason)),
    }
    if free.units() > 0 {
        let change = StockChange::Return { user: claim.user, slots: free.clone(), prize: claim.prize() };
        written.log(Entry { campaign: claim.campaign, change });
    }
}
