//! The program's own settings: secrets that it generated at its first start.

use std::sync::Arc;

use crate::LedgerError;
use crate::engine::{Database, OptionalExtension, params};

#[derive(Clone, Debug)]
pub struct Settings(pub(crate) Arc<Database>);

impl Settings {
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        let name = name.to_owned();
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached("SELECT value FROM setting WHERE name = ?")?
                    .query_row([name], |row| row.get(0))
                    .optional()
            })
            .await
    }

    pub async fn set(&self, name: &'static str, value: Vec<u8>) -> Result<(), LedgerError> {
        let sql_text = "INSERT INTO setting VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
        self.0.write(move |tx| tx.execute(sql_text, params![name, value]).map(drop)).await
    }

    /// Inserts the setting unless it exists; returns the stored value.
    pub async fn get_or_insert(&self, name: &'static str, value: Vec<u8>) -> Result<Vec<u8>, LedgerError> {
        self.0
            .write(move |tx| {
                tx.execute("INSERT INTO setting VALUES (?, ?) ON CONFLICT DO NOTHING", params![name, value])?;
                tx.query_row("SELECT value FROM setting WHERE name = ?", [name], |row| row.get(0))
            })
            .await
    }
}
