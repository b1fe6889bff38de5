//! The rules of a sale, and nothing else.
//!
//! What always holds here: no I/O, no async, no clock, no randomness, no SQL, no HTTP. Time and chance come
//! in as arguments, so every decision can be replayed.

pub mod campaign;
pub mod claim;
pub mod id;
pub mod item;
pub mod limits;
pub mod moment;
pub mod money;
pub mod order;
pub mod pass;
pub mod pool;
pub mod public_id;
pub mod rejection;
pub mod slot;
pub mod stock_log;
pub mod waiting;
mod words;

pub use campaign::{Campaign, CampaignState, Phase, Protect, Window};
pub use claim::{Claim, ClaimRequest, IdempotencyKey};
pub use id::{CampaignId, IdSource, ItemId, OrderId, UserId};
pub use item::Item;
pub use moment::Moment;
pub use money::{Currency, Money};
pub use order::{Order, OrderState};
pub use pass::{Pass, PassRules, Shown};
pub use pool::{Pool, Seed};
pub use rejection::Rejection;
pub use slot::{Slot, Slots};
pub use stock_log::{StockChange, StockEntry};
