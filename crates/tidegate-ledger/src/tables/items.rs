//! The catalogue of items for sale.

use std::sync::Arc;

use tidegate_core::{EventKind, Item, ItemId};

use super::events::{NewEvent, append_event};
use super::idempotency::insert_key;
use super::rows::{item, sql};
use crate::engine;
use crate::engine::{Connection, Database, OptionalExtension, params};
use crate::{Actor, IdempotentRequest, LedgerError, Page};

pub(crate) fn create(
    tx: &Connection,
    item: &Item,
    by: &Actor,
    request: Option<IdempotentRequest>,
) -> engine::Result<()> {
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
    insert_key(tx, request, item.id.raw(), 0, item.created_at)?;
    let event =
        NewEvent { kind: EventKind::ItemCreated, campaign: None, subject: item.id.raw(), detail: None };
    append_event(tx, by, item.created_at, event)
}

#[derive(Clone, Debug)]
pub struct Items(pub(crate) Arc<Database>);

impl Items {
    pub async fn get(&self, id: ItemId) -> Result<Option<Item>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select = connection.prepare_cached("SELECT * FROM item WHERE id = ?")?;
                select.query_row([sql(id.raw())], item).optional()
            })
            .await
    }

    pub async fn list(&self, page: Page) -> Result<Vec<Item>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select =
                    connection.prepare_cached("SELECT * FROM item WHERE id < ? ORDER BY id DESC LIMIT ?")?;
                let before = page.before.map_or(i64::MAX, sql);
                select.query_map(params![before, page.limit], item)?.collect()
            })
            .await
    }

    /// Replaces an item's texts and price; `false` if the item does not exist.
    pub async fn update(&self, item: Item, by: Actor) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
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
                let event = NewEvent {
                    kind: EventKind::ItemUpdated,
                    campaign: None,
                    subject: item.id.raw(),
                    detail: None,
                };
                append_event(tx, &by, item.updated_at, event)?;
                Ok(changed == 1)
            })
            .await
    }

    pub async fn create(
        &self,
        item: Item,
        by: Actor,
        request: Option<IdempotentRequest>,
    ) -> Result<(), LedgerError> {
        self.0.write(move |tx| create(tx, &item, &by, request)).await
    }
}
