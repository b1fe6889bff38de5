//! Webhooks: where events go, and the fan-out that turns the outbox into deliveries.
//!
//! What always holds: how far the outbox is fanned out is committed with the deliveries made of it, so that an event is
//! owed to a webhook exactly once; a webhook hears of nothing that happened before it was made.

use tidegate_core::{Moment, WebhookId};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, Row, params};
use super::events::{Event, Told, by_number, event, tell};
use super::postgres::WRITES_EVENTS;
use super::remembered::remember;
use super::rows::{id, moment, sql, word};
use crate::ledger::{Actor, LedgerError, Remember};

/// What concerns nobody but operators: webhooks telling of webhooks would never end.
const INTERNAL: &[&str] = &["webhook.", "delivery.", "buyers.", "operator.", "api_key."];

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub id: WebhookId,
    pub url: String,
    /// Kinds of events: `order.paid`, `order.*`, `*`.
    pub events: Vec<String>,
    pub secret: Vec<u8>,
    /// The secret before the last rotation, and until when it still signs.
    pub old_secret: Option<(Vec<u8>, Moment)>,
    /// Why nothing is sent there any more.
    pub disabled: Option<String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

impl Webhook {
    /// Whether it wants to hear of events of this kind.
    pub fn wants(&self, kind: &str) -> bool {
        let ours = INTERNAL.iter().any(|noun| kind.starts_with(noun));
        !ours
            && self.events.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(prefix) => kind.starts_with(prefix),
                None => wanted == kind,
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

/// A webhook hears of nothing from before this; nor does the fan-out look at it, if nobody else listens.
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

fn told(webhook: WebhookId, kind: &str) -> Told<'_> {
    Told { kind, campaign: None, subject: webhook.raw(), detail: None }
}

/// Owes the event to a webhook; what was owed before is owed again.
fn owe(tx: &Connection, webhook: &Webhook, event: &Event, now: Moment) -> engine::Result<()> {
    tx.prepare_cached(
        "INSERT INTO delivery (target, lane, kind, event, state, due_at, open_since, created_at, updated_at)
         VALUES (?1, ?2, 'webhook', ?3, 'new',
                 -- Behind one that failed it waits as long, so that looking for what is due does not find it in vain.
                 coalesce((SELECT max(due_at) FROM delivery INDEXED BY delivery_lane WHERE target = ?1 AND lane = ?2
                           AND state = 'failed' AND state IN ('new', 'failed') AND due_at > ?4), ?4), ?4, ?4, ?4)
         ON CONFLICT (target, event) WHERE event IS NOT NULL
         DO UPDATE SET state = 'new', tries = 0, due_at = ?4, open_since = ?4, updated_at = ?4",
    )?
    .execute(params![sql(webhook.id.raw()), sql(event.subject), sql(event.id), now.millis()])?;
    Ok(())
}

/// The number up to which all events are known that there will ever be. Where others write, too, one with a smaller number
/// may be committed after one with a greater: whoever writes events holds `WRITES_EVENTS` shared until the commit, so
/// that having it alone for a moment is having waited for all of them.
fn settled(connection: &Connection) -> engine::Result<u64> {
    if !connection.is_shared() {
        return events_end(connection);
    }
    // Nobody is kept waiting for long: if it cannot be had now, it is at the next look.
    connection.execute_batch("BEGIN; SET LOCAL lock_timeout = '200ms'")?;
    let alone = connection.query_row("SELECT 1 FROM pg_advisory_xact_lock(?)", [WRITES_EVENTS], |_| Ok(()));
    let end = alone.and_then(|()| events_end(connection));
    connection.execute_batch("ROLLBACK")?;
    Ok(end.unwrap_or(0))
}

fn events_end(connection: &Connection) -> engine::Result<u64> {
    let end = "SELECT coalesce(max(id), 0) AS id FROM outbox";
    connection.query_row(end, params![], |row| id(row, "id"))
}

/// Turns up to `most` events into deliveries; how many events were looked at.
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
        for event in events.iter().filter(|event| event.id > *after && webhook.wants(&event.kind)) {
            owe(tx, webhook, event, now)?;
        }
    }
    tx.prepare_cached("UPDATE fanned_out SET event = ?")?.execute([sql(last.id)])?;
    Ok(events.len())
}

