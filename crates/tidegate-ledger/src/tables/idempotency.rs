//! Idempotency keys of operators' requests, each committed with the change that the request made.

use std::sync::Arc;

use tidegate_core::{IdempotencyKey, Moment};

use super::rows::{id, sql};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, params};
use crate::{IdempotencyRecord, IdempotentRequest, LedgerError};

/// Inserts the request's key. A duplicate key fails the whole transaction: the change was made before.
pub(crate) fn insert_key(
    tx: &Connection,
    request: Option<IdempotentRequest>,
    subject: u64,
    note: i64,
    now: Moment,
) -> engine::Result<()> {
    let Some(IdempotentRequest { scope, key, fingerprint }) = request else { return Ok(()) };
    tx.prepare_cached("INSERT INTO remembered VALUES (?, ?, ?, ?, ?, ?)")?.execute(params![
        scope,
        key.0,
        fingerprint,
        sql(subject),
        note,
        now.millis()
    ])?;
    Ok(())
}

#[derive(Clone, Debug)]
pub struct IdempotencyKeys(pub(crate) Arc<Database>);

impl IdempotencyKeys {
    pub async fn get(
        &self,
        scope: &'static str,
        key: IdempotencyKey,
    ) -> Result<Option<IdempotencyRecord>, LedgerError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached(
                        "SELECT fingerprint, subject, note FROM remembered WHERE scope = ? AND key = ?",
                    )?
                    .query_row(params![scope, key.0], |row| {
                        Ok(IdempotencyRecord {
                            fingerprint: row.get("fingerprint")?,
                            subject: id(row, "subject")?,
                            note: row.get("note")?,
                        })
                    })
                    .optional()
            })
            .await
    }

    /// Deletes keys older than `before`.
    pub async fn delete_before(&self, before: Moment) -> Result<usize, LedgerError> {
        self.0.write(move |tx| tx.execute("DELETE FROM remembered WHERE at < ?", [before.millis()])).await
    }
}
