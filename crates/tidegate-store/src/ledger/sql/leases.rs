//! Leases: who of the nodes does what only one should do, and for how long. One process alone has them all.

use tidegate_core::Moment;

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use super::rows::moment;
use crate::ledger::{Fence, LedgerError};

/// A node that has taken a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    pub name: String,
    pub number: u16,
    /// Until when it has it, unless it says so again.
    pub until: Moment,
}

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

    /// The nodes whose number has not ended, by their numbers; none where there is one process.
    pub async fn nodes(&self) -> Result<Vec<KnownNode>, LedgerError> {
        if !self.is_shared() {
            return Ok(Vec::new());
        }
        self.read(|connection| {
            let now = clock(connection)?;
            let mut nodes: Vec<KnownNode> = connection
                .prepare_cached(
                    "SELECT name, holder, until FROM lease WHERE name LIKE 'node %' AND until > ?",
                )?
                .query_map([now], |row| {
                    let name: String = row.get("name")?;
                    let number = name.trim_start_matches("node ").parse().unwrap_or(u16::MAX);
                    Ok(KnownNode { name: row.get("holder")?, number, until: moment(row, "until")? })
                })?
                .collect::<engine::Result<_>>()?;
            nodes.sort_by_key(|node| node.number);
            Ok(nodes)
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
