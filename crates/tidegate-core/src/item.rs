//! An item of the catalogue.

use crate::{ItemId, Moment, Money};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub id: ItemId,
    pub name: String,
    pub description: String,
    pub price: Money,
    pub image_url: Option<String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}
