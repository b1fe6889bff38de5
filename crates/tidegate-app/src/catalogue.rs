//! The catalogue: the items that sales sell.

use std::sync::Arc;

use quick_cache::sync::Cache;
use tidegate_admission::{Admission, News};
use tidegate_core::{Item, ItemId, Money, Rejection};
use tidegate_ledger::{Actor, IdempotentRequest, Page};

use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::tables::CatalogueTables;

pub const ITEMS_SCOPE: &str = "items";
const CACHED_ITEMS: usize = 10_000;

/// An item as an operator describes it, already validated.
#[derive(Clone, Debug)]
pub struct ItemTerms {
    pub name: String,
    pub description: String,
    pub price: Money,
    pub image_url: Option<String>,
}

#[derive(Debug)]
pub struct Catalogue {
    context: Arc<Context>,
    admission: Arc<Admission>,
    ledger: CatalogueTables,
    changes: Arc<Changes>,
    /// Updated with every change of an item.
    items: Cache<ItemId, Arc<Item>>,
}

impl Catalogue {
    pub(crate) fn new(
        context: Arc<Context>,
        admission: Arc<Admission>,
        ledger: CatalogueTables,
        changes: Arc<Changes>,
    ) -> Self {
        Self { context, admission, ledger, changes, items: Cache::new(CACHED_ITEMS) }
    }

    pub async fn create_item(
        &self,
        terms: ItemTerms,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Item, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        if let Some(before) = self.changes.find_earlier(key.as_ref()).await? {
            return self.item(ItemId::from_raw(before.subject)).await;
        }
        let now = self.context.now();
        let ItemTerms { name, description, price, image_url } = terms;
        let id = ItemId::from_raw(self.context.next_id(now));
        let item = Item { id, name, description, price, image_url, created_at: now, updated_at: now };
        self.ledger.items.create(item.clone(), by, key).await?;
        Ok(item)
    }

    pub async fn update_item(&self, id: ItemId, terms: ItemTerms, by: Actor) -> Result<Item, Refusal> {
        let before = self.item(id).await?;
        let ItemTerms { name, description, price, image_url } = terms;
        let item = Item { name, description, price, image_url, updated_at: self.context.now(), ..before };
        self.ledger.items.update(item.clone(), by).await?;
        self.items.insert(id, Arc::new(item.clone()));
        self.admission.publish(News::Item(id)).await;
        Ok(item)
    }

    pub async fn item(&self, id: ItemId) -> Result<Item, Refusal> {
        if let Some(item) = self.items.get(&id) {
            return Ok(item.as_ref().clone());
        }
        let item = self.ledger.items.get(id).await?.ok_or(Rejection::NotFound)?;
        self.items.insert(id, Arc::new(item.clone()));
        Ok(item)
    }

    pub async fn items(&self, page: Page) -> Result<Vec<Item>, Refusal> {
        Ok(self.ledger.items.list(page).await?)
    }

    /// Drops an item that another node has changed.
    pub(crate) fn forget(&self, id: ItemId) {
        self.items.remove(&id);
    }

    pub(crate) fn forget_all(&self) {
        self.items.clear();
    }
}
