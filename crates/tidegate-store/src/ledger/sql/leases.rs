//! Leases: who of the nodes does what only one should do, and for how long. One process alone has them all.

use tidegate_core::Moment;

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use crate::ledger::{Fence, LedgerError};

/// Milliseconds by the database's own clock, which decides for all nodes.
fn clock(connection: &Connection) -> engine::Result<i64> {
    let query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS now";
    connection.query_row(query, params![], |row| row.get("now"))
}

/// Whether the lease is held, and stays so until the commit.
pub(super) fn is_held(tx: &Connection, fence: &Fence) -> engine::Result<bool> {
    if !tx.is_shared() {
        return Ok(true);
    }
    let held = "SELECT 1 FROM lease WHERE name = ? AND holder = ? FOR SHARE";
    tx.prepare_cached(held)?.exists(params![fence.name, fence.holder])
}

impl SqlLedger {
    /// Takes or keeps the lease of this name for so long; `false` while somebody else has it.
    pub async fn take_lease(&self, name: String, holder: String, millis: u32) -> Result<bool, LedgerError> {
        if !self.is_shared() {
            return Ok(true);
        }
        self.write(move |tx| {
            let now = clock(tx)?;
            let taken = tx
                .prepare_cached(
                    "INSERT INTO lease VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET holder = ?2, until = ?3
                     WHERE lease.holder = ?2 OR lease.until <= ?4",
                )?
                .execute(params![name, holder, now + i64::from(millis), now])?;
            Ok(taken == 1)
        })
        .await
    }

    /// Gives up one lease, if this holder has it.
    pub async fn drop_lease(&self, name: String, holder: String) -> Result<(), LedgerError> {
        if !self.is_shared() {
            return Ok(());
        }
        let delete = "DELETE FROM lease WHERE name = ? AND holder = ?";
        self.write(move |tx| tx.execute(delete, params![name, holder]).map(|_| ())).await
    }

    /// Gives up everything this holder has, for whoever comes next.
    pub async fn drop_leases(&self, holder: String) -> Result<(), LedgerError> {
        if !self.is_shared() {
            return Ok(());
        }
        self.write(move |tx| tx.execute("DELETE FROM lease WHERE holder = ?", [holder]).map(|_| ())).await
    }

    /// Takes the first of these numbers that nobody has: ids of different nodes never meet.
    pub async fn take_number(
        &self,
        holder: String,
        millis: u32,
        below: u32,
    ) -> Result<Option<u32>, LedgerError> {
        if !self.is_shared() {
            return Ok(Some(0));
        }
        self.write(move |tx| {
            // One node after the other: two must not find the same number free.
            tx.query_row("SELECT 1 FROM pg_advisory_xact_lock(?)", [NUMBERS], |_| Ok(()))?;
            let now = clock(tx)?;
            let free: Option<u32> = tx
                .prepare_cached(
                    "SELECT number FROM generate_series(0, CAST(?1 AS BIGINT) - 1) AS number
                     WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = 'node ' || number AND until > ?2)
                     ORDER BY number LIMIT 1",
                )?
                .query_row(params![below, now], |row| row.get("number"))
                .optional()?;
            let Some(number) = free else { return Ok(None) };
            tx.execute(
                "INSERT INTO lease VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET holder = ?2, until = ?3",
                params![format!("node {number}"), holder, now + i64::from(millis)],
            )?;
            Ok(Some(number))
        })
        .await
    }

    /// The database's time, which decides for all nodes; `None` where there is no other.
    pub async fn time(&self) -> Result<Option<Moment>, LedgerError> {
        if !self.is_shared() {
            return Ok(None);
        }
        self.read(|connection| clock(connection).map(|millis| Some(Moment::from_millis(millis)))).await
    }
}

/// Names the lock under which numbers are taken.
const NUMBERS: i64 = 0x7469_6465_6e75_6d62;