impl SqlLedger {
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, LedgerError> {
        self.read(all).await
    }

    pub async fn webhook(&self, id: WebhookId) -> Result<Option<Webhook>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM webhook WHERE id = ?")?
                .query_row([sql(id.raw())], webhook)
                .optional()
        })
        .await
    }

    pub async fn create_webhook(
        &self,
        webhook: Webhook,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<(), LedgerError> {
        self.write(move |tx| {
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
            remember(tx, key, webhook.id.raw(), 0, now)?;
            tell(tx, &by, now, told(webhook.id, "webhook.created"))
        })
        .await
    }

    /// Removes it; `false` if there is none. What is owed to it is to be dropped.
    pub async fn delete_webhook(&self, id: WebhookId, by: Actor, now: Moment) -> Result<bool, LedgerError> {
        self.write(move |tx| {
            let deleted = tx.execute("DELETE FROM webhook WHERE id = ?", [sql(id.raw())])? == 1;
            if deleted {
                tell(tx, &by, now, told(id, "webhook.deleted"))?;
            }
            Ok(deleted)
        })
        .await
    }

    /// Drops some of what was owed to a webhook that is gone; how many.
    pub async fn drop_deliveries(&self, webhook: WebhookId) -> Result<usize, LedgerError> {
        self.write(move |tx| {
                tx.execute(
                    "DELETE FROM delivery WHERE id IN (SELECT id FROM delivery WHERE target = ? AND event IS NOT NULL
                     LIMIT 5000)",
                    [sql(webhook.raw())],
                )
            })
            .await
    }

    /// Signs with a new secret, and with the old one beside it until `old_until`.
    pub async fn rotate_webhook(
        &self,
        id: WebhookId,
        secret: Vec<u8>,
        old_until: Moment,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
                let rotated = tx.execute(
                    "UPDATE webhook SET old_secret = secret, old_until = ?3, secret = ?2, updated_at = ?4 WHERE id = ?1",
                    params![sql(id.raw()), secret, old_until.millis(), now.millis()],
                )? == 1;
                if rotated {
                    tell(tx, &by, now, told(id, "webhook.rotated"))?;
                }
                Ok(rotated)
            })
            .await
    }

    /// Stops sending there, or starts again. What is owed to a disabled webhook is given up with the reason.
    pub async fn set_webhook(
        &self,
        id: WebhookId,
        disabled: Option<String>,
        by: Actor,
        now: Moment,
    ) -> Result<bool, LedgerError> {
        self.write(move |tx| {
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
                    let kind = if disabled.is_some() { "webhook.disabled" } else { "webhook.enabled" };
                    tell(tx, &by, now, told(id, kind))?;
                }
                Ok(changed)
            })
            .await
    }

    /// Looks at up to `most` events after the one of this number and owes those again that are wanted; how many, and the
    /// number of the last looked at.
    pub async fn replay_events(
        &self,
        id: WebhookId,
        after: u64,
        by: Actor,
        now: Moment,
        most: u32,
    ) -> Result<(usize, u64), LedgerError> {
        self.write_alone(move |tx| {
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
                let (mut owed, mut last) = (0, after);
                for event in select.query_map(params![sql(after), most], event)? {
                    let event = event?;
                    last = event.id;
                    if webhook.wants(&event.kind) {
                        owe(tx, &webhook, &event, now)?;
                        owed += 1;
                    }
                }
                tell(tx, &by, now, told(id, "webhook.replayed"))?;
                Ok((owed, last))
            })
            .await
    }

    pub async fn is_fan_out_due(&self) -> Result<bool, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT 1 FROM outbox WHERE id > (SELECT event FROM fanned_out)
                     AND EXISTS (SELECT 1 FROM webhook WHERE disabled IS NULL) LIMIT 1",
                )?
                .exists(params![])
        })
        .await
    }

    /// Turns events into deliveries; how many events.
    pub async fn fan_out(&self, now: Moment, most: u32) -> Result<usize, LedgerError> {
        let settled = self.read(settled).await?;
        self.write_alone(move |tx| fan_out(tx, now, most, settled)).await
    }

    /// One event by its number.
    pub async fn event(&self, number: u64) -> Result<Option<Event>, LedgerError> {
        self.read(move |connection| by_number(connection, number)).await
    }
}
