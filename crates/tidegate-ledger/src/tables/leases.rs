//! Leases elect one node for each task that only one may do. A single process on SQLite holds all leases.

use std::sync::Arc;

use tidegate_core::Moment;

use super::rows::moment;
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, params};
use crate::{Fence, LedgerError};

/// A node's lease of its node number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLease {
    pub name: String,
    pub number: u16,
    /// Expiry, unless the node renews it.
    pub until: Moment,
}

/// The database's clock in milliseconds: the common time of all nodes.
fn clock(connection: &Connection) -> engine::Result<i64> {
    let query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS now";
    connection.query_row(query, params![], |row| row.get("now"))
}

/// Whether the holder has the lease; locks its row, so that this stays true until the commit.
pub(crate) fn is_held(tx: &Connection, fence: &Fence) -> engine::Result<bool> {
    if !tx.is_shared() {
        return Ok(true);
    }
    let held = "SELECT 1 FROM lease WHERE name = ? AND holder = ? FOR SHARE";
    tx.prepare_cached(held)?.exists(params![fence.name, fence.holder])
}

/// Advisory lock that serializes the choice of node numbers.
const NODE_NUMBERS_LOCK: i64 = 0x7469_6465_6e75_6d62;

#[derive(Clone, Debug)]
pub struct Leases(pub(crate) Arc<Database>);

impl Leases {
    /// Takes or renews a lease; `false` while another holder has it.
    pub async fn take(&self, name: String, holder: String, millis: u32) -> Result<bool, LedgerError> {
        if !self.0.is_shared() {
            return Ok(true);
        }
        self.0.write(move |tx| {
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

    /// Releases a lease, if this holder has it.
    pub async fn release(&self, name: String, holder: String) -> Result<(), LedgerError> {
        if !self.0.is_shared() {
            return Ok(());
        }
        let delete = "DELETE FROM lease WHERE name = ? AND holder = ?";
        self.0.write(move |tx| tx.execute(delete, params![name, holder]).map(|_| ())).await
    }

    /// Releases all leases of this holder.
    pub async fn release_all(&self, holder: String) -> Result<(), LedgerError> {
        if !self.0.is_shared() {
            return Ok(());
        }
        self.0.write(move |tx| tx.execute("DELETE FROM lease WHERE holder = ?", [holder]).map(|_| ())).await
    }

    /// Leases the lowest free node number below `below`. Ids contain it, so that nodes never generate the same id.
    pub async fn take_node_number(
        &self,
        holder: String,
        millis: u32,
        below: u32,
    ) -> Result<Option<u32>, LedgerError> {
        if !self.0.is_shared() {
            return Ok(Some(0));
        }
        self.0.write(move |tx| {
            // Serialized: two nodes must not find the same number free.
            tx.query_row("SELECT 1 FROM pg_advisory_xact_lock(?)", [NODE_NUMBERS_LOCK], |_| Ok(()))?;
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

    /// Nodes with a valid lease, by node number; empty on SQLite.
    pub async fn nodes(&self) -> Result<Vec<NodeLease>, LedgerError> {
        if !self.0.is_shared() {
            return Ok(Vec::new());
        }
        self.0
            .read(|connection| {
                let now = clock(connection)?;
                let mut nodes: Vec<NodeLease> = connection
                    .prepare_cached(
                        "SELECT name, holder, until FROM lease WHERE name LIKE 'node %' AND until > ?",
                    )?
                    .query_map([now], |row| {
                        let name: String = row.get("name")?;
                        let number = name.trim_start_matches("node ").parse().unwrap_or(u16::MAX);
                        Ok(NodeLease { name: row.get("holder")?, number, until: moment(row, "until")? })
                    })?
                    .collect::<engine::Result<_>>()?;
                nodes.sort_by_key(|node| node.number);
                Ok(nodes)
            })
            .await
    }

    /// The database's clock, the common time of all nodes; `None` on SQLite.
    pub async fn database_time(&self) -> Result<Option<Moment>, LedgerError> {
        if !self.0.is_shared() {
            return Ok(None);
        }
        self.0.read(|connection| clock(connection).map(|millis| Some(Moment::from_millis(millis)))).await
    }
}
