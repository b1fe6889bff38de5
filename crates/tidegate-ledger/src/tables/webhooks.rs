//! Webhooks: where events go, and the fan-out that turns the outbox into deliveries.
//!
//! Invariants: the fan-out position is committed with the deliveries, so that each event is queued for a webhook
//! exactly once; a webhook receives no event from before its creation.

use std::sync::Arc;

use tidegate_core::{EventKind, EventNoun, Moment, Stored, WebhookId};

use super::events::{Event, NewEvent, append_event, event};
use super::idempotency::insert_key;
use super::rows::{id, moment, sql, word};
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::postgres::EVENT_WRITERS_LOCK;
use crate::engine::{Connection, Database, OptionalExtension, Row, Values, params, row};
use crate::{Actor, IdempotentRequest, LedgerError};

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    pub url: String,
    /// Kinds of events: `order.paid`, `order.*`, `*`.
    pub events: Vec<String>,
    pub secret: Vec<u8>,
    /// The secret before the last rotation, and the time until which it still signs.
    pub old_secret: Option<(Vec<u8>, Moment)>,
    /// The reason, if the webhook is disabled.
    pub disabled: Option<String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

impl Webhook {
    /// Whether the webhook is subscribed to events of this kind. A kind that a later version wrote is judged by its
    /// noun: nodes of that version send it.
    pub fn wants(&self, kind: &Stored<EventKind>) -> bool {
        kind.noun().is_some_and(EventNoun::is_public)
            && self.events.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(prefix) => kind.as_str().starts_with(prefix),
                None => wanted == kind.as_str(),
            })
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("id", &self.id).field("url", &self.url).finish_non_exhaustive()
    }
}

fn webhook(row: &Row<'_>) -> engine::Result<Webhook> {
    let old_secret: Option<Vec<u8>> = row.get("old_secret")?;
    let old_until: Option<i64> = row.get("old_until")?;
    Ok(Webhook {
        id: WebhookId::from_raw(id(row, "id")?),
        url: row.get("url")?,
        events: word(row, "events", |text| serde_json::from_str(text).ok())?,
        secret: row.get("secret")?,
        old_secret: old_secret.zip(old_until.map(Moment::from_millis)),
        disabled: row.get("disabled")?,
        created_at: moment(row, "created_at")?,
        updated_at: moment(row, "updated_at")?,
    })
}

fn all(connection: &Connection) -> engine::Result<Vec<Webhook>> {
    connection
        .prepare_cached("SELECT * FROM webhook ORDER BY id DESC")?
        .query_map(params![], webhook)?
        .collect()
}

/// Skips all events up to now for this webhook, and for the fan-out if no other webhook is enabled.
fn from_now_on(tx: &Connection, webhook: WebhookId) -> engine::Result<()> {
    let id = sql(webhook.raw());
    tx.execute("UPDATE webhook SET after = (SELECT coalesce(max(id), 0) FROM outbox) WHERE id = ?", [id])?;
    tx.execute(
        "UPDATE fanned_out SET event = (SELECT coalesce(max(id), 0) FROM outbox)
         WHERE NOT EXISTS (SELECT 1 FROM webhook WHERE disabled IS NULL AND id <> ?)",
        [id],
    )?;
    Ok(())
}

fn event_of(webhook: WebhookId, kind: EventKind) -> NewEvent<'static> {
    NewEvent { kind, campaign: None, subject: webhook.raw(), detail: None }
}

const OWED: &[Column] =
    &[Column::int("target"), Column::int("lane"), Column::int("event"), Column::int("now")];
/// Queues events for webhooks; an existing delivery is reset.
const OWE: &str = "
    INSERT INTO delivery (target, lane, kind, event, state, due_at, open_since, created_at, updated_at)
    SELECT given.target, given.lane, 'webhook', given.event, 'new',
           -- Behind one that failed it waits as long, so that looking for what is due does not find it in vain.
           coalesce((SELECT max(due_at) FROM delivery AS earlier INDEXED BY delivery_lane
                     WHERE earlier.target = given.target AND earlier.lane = given.lane AND earlier.state = 'failed'
                     AND earlier.state IN ('new', 'failed') AND earlier.due_at > given.now), given.now),
           given.now, given.now, given.now
    FROM given WHERE true
    ON CONFLICT (target, event) WHERE event IS NOT NULL
    DO UPDATE SET state = 'new', tries = 0, due_at = excluded.open_since, open_since = excluded.open_since,
                  updated_at = excluded.updated_at";

