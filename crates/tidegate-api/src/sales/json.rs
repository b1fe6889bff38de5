//! A sale as JSON.

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::storefront::SaleView;
use utoipa::ToSchema;

use crate::items::json::ItemShape;
use crate::json::{MoneyShape, ProtectShape};

/// A published sale.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SaleShape {
    id: String,
    item: ItemShape,
    price: MoneyShape,
    starts_at: String,
    ends_at: String,
    /// `upcoming`, `live`, `paused`, `sold_out` or `ended`.
    state: &'static str,
    stock_left: u32,
    /// If sold out: units in unpaid orders, which may go back on sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpaid: Option<u32>,
    per_user_limit: u32,
    pay_within_s: u32,
    protect: ProtectShape,
    /// If the sale has a waiting room: hash of the seed that shuffles the buyers who join before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_commitment: Option<String>,
    /// The seed, once the sale has started. Buyers are ordered by SHA-256 over the seed's 32 bytes and the buyer's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_seed: Option<String>,
    /// The server's time, for countdowns: clients' clocks may be wrong.
    server_time: String,
}

impl SaleShape {
    pub(crate) fn of(app: &App, view: SaleView) -> Self {
        let SaleView { sale, terms, item, phase, left, unpaid } = view;
        let shuffle = app.waiting_rooms.shuffle_of(&sale);
        Self {
            id: app.print(sale.id),
            item: ItemShape::of(app, item),
            price: terms.price.into(),
            starts_at: sale.window.starts_at.to_string(),
            ends_at: sale.window.ends_at.to_string(),
            state: phase.as_str(),
            stock_left: left,
            unpaid,
            per_user_limit: sale.per_user_limit,
            pay_within_s: terms.pay_within_s,
            protect: (&sale.protect).into(),
            queue_seed: shuffle.as_ref().and_then(|shuffle| shuffle.seed.clone()),
            queue_commitment: shuffle.map(|shuffle| shuffle.commitment),
            server_time: app.now().to_string(),
        }
    }
}
