//! Idempotency keys of operators: committed with the change they stand for.

use tidegate_core::{IdempotencyKey, Moment};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use super::rows::{id, sql};
use crate::ledger::{LedgerError, Remember, Remembered};

/// A key that is there already makes the whole change fail: it was done before.
pub(super) fn remember(
    tx: &Connection,
    key: Option<Remember>,
    subject: u64,
    note: i64,
    now: Moment,
) -> engine::Result<()> {
    let Some(Remember { scope, key, fingerprint }) = key else { return Ok(()) };
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

impl SqlLedger {
    pub async fn remembered(
        &self,
        scope: &'static str,
        key: IdempotencyKey,
    ) -> Result<Option<Remembered>, LedgerError> {
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT fingerprint, subject, note FROM remembered WHERE scope = ? AND key = ?",
                )?
                .query_row(params![scope, key.0], |row| {
                    Ok(Remembered {
                        fingerprint: row.get("fingerprint")?,
                        subject: id(row, "subject")?,
                        note: row.get("note")?,
                    })
                })
                .optional()
        })
        .await
    }

    /// Forgets keys older than `before`.
    pub async fn forget_keys(&self, before: Moment) -> Result<usize, LedgerError> {
        self.write(move |tx| tx.execute("DELETE FROM remembered WHERE at < ?", [before.millis()])).await
    }
}