/// Queues those of the events that the webhook wants, in their order; returns how many.
fn owe<'e>(
    tx: &Connection,
    webhook: &Webhook,
    events: impl Iterator<Item = &'e Event>,
    now: Moment,
) -> engine::Result<usize> {
    let wanted = events.filter(|event| webhook.wants(&event.kind));
    let rows: Vec<Values<'_>> = wanted
        .map(|event| row![sql(webhook.id.raw()), sql(event.subject), sql(event.id), now.millis()])
        .collect();
    tx.prefer_indexes()?;
    tx.change_many(OWED, &rows, OWE)?;
    Ok(rows.len())
}

/// The id up to which the outbox is complete. With several writers a smaller id may be committed after a greater one.
/// Every writer holds `EVENT_WRITERS_LOCK` in shared mode until its commit, so acquiring it exclusively waits for all
/// of them.
fn settled(connection: &Connection) -> engine::Result<u64> {
    if !connection.is_shared() {
        return events_end(connection);
    }
    // Short timeout: waiting writers must not be blocked. The next call tries again.
    connection.execute_batch("BEGIN; SET LOCAL lock_timeout = '200ms'")?;
    let alone =
        connection.query_row("SELECT 1 FROM pg_advisory_xact_lock(?)", [EVENT_WRITERS_LOCK], |_| Ok(()));
    let end = alone.and_then(|()| events_end(connection));
    connection.execute_batch("ROLLBACK")?;
    Ok(end.unwrap_or(0))
}

fn events_end(connection: &Connection) -> engine::Result<u64> {
    let end = "SELECT coalesce(max(id), 0) AS id FROM outbox";
    connection.query_row(end, params![], |row| id(row, "id"))
}

/// Creates deliveries for the next events; returns the number of events read.
fn fan_out(tx: &Connection, now: Moment, most: u32, settled: u64) -> engine::Result<usize> {
    let webhooks: Vec<(Webhook, u64)> = tx
        .prepare_cached("SELECT * FROM webhook WHERE disabled IS NULL")?
        .query_map(params![], |row| Ok((webhook(row)?, id(row, "after")?)))?
        .collect::<engine::Result<_>>()?;
    let most = most / u32::try_from(webhooks.len()).unwrap_or(u32::MAX).max(1) + 1;
    let from: u64 = tx
        .prepare_cached("SELECT event FROM fanned_out /*pg FOR UPDATE */")?
        .query_row(params![], |row| id(row, "event"))?;
    let events: Vec<Event> = tx
        .prepare_cached("SELECT * FROM outbox WHERE id > ? AND id <= ? ORDER BY id LIMIT ?")?
        .query_map(params![sql(from), sql(settled), most], event)?
        .collect::<engine::Result<_>>()?;
    let Some(last) = events.last() else { return Ok(0) };
    for (webhook, after) in &webhooks {
        owe(tx, webhook, events.iter().filter(|event| event.id > *after), now)?;
    }
    tx.prepare_cached("UPDATE fanned_out SET event = ?")?.execute([sql(last.id)])?;
    Ok(events.len())
}

#[derive(Clone, Debug)]
pub struct Webhooks(pub(crate) Arc<Database>);

impl Webhooks {
    pub async fn list(&self) -> Result<Vec<Webhook>, LedgerError> {
        self.0.read(all).await
    }

