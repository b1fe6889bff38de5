//! Deliveries: owed in the transaction of their cause, taken when due, delivered, tried again or given up.
//!
//! What always holds: a delivery is taken by one caller at a time, for as long as its lease; of one target and lane only
//! the oldest is taken; what this program gives itself (a text, a code) is given in one transaction with its state.

use std::time::Duration;

use tidegate_core::draw::PrizeKind;
use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, DeliveryId, DeliveryState, Moment, PlayId, PrizeNumber,
    WaitsFor, WebhookId,
};

use super::SqlLedger;
use super::campaigns::lock;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::events::{Told, tell};
use super::explain;
use super::rows::{broken, id, moment, sql, word};
use crate::ledger::{Actor, Delivery, LedgerError, Target};

/// How the ledger keeps a target.
impl Target {
    fn raw(self) -> i64 {
        match self {
            Self::Here => 0,
            Self::Merchant => 1,
            Self::Webhook(id) => sql(id.raw()),
        }
    }

    fn from_raw(raw: i64) -> Self {
        match raw {
            0 => Self::Here,
            1 => Self::Merchant,
            raw => Self::Webhook(WebhookId::from_raw(raw.cast_unsigned())),
        }
    }
}

/// What became of a try.
#[derive(Clone, Debug)]
pub enum Tried {
    Delivered { content: Option<String> },
    Failed { error: String, due_at: Moment },
    Dead { error: String },
}

/// Characters kept of an error: enough to see why.
const MAX_ERROR: usize = 500;

/// Owes a winner their prize, in the play's transaction.
pub(super) fn owe_prize(
    tx: &Connection,
    campaign: &Campaign,
    claim: &Claim,
    number: PrizeNumber,
    now: Moment,
) -> engine::Result<()> {
    let prize = campaign.draw().and_then(|draw| draw.prize(number)).ok_or_else(|| broken("no such prize"))?;
    let waits_for = prize.waits_for(campaign.state == CampaignState::Closed);
    let target = if prize.kind == PrizeKind::Coupon { Target::Merchant } else { Target::Here };
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

/// Moves a waiting prize on once what it waited for has happened: goods may still need an address.
pub(super) const RELEASE: &str = "UPDATE delivery SET
         state = CASE WHEN kind = 'goods' AND address IS NULL THEN 'waiting' ELSE 'new' END,
         waits_for = CASE WHEN kind = 'goods' AND address IS NULL THEN 'address' END,
         due_at = ?1, open_since = ?1, updated_at = ?1 WHERE state = 'waiting' AND ";

/// The closed draw, if there is one, whose waiting prizes are still to be let go.
fn unreleased(connection: &Connection) -> engine::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT draw.campaign FROM draw JOIN campaign ON campaign.id = draw.campaign
             WHERE released = 0 AND campaign.state = 'closed' LIMIT 1",
        )?
        .query_row(params![], |row| row.get(0))
        .optional()
}

/// Lets some prizes of a closed draw go, or notes that all are gone.
fn release_closed(tx: &Connection, now: Moment, most: u32) -> engine::Result<()> {
    let Some(draw) = unreleased(tx)? else { return Ok(()) };
    let which = "id IN (SELECT id FROM delivery INDEXED BY delivery_waiting
         WHERE campaign = ?2 AND state = 'waiting' AND waits_for = 'close' LIMIT ?3)";
    if tx.prepare_cached(&[RELEASE, which].concat())?.execute(params![now.millis(), draw, most])? == 0 {
        tx.execute("UPDATE draw SET released = 1 WHERE campaign = ?", [draw])?;
    }
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: DeliveryId) -> engine::Result<Option<Delivery>> {
    connection
        .prepare_cached("SELECT * FROM delivery WHERE id = ?")?
        .query_row([sql(id.raw())], delivery)
        .optional()
}

pub(super) fn of_play(connection: &Connection, play: PlayId) -> engine::Result<Option<Delivery>> {
    connection
        .prepare_cached("SELECT * FROM delivery WHERE play = ?")?
        .query_row([sql(play.raw())], delivery)
        .optional()
}

