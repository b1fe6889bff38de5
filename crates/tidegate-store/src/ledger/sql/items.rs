//! The catalogue.

use tidegate_core::{Item, ItemId};

use super::SqlLedger;
use super::engine;
use super::engine::{Connection, OptionalExtension, params};
use super::events::{Told, tell};
use super::remembered::remember;
use super::rows::{item, sql};
use crate::ledger::{Actor, LedgerError, Page, Remember};

pub(super) fn create(tx: &Connection, item: &Item, by: &Actor, key: Option<Remember>) -> engine::Result<()> {
    tx.execute(
        "INSERT INTO item (id, name, description, price, currency, image_url, created_at, updated_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            sql(item.id.raw()),
            item.name,
            item.description,
            item.price.amount,
            item.price.currency.as_str(),
            item.image_url,
            item.created_at.millis(),
            item.updated_at.millis()
        ],
    )?;
    remember(tx, key, item.id.raw(), 0, item.created_at)?;
    let told = Told { kind: "item.created", campaign: None, subject: item.id.raw(), detail: None };
    tell(tx, by, item.created_at, told)
}

impl SqlLedger {
    pub async fn item(&self, id: ItemId) -> Result<Option<Item>, LedgerError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM item WHERE id = ?")?;
            select.query_row([sql(id.raw())], item).optional()
        })
        .await
    }

    pub async fn items(&self, page: Page) -> Result<Vec<Item>, LedgerError> {
        self.read(move |connection| {
            let mut select =
                connection.prepare_cached("SELECT * FROM item WHERE id < ? ORDER BY id DESC LIMIT ?")?;
            let before = page.before.map_or(i64::MAX, sql);
            select.query_map(params![before, page.limit], item)?.collect()
        })
        .await
    }

    /// Replaces an item's texts and price; `false` if there is no such item.
    pub async fn update_item(&self, item: Item, by: Actor) -> Result<bool, LedgerError> {
        self.write(move |tx| {
            let changed = tx.execute(
                "UPDATE item SET name = ?2, description = ?3, price = ?4, currency = ?5, image_url = ?6,
                     updated_at = ?7 WHERE id = ?1",
                params![
                    sql(item.id.raw()),
                    item.name,
                    item.description,
                    item.price.amount,
                    item.price.currency.as_str(),
                    item.image_url,
                    item.updated_at.millis()
                ],
            )?;
            let told = Told { kind: "item.updated", campaign: None, subject: item.id.raw(), detail: None };
            tell(tx, &by, item.updated_at, told)?;
            Ok(changed == 1)
        })
        .await
    }
}
