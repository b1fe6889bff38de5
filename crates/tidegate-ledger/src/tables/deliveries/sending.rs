//! Deliveries on their way to other systems: reading what is due for many targets at once, and storing the outcomes of
//! many attempts in one transaction.
//!
//! Invariants: per target and lane only the oldest open delivery is due; one that the sender has in hand is not
//! returned again. Only the holder of the lease `deliveries` reads and sends, so no row is marked as taken.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::{DeliveryId, EventNoun, Moment, Order, Play, PlayId};

use super::{AttemptOutcome, Deliveries, delivery, store_attempt};
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Values, params, row};
use crate::tables::events::{Event, event};
use crate::tables::plays::play;
use crate::tables::rows::{order, sql};
use crate::{Delivery, LedgerError, Target};

/// A delivery that is due, with what its message is made of.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    pub delivery: Delivery,
    pub event: Option<Event>,
    /// What the event is about, or the play whose prize is delivered.
    pub order: Option<Order>,
    pub play: Option<Play>,
}

/// One attempt to send a delivery.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub delivery: Delivery,
    pub outcome: AttemptOutcome,
    pub at: Moment,
}

/// What other work the dispatcher has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatcherWork {
    /// A closed draw has prizes that waited for its end.
    pub release: bool,
    /// Events are not fanned out.
    pub fan_out: bool,
    /// Prizes are due that need no other system.
    pub prizes: bool,
}

/// The oldest due deliveries of one target, one per lane, without those in hand.
const DUE: &str = "
    SELECT * FROM delivery AS due WHERE target = ?1 AND state IN ('new', 'failed') AND due_at <= ?2
    AND id NOT IN (SELECT value FROM json_each(?4))
    AND NOT EXISTS (SELECT 1 FROM delivery AS earlier WHERE earlier.target = ?1 AND earlier.lane = due.lane
                    AND earlier.id < due.id AND earlier.state IN ('new', 'failed'))
    ORDER BY due_at LIMIT ?3";
/// The same for many targets by one statement of PostgreSQL. The oldest of a lane is looked up by the index of lanes:
/// joined, it would be looked for among all that are due.
const DUE_FOR_ALL: &str = "
    SELECT due.* FROM unnest(CAST(CAST(?1 AS TEXT) AS bigint[]), CAST(CAST(?2 AS TEXT) AS bigint[]))
                      AS wanted(target, most)
    CROSS JOIN LATERAL (
        SELECT * FROM delivery AS due WHERE target = wanted.target AND state IN ('new', 'failed') AND due_at <= ?3
        AND id NOT IN (SELECT unnest(CAST(CAST(?4 AS TEXT) AS bigint[])))
        AND id = (SELECT oldest.id FROM delivery AS oldest
                  WHERE oldest.target = wanted.target AND oldest.lane = due.lane AND oldest.state IN ('new', 'failed')
                  ORDER BY oldest.lane, oldest.id LIMIT 1)
        ORDER BY due_at LIMIT wanted.most) AS due";

/// Numbers separated by commas, between a database's brackets for a list.
fn list(numbers: impl Iterator<Item = i64>, [open, close]: [char; 2]) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{open}{}{close}", numbers.join(","))
}

fn due_rows(
    connection: &Connection,
    wanted: &[(Target, u32)],
    in_hand: &[DeliveryId],
    now: Moment,
) -> engine::Result<Vec<Delivery>> {
    let in_hand = in_hand.iter().map(|id| sql(id.raw()));
    if connection.is_shared() {
        let braces = ['{', '}'];
        let targets = list(wanted.iter().map(|(target, _)| target.raw()), braces);
        let most = list(wanted.iter().map(|(_, most)| i64::from(*most)), braces);
        let params = params![targets, most, now.millis(), list(in_hand, braces)];
        return connection.prepare_cached(DUE_FOR_ALL)?.query_map(params, delivery)?.collect();
    }
    let in_hand = list(in_hand, ['[', ']']);
    let mut select = connection.prepare_cached(DUE)?;
    let mut due = Vec::new();
    for (target, most) in wanted {
        for found in select.query_map(params![target.raw(), now.millis(), most, in_hand], delivery)? {
            due.push(found?);
        }
    }
    Ok(due)
}