pub(super) fn delivery(row: &Row<'_>) -> engine::Result<Delivery> {
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

/// The oldest due deliveries of a target, one a lane; nobody else gets them until the lease ends.
fn take_due(
    tx: &Connection,
    target: Target,
    now: Moment,
    lease: Duration,
    most: u32,
) -> engine::Result<Vec<Delivery>> {
    let due: Vec<Delivery> = tx
        .prepare_cached(
            "SELECT * FROM delivery AS due WHERE target = ?1 AND state IN ('new', 'failed') AND due_at <= ?2
             AND NOT EXISTS (SELECT 1 FROM delivery AS earlier WHERE earlier.target = ?1 AND earlier.lane = due.lane
                             AND earlier.id < due.id AND earlier.state IN ('new', 'failed'))
             ORDER BY due_at LIMIT ?3 /*pg FOR UPDATE OF due SKIP LOCKED */",
        )?
        .query_map(params![target.raw(), now.millis(), most], delivery)?
        .collect::<engine::Result<_>>()?;
    let mut update = tx.prepare_cached("UPDATE delivery SET due_at = ? WHERE id = ?")?;
    for taken in &due {
        update.execute(params![(now + lease).millis(), sql(taken.id.raw())])?;
    }
    Ok(due)
}

/// Writes down what became of a try; nothing if the delivery is not open any more.
fn tried(tx: &Connection, delivery: &Delivery, tried: Tried, now: Moment) -> engine::Result<()> {
    let (state, error, due_at, content) = match tried {
        Tried::Delivered { content } => (DeliveryState::Delivered, None, now, content),
        Tried::Failed { error, due_at } => (DeliveryState::Failed, Some(error), due_at, None),
        Tried::Dead { error } => (DeliveryState::Dead, Some(error), now, None),
    };
    let error: Option<String> = error.map(|error| error.chars().take(MAX_ERROR).collect());
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
    if changed == 1 && state == DeliveryState::Failed {
        // Those behind it wait as long, so that looking for what is due does not find them again and again.
        tx.prepare_cached(
            "UPDATE delivery SET due_at = CASE WHEN due_at > ?3 THEN due_at ELSE ?3 END WHERE target = ?1 AND id > ?2 AND state IN ('new', 'failed')
             AND lane = (SELECT lane FROM delivery WHERE id = ?2)",
        )?
        .execute(params![delivery.target.raw(), sql(delivery.id.raw()), due_at.millis()])?;
    }
    if changed == 1 && state != DeliveryState::Failed {
        // Its turn is over: the next in its lane need not wait any longer.
        tx.prepare_cached(
            "UPDATE delivery SET due_at = CASE WHEN due_at < ?3 THEN due_at ELSE ?3 END WHERE target = ?1 AND state IN ('new', 'failed')
             AND lane = (SELECT lane FROM delivery WHERE id = ?2)",
        )?
        .execute(params![delivery.target.raw(), sql(delivery.id.raw()), now.millis()])?;
    }
    let kind = match state {
        DeliveryState::Delivered => "prize.delivered",
        DeliveryState::Dead => "prize.undeliverable",
        _ => return Ok(()),
    };
    match delivery.play {
        Some(play) if changed == 1 => {
            let subject = play.raw();
            let told = Told { kind, campaign: delivery.campaign, subject, detail: error.as_deref() };
            tell(tx, &Actor::Clock, now, told)
        }
        _ => Ok(()),
    }
}

/// Gives one prize that needs nobody else. `Err` where it can never be given.
fn give(tx: &Connection, delivery: &Delivery, now: Moment) -> engine::Result<Tried> {
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
            None => return Ok(Tried::Dead { error: "no code of this prize is left".into() }),
        },
        Some(PrizeKind::Goods) => {
            let told = Told {
                kind: "prize.ship",
                campaign: delivery.campaign,
                subject: play.cast_unsigned(),
                detail: None,
            };
            tell(tx, &Actor::Clock, now, told)?;
            None
        }
        Some(PrizeKind::Coupon) | None => {
            return Ok(Tried::Dead { error: format!("nothing here gives a {:?}", delivery.kind) });
        }
    };
    Ok(Tried::Delivered { content })
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

/// Gives what is due and needs nobody else. One that cannot be given is set aside with its reason; the others go on.
pub(super) fn give_due(tx: &Connection, now: Moment, most: u32) -> engine::Result<usize> {
    let due = take_due(tx, Target::Here, now, Duration::ZERO, most)?;
    // As whoever records wins does, so that neither waits for the other.
    let campaigns: Vec<CampaignId> = due.iter().filter_map(|delivery| delivery.campaign).collect();
    lock(tx, &campaigns)?;
    for delivery in &due {
        tx.execute_batch("SAVEPOINT prize")?;
        match give(tx, delivery, now).and_then(|outcome| tried(tx, delivery, outcome, now)) {
            Ok(()) => tx.execute_batch("RELEASE prize")?,
            // A full disk is nobody's fault: all of them are tried again.
            Err(error) if !matches!(explain(&error), LedgerError::Unexpected(_)) => return Err(error),
            Err(error) => {
                tx.execute_batch("ROLLBACK TO prize; RELEASE prize")?;
                tried(tx, delivery, Tried::Dead { error: error.to_string() }, now)?;
            }
        }
    }
    Ok(due.len())
}

impl SqlLedger {
    /// Lets some prizes go that waited for their draw to close.
    pub async fn release_closed(&self, now: Moment, most: u32) -> Result<(), LedgerError> {
        self.write(move |tx| release_closed(tx, now, most)).await
    }

    /// What is due for a target, one a lane, for as long as the lease.
    pub async fn take_deliveries(
        &self,
        target: Target,
        now: Moment,
        lease: Duration,
        most: u32,
    ) -> Result<Vec<Delivery>, LedgerError> {
        self.write(move |tx| take_due(tx, target, now, lease, most)).await
    }

    /// Whether anything is due for a target: asked often, so it does not write.
    pub async fn is_due(&self, target: Target, now: Moment) -> Result<bool, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT 1 FROM delivery WHERE target = ? AND state IN ('new', 'failed') AND due_at <= ? LIMIT 1",
                )?
                .exists(params![target.raw(), now.millis()])
        }).await
    }

    pub async fn is_release_due(&self) -> Result<bool, LedgerError> {
        self.read(move |connection| Ok(unreleased(connection)?.is_some())).await
    }

    pub async fn delivery_tried(
        &self,
        delivery: Delivery,
        outcome: Tried,
        now: Moment,
    ) -> Result<(), LedgerError> {
        self.write(move |tx| tried(tx, &delivery, outcome, now)).await
    }

    pub async fn find_delivery_of(&self, play: PlayId) -> Result<Option<Delivery>, LedgerError> {
        self.read(move |connection| of_play(connection, play)).await
    }

    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<Delivery>, LedgerError> {
        self.read(move |connection| by_id(connection, id)).await
    }

    /// Forgets deliveries of events that arrived or were given up before `before`; prizes are kept.
    pub async fn forget_deliveries(&self, before: Moment) -> Result<usize, LedgerError> {
        self.write(move |tx| {
            tx.execute(
                "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery INDEXED BY delivery_over
                     WHERE state IN ('delivered', 'dead')
                     AND event IS NOT NULL AND updated_at < ? LIMIT 5000)",
                [before.millis()],
            )
        })
        .await
    }
}