    pub async fn get(&self, id: WebhookId) -> Result<Option<Webhook>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM webhook WHERE id = ?")?
                    .query_row([sql(id.raw())], webhook)
                    .optional()
            })
            .await
    }

    pub async fn create(
        &self,
        webhook: Webhook,
        by: Actor,
        request: Option<IdempotentRequest>,
    ) -> Result<(), LedgerError> {
        self.0
            .write(move |tx| {
                let now = webhook.created_at;
                tx.execute(
                    "INSERT INTO webhook (id, url, events, secret, after, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, 0, ?5, ?5)",
                    params![
                        sql(webhook.id.raw()),
                        webhook.url,
                        serde_json::to_string(&webhook.events).unwrap_or_default(),
                        webhook.secret,
                        now.millis()
                    ],
                )?;
                from_now_on(tx, webhook.id)?;
                insert_key(tx, request, webhook.id.raw(), 0, now)?;
                append_event(tx, &by, now, event_of(webhook.id, EventKind::WebhookCreated))
            })
            .await
    }

    /// Deletes the webhook, not its deliveries; `false` if it does not exist.
    pub async fn delete(&self, id: WebhookId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let deleted = tx.execute("DELETE FROM webhook WHERE id = ?", [sql(id.raw())])? == 1;
                if deleted {
                    append_event(tx, &by, now, event_of(id, EventKind::WebhookDeleted))?;
                }
                Ok(deleted)
            })
            .await
    }

    /// Deletes up to 5000 deliveries of a deleted webhook; returns how many.
    pub async fn delete_deliveries(&self, webhook: WebhookId) -> Result<usize, LedgerError> {
        self.0.write(move |tx| {
                tx.execute(
                    "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery WHERE target = ? AND event IS NOT NULL
                     LIMIT 5000)",
                    [sql(webhook.raw())],
                )
            })
            .await
    }

    /// Signs with a new secret, and with the old one, too, until `old_until`.
    pub async fn rotate_secret(
        &self,
        id: WebhookId,
        secret: Vec<u8>,
        old_until: Moment,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                let rotated = tx.execute(
                    "UPDATE webhook SET old_secret = secret, old_until = ?3, secret = ?2, updated_at = ?4
                     WHERE id = ?1",
                    params![sql(id.raw()), secret, old_until.millis(), now.millis()],
                )? == 1;
                if rotated {
                    append_event(tx, &by, now, event_of(id, EventKind::WebhookRotated))?;
                }
                Ok(rotated)
            })
            .await
    }

    /// Disables a webhook with a reason, or enables it. Disabling gives up its open deliveries.
    pub async fn set_disabled(
        &self,
        id: WebhookId,
        disabled: Option<String>,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.0.write(move |tx| {
                let raw = sql(id.raw());
                let changed = tx.execute(
                    "UPDATE webhook SET disabled = ?2, updated_at = ?3 WHERE id = ?1 AND disabled IS DISTINCT FROM ?2",
                    params![raw, disabled, now.millis()],
                )? == 1;
                if changed && disabled.is_some() {
                    tx.execute(
                        "UPDATE delivery SET state = 'dead', error = ?2, updated_at = ?3
                         WHERE target = ?1 AND state IN ('new', 'failed')",
                        params![raw, disabled, now.millis()],
                    )?;
                }
                if changed && disabled.is_none() {
                    from_now_on(tx, id)?;
                }
                if changed {
                    let kind = if disabled.is_some() { EventKind::WebhookDisabled } else { EventKind::WebhookEnabled };
                    append_event(tx, &by, now, event_of(id, kind))?;
                }
                Ok(changed)
            })
            .await
    }

    /// Reads up to `most` events after `after` and queues the subscribed ones again; returns how many, and the last
    /// id read.
    pub async fn replay_events(
        &self,
        id: WebhookId,
        after: u64,
        by: Actor,
        now: Moment,
        most: u32,
    ) -> Result<(usize, u64), LedgerError> {
        self.0.write_alone(move |tx| {
                let Some(webhook) = tx
                    .prepare_cached("SELECT * FROM webhook WHERE id = ? AND disabled IS NULL")?
                    .query_row([sql(id.raw())], webhook)
                    .optional()?
                else {
                    return Ok((0, after));
                };
                let mut select = tx.prepare_cached(
                    "SELECT * FROM outbox WHERE id > ? AND id <= (SELECT event FROM fanned_out) ORDER BY id LIMIT ?",
                )?;
                let events: Vec<Event> =
                    select.query_map(params![sql(after), most], event)?.collect::<engine::Result<_>>()?;
                let last = events.last().map_or(after, |event| event.id);
                let owed = owe(tx, &webhook, events.iter(), now)?;
                append_event(tx, &by, now, event_of(id, EventKind::WebhookReplayed))?;
                Ok((owed, last))
            })
            .await
    }

    /// Creates deliveries for new events; returns the number of events read.
    pub async fn fan_out(&self, now: Moment, most: u32) -> Result<usize, LedgerError> {
        let settled = self.0.read(settled).await?;
        self.0.write_alone(move |tx| fan_out(tx, now, most, settled)).await
    }
}
