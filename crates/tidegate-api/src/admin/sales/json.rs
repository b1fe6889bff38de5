//! A sale as JSON for operators.

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::sales::OperatedSale;
use tidegate_core::Campaign;
use tidegate_http::Site;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::admin::json::CountersShape;
use crate::json::{MoneyShape, ProtectShape};

/// A sale with its state and counters, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminSaleShape {
    id: String,
    item_id: String,
    price: MoneyShape,
    stock: u32,
    starts_at: String,
    ends_at: String,
    per_user_limit: u32,
    pay_within_s: u32,
    shards: u32,
    protect: ProtectShape,
    /// `draft`, `in_review`, `approved`, `live`, `paused` or `closed`.
    state: &'static str,
    epoch: u32,
    counters: CountersShape,
    created_at: String,
    updated_at: String,
}

impl AdminSaleShape {
    pub(crate) fn of(app: &App, operated: OperatedSale) -> Self {
        let OperatedSale { campaign: sale, terms, counters } = operated;
        Self {
            id: app.print(sale.id),
            item_id: app.print(terms.item),
            price: terms.price.into(),
            stock: sale.stock,
            starts_at: sale.window.starts_at.to_string(),
            ends_at: sale.window.ends_at.to_string(),
            per_user_limit: sale.per_user_limit,
            pay_within_s: terms.pay_within_s,
            shards: sale.shards,
            protect: (&sale.protect).into(),
            state: sale.state.as_str(),
            epoch: sale.epoch,
            counters: counters.into(),
            created_at: sale.created_at.to_string(),
            updated_at: sale.updated_at.to_string(),
        }
    }
}

pub(crate) async fn shape(site: &Site, sale: Campaign) -> Result<AdminSaleShape, Problem> {
    Ok(AdminSaleShape::of(&site.app, site.app.campaigns.operated_sale(sale).await?))
}
