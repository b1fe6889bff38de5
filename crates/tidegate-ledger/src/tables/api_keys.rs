//! API keys, with which programs act as operators. Stored as digests; revoked keys stay listed for a while.

use std::sync::Arc;

use tidegate_core::{ApiKeyId, EventKind, Moment, Role};

use super::events::{NewEvent, append_event};
use super::idempotency::insert_key;
use super::operators::CreateOutcome;
use super::rows::{id, moment, sql, word};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, Row, params};
use crate::{Actor, IdempotentRequest, LedgerError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    pub role: Role,
    pub created_at: Moment,
    /// The author, in the audit log's notation.
    pub created_by: String,
    pub revoked_at: Option<Moment>,
    pub last_used_at: Option<Moment>,
}

fn api_key(row: &Row<'_>) -> engine::Result<ApiKey> {
    let maybe = |column: &'static str| -> engine::Result<Option<Moment>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Moment::from_millis))
    };
    Ok(ApiKey {
        id: ApiKeyId::from_raw(id(row, "id")?),
        name: row.get("name")?,
        role: word(row, "role", Role::parse)?,
        created_at: moment(row, "created_at")?,
        created_by: row.get("created_by")?,
        revoked_at: maybe("revoked_at")?,
        last_used_at: maybe("last_used_at")?,
    })
}

fn insert(tx: &Connection, key: &ApiKey, digest: &[u8; 32], most: u32) -> engine::Result<CreateOutcome> {
    let count = "SELECT count(*) AS keys FROM api_key WHERE revoked_at IS NULL";
    let keys: u32 = tx.query_row(count, params![], |row| row.get("keys"))?;
    if keys >= most {
        return Ok(CreateOutcome::TooMany);
    }
    let inserted = tx.execute(
        "INSERT INTO api_key (id, name, digest, role, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING",
        params![
            sql(key.id.raw()),
            key.name,
            digest,
            key.role.as_str(),
            key.created_at.millis(),
            key.created_by
        ],
    )?;
    Ok(if inserted == 1 { CreateOutcome::Created } else { CreateOutcome::NameTaken })
}

fn event_of(key: ApiKeyId, kind: EventKind, detail: &str) -> NewEvent<'_> {
    NewEvent { kind, campaign: None, subject: key.raw(), detail: Some(detail) }
}

#[derive(Clone, Debug)]
pub struct ApiKeys(pub(crate) Arc<Database>);

impl ApiKeys {
    /// Up to `most` keys, active ones before revoked ones, newest first.
    pub async fn list(&self, most: u32) -> Result<Vec<ApiKey>, LedgerError> {
        self.0.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT * FROM api_key ORDER BY CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END, id DESC LIMIT ?",
                )?
                .query_map([most], api_key)?
                .collect()
        })
        .await
    }

    pub async fn get(&self, id: ApiKeyId) -> Result<Option<ApiKey>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select = connection.prepare_cached("SELECT * FROM api_key WHERE id = ?")?;
                select.query_row([sql(id.raw())], api_key).optional()
            })
            .await
    }

    /// The active key with this digest.
    pub async fn active_by_digest(&self, digest: [u8; 32]) -> Result<Option<ApiKey>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT * FROM api_key WHERE digest = ? AND revoked_at IS NULL")?
                    .query_row([digest], api_key)
                    .optional()
            })
            .await
    }

    /// Creates a key, unless an active one has its name or `most` are active. A digest that exists is an error:
    /// secrets are random, so it cannot happen.
    pub async fn create(
        &self,
        key: ApiKey,
        digest: [u8; 32],
        most: u32,
        by: Actor,
        request: Option<IdempotentRequest>,
    ) -> Result<CreateOutcome, LedgerError> {
        self.0
            .write(move |tx| {
                let outcome = insert(tx, &key, &digest, most)?;
                if outcome == CreateOutcome::Created {
                    insert_key(tx, request, key.id.raw(), 0, key.created_at)?;
                    let detail = format!("{}, {}", key.name, key.role.as_str());
                    append_event(
                        tx,
                        &by,
                        key.created_at,
                        event_of(key.id, EventKind::ApiKeyCreated, &detail),
                    )?;
                }
                Ok(outcome)
            })
            .await
    }

    /// Revokes a key and returns its digest; `None` if no active key has this id.
    pub async fn revoke(
        &self,
        id: ApiKeyId,
        by: Actor,
        now: Moment,
    ) -> Result<Option<[u8; 32]>, LedgerError> {
        self.0
            .write(move |tx| {
                let raw = sql(id.raw());
                let revoked = tx.execute(
                    "UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                    params![raw, now.millis()],
                )?;
                if revoked != 1 {
                    return Ok(None);
                }
                let (name, digest): (String, [u8; 32]) = tx
                    .prepare_cached("SELECT name, digest FROM api_key WHERE id = ?")?
                    .query_row([raw], |row| Ok((row.get("name")?, row.get("digest")?)))?;
                append_event(tx, &by, now, event_of(id, EventKind::ApiKeyRevoked, &name))?;
                Ok(Some(digest))
            })
            .await
    }

    pub async fn set_last_used(&self, id: ApiKeyId, now: Moment) -> Result<(), LedgerError> {
        let update = "UPDATE api_key SET last_used_at = ? WHERE id = ?";
        self.0.write(move |tx| tx.execute(update, params![now.millis(), sql(id.raw())]).map(|_| ())).await
    }

    /// Deletes keys that were revoked before this time; the audit log keeps their names.
    pub async fn delete_revoked(&self, before: Moment) -> Result<usize, LedgerError> {
        self.0
            .write(move |tx| tx.execute("DELETE FROM api_key WHERE revoked_at < ?", [before.millis()]))
            .await
    }
}
