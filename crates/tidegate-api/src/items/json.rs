//! An item as JSON.

use serde::Serialize;
use tidegate_app::App;
use tidegate_core::Item;
use utoipa::ToSchema;

use crate::json::MoneyShape;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ItemShape {
    id: String,
    name: String,
    description: String,
    price: MoneyShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<String>,
    created_at: String,
    updated_at: String,
}

impl ItemShape {
    pub(crate) fn of(app: &App, item: Item) -> Self {
        Self {
            id: app.print(item.id),
            name: item.name,
            description: item.description,
            price: item.price.into(),
            image_url: item.image_url,
            created_at: item.created_at.to_string(),
            updated_at: item.updated_at.to_string(),
        }
    }
}
