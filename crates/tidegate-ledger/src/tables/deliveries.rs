//! Deliveries: created in the transaction of their cause, taken when due, then delivered, retried or given up.
//!
//! Invariants: per target and lane only the oldest is due; a prize that this program delivers itself (a text, a code)
//! is delivered in the same transaction as its state.

pub(crate) mod admin;
pub(crate) mod sending;

use std::sync::Arc;

use std::time::Duration;

use tidegate_core::draw::PrizeKind;
use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, DeliveryId, DeliveryState, EventKind, Moment, PlayId,
    PrizeNumber, WaitsFor, WebhookId,
};

use super::campaigns::lock;
use super::events::{NewEvent, append_event};
use super::rows::{broken, id, moment, sql, word};
use crate::engine;
use crate::engine::explain;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, Delivery, LedgerError, Target};

/// The column `target`.
impl Target {
    fn raw(self) -> i64 {
        match self {
            Self::Internal => 0,
            Self::Merchant => 1,
            Self::Webhook(id) => sql(id.raw()),
        }
    }

    fn from_raw(raw: i64) -> Self {
        match raw {
            0 => Self::Internal,
            1 => Self::Merchant,
            raw => Self::Webhook(WebhookId::from_raw(raw.cast_unsigned())),
        }
    }
}

/// The outcome of one attempt.
#[derive(Clone, Debug)]
pub enum AttemptOutcome {
    Delivered {
        content: Option<String>,
    },
    /// `counts` is the most of the time since the last attempt that counts towards giving up.
    Failed {
        error: String,
        due_at: Moment,
        counts: Duration,
    },
    Dead {
        error: String,
    },
}

/// Maximum stored length of an error message, in characters.
const MAX_ERROR: usize = 500;

/// Creates the delivery of a prize, in the transaction of its play.
pub(crate) fn owe_prize(
    tx: &Connection,
    campaign: &Campaign,
    claim: &Claim,
    number: PrizeNumber,
    now: Moment,
) -> engine::Result<()> {
    let prize = campaign.draw().and_then(|draw| draw.prize(number)).ok_or_else(|| broken("no such prize"))?;
    let waits_for = prize.waits_for(campaign.state == CampaignState::Closed);
    let target = if prize.kind == PrizeKind::Coupon { Target::Merchant } else { Target::Internal };
    let state = if waits_for.is_some() { DeliveryState::Waiting } else { DeliveryState::New };
    let play = sql(claim.id.raw());
    tx.prepare_cached(
        "INSERT INTO delivery (target, lane, kind, campaign, play, state, waits_for, due_at, open_since, created_at,
                               updated_at)
         VALUES (?1, ?2, ?3, ?4, ?2, ?5, ?6, ?7, ?7, ?7, ?7)",
    )?
    .execute(params![
        target.raw(),
        play,
        prize.kind.as_str(),
        sql(claim.campaign.raw()),
        state.as_str(),
        waits_for.map(WaitsFor::as_str),
        now.millis()
    ])?;
    Ok(())
}

/// Releases a waiting prize; goods without an address keep waiting for one.
pub(crate) const RELEASE: &str = "UPDATE delivery SET
         state = CASE WHEN kind = 'goods' AND address IS NULL THEN 'waiting' ELSE 'new' END,
         waits_for = CASE WHEN kind = 'goods' AND address IS NULL THEN 'address' END,
         due_at = ?1, open_since = ?1, updated_at = ?1 WHERE state = 'waiting' AND ";

/// A closed draw whose waiting prizes are not all released.
fn unreleased(connection: &Connection) -> engine::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT draw.campaign FROM draw JOIN campaign ON campaign.id = draw.campaign
             WHERE released = 0 AND campaign.state = 'closed' LIMIT 1",
        )?
        .query_row(params![], |row| row.get(0))
        .optional()
}

/// Releases up to `most` prizes of a closed draw; marks the draw when none is left.
fn release_closed(tx: &Connection, now: Moment, most: u32) -> engine::Result<()> {
    let Some(draw) = unreleased(tx)? else { return Ok(()) };
    let which = "id IN (SELECT id FROM delivery INDEXED BY delivery_waiting
         WHERE campaign = ?2 AND state = 'waiting' AND waits_for = 'close' LIMIT ?3)";
    if tx.prepare_cached(&[RELEASE, which].concat())?.execute(params![now.millis(), draw, most])? == 0 {
        tx.execute("UPDATE draw SET released = 1 WHERE campaign = ?", [draw])?;
    }
    Ok(())
}

pub(crate) fn by_id(connection: &Connection, id: DeliveryId) -> engine::Result<Option<Delivery>> {
    connection
        .prepare_cached("SELECT * FROM delivery WHERE id = ?")?
        .query_row([sql(id.raw())], delivery)
        .optional()
}

pub(crate) fn of_play(connection: &Connection, play: PlayId) -> engine::Result<Option<Delivery>> {
    connection
        .prepare_cached("SELECT * FROM delivery WHERE play = ?")?
        .query_row([sql(play.raw())], delivery)
        .optional()
}

