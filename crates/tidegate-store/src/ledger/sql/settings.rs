//! What the program keeps about itself: secrets made at first start, and where its ids have got to.

use super::SqlLedger;
use super::engine::{OptionalExtension, params};
use super::rows::id;
use crate::ledger::LedgerError;

impl SqlLedger {
    pub async fn setting(&self, name: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        let name = name.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT value FROM setting WHERE name = ?")?
                .query_row([name], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Sets it, unless it is there already; gives what is in force.
    pub async fn setting_or(&self, name: &'static str, value: Vec<u8>) -> Result<Vec<u8>, LedgerError> {
        self.write(move |tx| {
            tx.execute("INSERT INTO setting VALUES (?, ?) ON CONFLICT DO NOTHING", params![name, value])?;
            tx.query_row("SELECT value FROM setting WHERE name = ?", [name], |row| row.get(0))
        })
        .await
    }

    /// Writes something harmless, to find out whether writing works.
    pub async fn probe(&self) -> Result<(), LedgerError> {
        self.write(|tx| tx.execute("UPDATE intake SET recorded = recorded", params![]).map(|_| ())).await
    }

    /// The greatest id in use.
    pub async fn highest_id(&self) -> Result<u64, LedgerError> {
        self.read(move |connection| {
            connection.query_row(
                "SELECT coalesce(max(id), 0) AS id FROM (
                     SELECT max(id) AS id FROM orders UNION ALL SELECT max(id) FROM buyer UNION ALL
                     SELECT max(id) FROM campaign UNION ALL SELECT max(id) FROM item UNION ALL
                     SELECT max(id) FROM play UNION ALL SELECT max(id) FROM webhook UNION ALL
                     SELECT max(id) FROM operator_account UNION ALL SELECT max(id) FROM api_key) AS ids",
                params![],
                |row| id(row, "id"),
            )
        })
        .await
    }
}
