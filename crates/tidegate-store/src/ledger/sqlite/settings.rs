//! What the program keeps about itself: secrets made at first start, and where its ids have got to.

use rusqlite::{OptionalExtension, params};

use super::SqliteLedger;
use super::rows::id;
use crate::ledger::LedgerError;

impl SqliteLedger {
    pub fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT value FROM setting WHERE name = ?")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
    }

    /// Sets it, unless it is there already; gives what is in force.
    pub async fn setting_or(&self, name: &'static str, value: Vec<u8>) -> Result<Vec<u8>, LedgerError> {
        self.writer
            .write(move |tx| {
                tx.execute("INSERT INTO setting VALUES (?, ?) ON CONFLICT DO NOTHING", params![name, value])?;
                tx.query_row("SELECT value FROM setting WHERE name = ?", [name], |row| row.get(0))
            })
            .await
    }

    /// Writes something harmless, to find out whether writing works.
    pub async fn probe(&self) -> Result<(), LedgerError> {
        self.writer.write(|tx| tx.execute("UPDATE intake SET recorded = recorded", []).map(|_| ())).await
    }

    /// The greatest id in use.
    pub fn highest_id(&self) -> Result<u64, LedgerError> {
        self.read(|connection| {
            connection.query_row(
                "SELECT max((SELECT coalesce(max(id), 0) FROM orders), (SELECT coalesce(max(id), 0) FROM buyer),
                            (SELECT coalesce(max(id), 0) FROM campaign), (SELECT coalesce(max(id), 0) FROM item),
                            (SELECT coalesce(max(id), 0) FROM play), (SELECT coalesce(max(id), 0) FROM webhook)) AS id",
                [],
                |row| id(row, "id"),
            )
        })
    }
}