pub(crate) fn delivery(row: &Row<'_>) -> engine::Result<Delivery> {
    let optional = |column: &str| row.get::<_, Option<i64>>(column).map(|raw| raw.map(i64::cast_unsigned));
    Ok(Delivery {
        id: DeliveryId::from_raw(id(row, "id")?),
        target: Target::from_raw(row.get("target")?),
        kind: row.get("kind")?,
        campaign: optional("campaign")?.map(CampaignId::from_raw),
        play: optional("play")?.map(PlayId::from_raw),
        event: optional("event")?,
        state: word(row, "state", DeliveryState::parse)?,
        waits_for: row.get::<_, Option<String>>("waits_for")?.as_deref().and_then(WaitsFor::parse),
        tries: row.get("tries")?,
        due_at: moment(row, "due_at")?,
        open_since: moment(row, "open_since")?,
        error: row.get("error")?,
        content: row.get("content")?,
        address: row.get("address")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

/// Stores the outcome of an attempt; does nothing if the delivery is not open any more.
fn store_attempt(
    tx: &Connection,
    delivery: &Delivery,
    outcome: &AttemptOutcome,
    now: Moment,
) -> engine::Result<()> {
    let (state, error, due_at, content) = match outcome {
        AttemptOutcome::Delivered { content } => (DeliveryState::Delivered, None, now, content.as_deref()),
        AttemptOutcome::Failed { error, due_at, .. } => (DeliveryState::Failed, Some(error), *due_at, None),
        AttemptOutcome::Dead { error } => (DeliveryState::Dead, Some(error), now, None),
    };
    let error: Option<String> = error.map(|error| error.chars().take(MAX_ERROR).collect());
    if let AttemptOutcome::Failed { counts, .. } = outcome {
        postpone_lane(tx, delivery, due_at, now, *counts)?;
    }
    let changed = tx
        .prepare_cached(
            "UPDATE delivery SET state = ?2, tries = tries + 1, error = ?3, due_at = ?4, content = ?5, updated_at = ?6
             WHERE id = ?1 AND state IN ('new', 'failed')",
        )?
        .execute(params![
            sql(delivery.id.raw()),
            state.as_str(),
            error,
            due_at.millis(),
            content,
            now.millis()
        ])?;
    if changed == 1 && state != DeliveryState::Failed {
        // The next one in its lane need not wait any longer.
        tx.prepare_cached(
            "UPDATE delivery SET due_at = CASE WHEN due_at < ?3 THEN due_at ELSE ?3 END
             WHERE target = ?1 AND state IN ('new', 'failed')
             AND lane = (SELECT lane FROM delivery WHERE id = ?2)",
        )?
        .execute(params![delivery.target.raw(), sql(delivery.id.raw()), now.millis()])?;
    }
    let kind = match state {
        DeliveryState::Delivered => EventKind::PrizeDelivered,
        DeliveryState::Dead => EventKind::PrizeUndeliverable,
        _ => return Ok(()),
    };
    match delivery.play {
        Some(play) if changed == 1 => {
            let subject = play.raw();
            let event = NewEvent { kind, campaign: delivery.campaign, subject, detail: error.as_deref() };
            append_event(tx, &Actor::Clock, now, event)
        }
        _ => Ok(()),
    }
}

/// After a failure, the delivery and the later ones of its lane wait until `due_at`, so that the query for due
/// deliveries does not return those in vain. Of the time since their last attempt only `counts` is part of their age:
/// the beginning moves by the rest, also if the clock was set back.
fn postpone_lane(
    tx: &Connection,
    delivery: &Delivery,
    due_at: Moment,
    now: Moment,
    counts: Duration,
) -> engine::Result<()> {
    tx.prepare_cached(
        "UPDATE delivery SET due_at = CASE WHEN due_at > ?3 THEN due_at ELSE ?3 END, updated_at = ?4,
             open_since = open_since + CASE WHEN ?4 < updated_at THEN ?4 - updated_at
                                            WHEN ?4 - updated_at > ?5 THEN ?4 - updated_at - ?5 ELSE 0 END
         WHERE target = ?1 AND id >= ?2 AND state IN ('new', 'failed')
         AND lane = (SELECT lane FROM delivery WHERE id = ?2 AND state IN ('new', 'failed'))",
    )?
    .execute(params![
        delivery.target.raw(),
        sql(delivery.id.raw()),
        due_at.millis(),
        now.millis(),
        i64::try_from(counts.as_millis()).unwrap_or(i64::MAX)
    ])?;
    Ok(())
}

/// Delivers one prize without another system. `Err` if it can never be delivered.
fn deliver_prize(tx: &Connection, delivery: &Delivery, now: Moment) -> engine::Result<AttemptOutcome> {
    let (campaign, play) = match (delivery.campaign, delivery.play) {
        (Some(campaign), Some(play)) => (sql(campaign.raw()), sql(play.raw())),
        _ => return Err(broken("a prize belongs to a play")),
    };
    let prize: PrizeNumber = tx
        .prepare_cached("SELECT prize FROM play WHERE id = ? AND prize IS NOT NULL")?
        .query_row([play], |row| row.get(0))?;
    let content = match PrizeKind::parse(&delivery.kind) {
        Some(PrizeKind::Text) => tx
            .prepare_cached("SELECT content FROM prize WHERE campaign = ? AND number = ?")?
            .query_row(params![campaign, prize], |row| row.get(0))?,
        Some(PrizeKind::Code) => match next_code(tx, campaign, prize, play)? {
            Some(code) => Some(code),
            None => return Ok(AttemptOutcome::Dead { error: "no code of this prize is left".into() }),
        },
        Some(PrizeKind::Goods) => {
            let event = NewEvent {
                kind: EventKind::PrizeShip,
                campaign: delivery.campaign,
                subject: play.cast_unsigned(),
                detail: None,
            };
            append_event(tx, &Actor::Clock, now, event)?;
            None
        }
        Some(PrizeKind::Coupon) | None => {
            return Ok(AttemptOutcome::Dead { error: format!("nothing here gives a {:?}", delivery.kind) });
        }
    };
    Ok(AttemptOutcome::Delivered { content })
}

fn next_code(
    tx: &Connection,
    campaign: i64,
    prize: PrizeNumber,
    play: i64,
) -> engine::Result<Option<String>> {
    tx.prepare_cached("UPDATE prize SET codes_given = codes_given + 1 WHERE campaign = ? AND number = ?")?
        .execute(params![campaign, prize])?;
    tx.prepare_cached(
        "UPDATE prize_code SET play = ?3 WHERE campaign = ?1 AND prize = ?2 AND play IS NULL
         AND number = (SELECT codes_given FROM prize WHERE campaign = ?1 AND number = ?2) RETURNING code",
    )?
    .query_row(params![campaign, prize, play], |row| row.get(0))
    .optional()
}

/// Delivers due prizes that need no other system; a play wins one, so none waits for another. One that cannot be
/// delivered becomes dead with its reason.
pub(crate) fn give_due(tx: &Connection, now: Moment, most: u32) -> engine::Result<usize> {
    let due: Vec<Delivery> = tx
        .prepare_cached(
            "SELECT * FROM delivery AS due WHERE target = ?1 AND state IN ('new', 'failed') AND due_at <= ?2
             ORDER BY due_at LIMIT ?3 /*pg FOR UPDATE OF due SKIP LOCKED */",
        )?
        .query_map(params![Target::Internal.raw(), now.millis(), most], delivery)?
        .collect::<engine::Result<_>>()?;
    // The recorder locks campaigns first, too: the same order prevents deadlocks.
    let campaigns: Vec<CampaignId> = due.iter().filter_map(|delivery| delivery.campaign).collect();
    lock(tx, &campaigns)?;
    for delivery in &due {
        tx.execute_batch("SAVEPOINT prize")?;
        match deliver_prize(tx, delivery, now).and_then(|outcome| store_attempt(tx, delivery, &outcome, now))
        {
            Ok(()) => tx.execute_batch("RELEASE prize")?,
            // A full disk, for example: the whole batch is retried.
            Err(error) if !matches!(explain(&error), LedgerError::Unexpected(_)) => return Err(error),
            Err(error) => {
                tx.execute_batch("ROLLBACK TO prize; RELEASE prize")?;
                store_attempt(tx, delivery, &AttemptOutcome::Dead { error: error.to_string() }, now)?;
            }
        }
    }
    Ok(due.len())
}

#[derive(Clone, Debug)]
pub struct Deliveries(pub(crate) Arc<Database>);

impl Deliveries {
    /// Releases up to `most` prizes that waited for their draw to close.
    pub async fn release_closed(&self, now: Moment, most: u32) -> Result<(), LedgerError> {
        self.0.write(move |tx| release_closed(tx, now, most)).await
    }

    pub async fn by_play(&self, play: PlayId) -> Result<Option<Delivery>, LedgerError> {
        self.0.read(move |connection| of_play(connection, play)).await
    }

    pub async fn get(&self, id: DeliveryId) -> Result<Option<Delivery>, LedgerError> {
        self.0.read(move |connection| by_id(connection, id)).await
    }

    /// Deletes deliveries of events that ended before `before`; prizes are kept.
    pub async fn delete_finished(&self, before: Moment) -> Result<usize, LedgerError> {
        self.0
            .write(move |tx| {
                tx.execute(
                    "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery INDEXED BY delivery_over
                     WHERE state IN ('delivered', 'dead')
                     AND event IS NOT NULL AND updated_at < ? LIMIT 5000)",
                    [before.millis()],
                )
            })
            .await
    }

    /// Delivers up to `most` due prizes that need no other system; returns how many.
    pub async fn give_prizes(&self, now: Moment, most: u32) -> Result<usize, LedgerError> {
        self.0.write_alone(move |tx| give_due(tx, now, most)).await
    }
}