/// Reads rows by their ids, each into a map.
fn by_ids<T>(
    connection: &Connection,
    ids: impl Iterator<Item = u64>,
    select: &str,
    read: impl FnMut(&engine::Row<'_>) -> engine::Result<T>,
    id_of: impl Fn(&T) -> u64,
) -> engine::Result<HashMap<u64, T>> {
    let mut ids: Vec<i64> = ids.map(sql).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows: Vec<Values<'_>> = ids.into_iter().map(|id| row![id]).collect();
    let found = connection.query_many(&[Column::int("id")], &rows, select, read)?;
    Ok(found.into_iter().map(|found| (id_of(&found), found)).collect())
}

fn due(
    connection: &Connection,
    wanted: &[(Target, u32)],
    in_hand: &[DeliveryId],
    now: Moment,
) -> engine::Result<Vec<DueDelivery>> {
    let connection = connection.read_transaction()?;
    connection.prefer_indexes()?;
    let due = due_rows(&connection, wanted, in_hand, now)?;
    let events = by_ids(
        &connection,
        due.iter().filter_map(|delivery| delivery.event),
        "SELECT outbox.* FROM given JOIN outbox ON outbox.id = given.id",
        event,
        |event| event.id,
    )?;
    let noun_of = |event: &Event| event.kind.noun();
    let about_orders =
        events.values().filter(|event| matches!(noun_of(event), Some(EventNoun::Order | EventNoun::Refund)));
    let about_plays =
        events.values().filter(|event| matches!(noun_of(event), Some(EventNoun::Play | EventNoun::Prize)));
    let prizes = due.iter().filter_map(|delivery| delivery.play).map(PlayId::raw);
    let orders = by_ids(
        &connection,
        about_orders.map(|event| event.subject),
        "SELECT orders.*, campaign.item AS item FROM given JOIN orders ON orders.id = given.id
         JOIN campaign ON campaign.id = orders.campaign",
        order,
        |order| order.id.raw(),
    )?;
    let plays = by_ids(
        &connection,
        about_plays.map(|event| event.subject).chain(prizes),
        "SELECT play.* FROM given JOIN play ON play.id = given.id",
        play,
        |play| play.id.raw(),
    )?;
    let with_subject = |delivery: Delivery| {
        let event = delivery.event.and_then(|number| events.get(&number)).cloned();
        let subject = event.as_ref().map(|event| event.subject);
        let play = delivery.play.map(PlayId::raw).or(subject);
        DueDelivery {
            order: subject.and_then(|subject| orders.get(&subject)).cloned(),
            play: play.and_then(|play| plays.get(&play)).cloned(),
            event,
            delivery,
        }
    };
    Ok(due.into_iter().map(with_subject).collect())
}

const ARRIVED: &[Column] = &[Column::int("id"), Column::int("now")];
const ARRIVE: &str = "
    UPDATE delivery SET state = 'delivered', tries = tries + 1, error = NULL, content = NULL, due_at = given.now,
                        updated_at = given.now
    FROM given WHERE delivery.id = given.id AND delivery.state IN ('new', 'failed')";
/// The next one in its lane need not wait any longer.
const ADVANCE_LANES: &str = "
    UPDATE delivery SET due_at = given.now FROM given, delivery AS done
    WHERE done.id = given.id AND delivery.target = done.target AND delivery.lane = done.lane
    AND delivery.state IN ('new', 'failed') AND delivery.due_at > given.now";

/// Events that arrived are the common case: two statements for all of them.
fn store_attempts(tx: &Connection, attempts: &[Attempt]) -> engine::Result<()> {
    let is_event = |attempt: &&Attempt| {
        attempt.delivery.event.is_some()
            && matches!(attempt.outcome, AttemptOutcome::Delivered { content: None })
    };
    let arrived: Vec<Values<'_>> = attempts
        .iter()
        .filter(is_event)
        .map(|attempt| row![sql(attempt.delivery.id.raw()), attempt.at.millis()])
        .collect();
    tx.prefer_indexes()?;
    tx.change_many(ARRIVED, &arrived, ARRIVE)?;
    tx.change_many(ARRIVED, &arrived, ADVANCE_LANES)?;
    for attempt in attempts.iter().filter(|attempt| !is_event(attempt)) {
        store_attempt(tx, &attempt.delivery, &attempt.outcome, attempt.at)?;
    }
    Ok(())
}

impl Deliveries {
    /// What the dispatcher has to do besides sending.
    pub async fn dispatcher_work(&self, now: Moment) -> Result<DispatcherWork, LedgerError> {
        let query = "
            SELECT EXISTS (SELECT 1 FROM draw JOIN campaign ON campaign.id = draw.campaign
                           WHERE released = 0 AND campaign.state = 'closed') AS to_release,
                   coalesce((SELECT max(id) FROM outbox), 0) > (SELECT event FROM fanned_out)
                   AND EXISTS (SELECT 1 FROM webhook WHERE disabled IS NULL) AS to_fan_out,
                   EXISTS (SELECT 1 FROM delivery WHERE target = ?1 AND state IN ('new', 'failed')
                           AND due_at <= ?2) AS to_give";
        self.0
            .read(move |connection| {
                connection.prepare_cached(query)?.query_row(
                    params![Target::Internal.raw(), now.millis()],
                    |row| {
                        Ok(DispatcherWork {
                            release: row.get("to_release")?,
                            fan_out: row.get("to_fan_out")?,
                            prizes: row.get("to_give")?,
                        })
                    },
                )
            })
            .await
    }

    /// Reads up to so many due deliveries per target, one per lane, without those in hand.
    pub async fn due(
        &self,
        wanted: Vec<(Target, u32)>,
        in_hand: Vec<DeliveryId>,
        now: Moment,
    ) -> Result<Vec<DueDelivery>, LedgerError> {
        self.0.read(move |connection| due(connection, &wanted, &in_hand, now)).await
    }

    /// Stores the outcomes of attempts in one transaction.
    pub async fn record_attempts(&self, attempts: Arc<Vec<Attempt>>) -> Result<(), LedgerError> {
        self.0.write(move |tx| store_attempts(tx, &attempts)).await
    }

    /// Makes open deliveries due that wait for a time after `limit`: no pause is that long, so a clock that was ahead
    /// has set it.
    pub async fn pull_in(
        &self,
        targets: Vec<Target>,
        limit: Moment,
        now: Moment,
    ) -> Result<usize, LedgerError> {
        let update = "
            UPDATE delivery SET due_at = given.now FROM given
            WHERE delivery.target = given.target AND delivery.state IN ('new', 'failed')
            AND delivery.due_at > given.most";
        self.0
            .write(move |tx| {
                let columns = [Column::int("target"), Column::int("most"), Column::int("now")];
                let rows: Vec<Values<'_>> =
                    targets.iter().map(|target| row![target.raw(), limit.millis(), now.millis()]).collect();
                tx.prefer_indexes()?;
                tx.change_many(&columns, &rows, update)
            })
            .await
    }
}
