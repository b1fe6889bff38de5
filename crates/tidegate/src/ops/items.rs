//! The catalogue.

use std::sync::Arc;

use tidegate_core::{Item, ItemId, Money, Rejection};
use tidegate_store::admission::News;
use tidegate_store::ledger::{Actor, Ledger, Page, Remember, Remembered};

use super::{App, Refusal};

/// What an operator says about an item; checked at the edge.
#[derive(Clone, Debug)]
pub struct ItemTerms {
    pub name: String,
    pub description: String,
    pub price: Money,
    pub image_url: Option<String>,
}

pub const ITEMS_SCOPE: &str = "items";

impl App {
    pub async fn create_item(
        &self,
        terms: ItemTerms,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Item, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        if let Some(before) = self.done_before(key.as_ref()).await? {
            return self.item(ItemId::from_raw(before.subject)).await;
        }
        let now = self.now();
        let ItemTerms { name, description, price, image_url } = terms;
        let id = ItemId::from_raw(self.next_id(now));
        let item = Item { id, name, description, price, image_url, created_at: now, updated_at: now };
        self.ledger.create_item(item.clone(), by, key).await?;
        Ok(item)
    }

    pub async fn update_item(&self, id: ItemId, terms: ItemTerms, by: Actor) -> Result<Item, Refusal> {
        let before = self.item(id).await?;
        let ItemTerms { name, description, price, image_url } = terms;
        let item = Item { name, description, price, image_url, updated_at: self.now(), ..before };
        self.ledger.update_item(item.clone(), by).await?;
        self.items.insert(id, Arc::new(item.clone()));
        self.tell(News::Item(id)).await;
        Ok(item)
    }

    pub async fn item(&self, id: ItemId) -> Result<Item, Refusal> {
        if let Some(item) = self.items.get(&id) {
            return Ok(item.as_ref().clone());
        }
        let item = self.ledger.item(id).await?.ok_or(Rejection::NotFound)?;
        self.items.insert(id, Arc::new(item.clone()));
        Ok(item)
    }

    pub async fn items(&self, page: Page) -> Result<Vec<Item>, Refusal> {
        Ok(self.ledger.items(page).await?)
    }

    /// What an operator's key made before, if anything.
    pub async fn done_before(&self, key: Option<&Remember>) -> Result<Option<Remembered>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        match self.ledger.remembered(key.scope, key.key).await? {
            Some(before) if before.fingerprint != key.fingerprint => Err(Refusal::KeyReused),
            before => Ok(before),
        }
    }
}
