//! The rules of sales and draws, and nothing else.
//!
//! What always holds here: no I/O, no async, no clock, no randomness, no SQL, no HTTP. Time and chance come
//! in as arguments, so every decision can be replayed.

pub mod campaign;
pub mod claim;
pub mod dealer;
pub mod delivery;
pub mod draw;
pub mod id;
pub mod item;
pub mod limits;
pub mod moment;
pub mod money;
pub mod order;
pub mod pass;
pub mod play;
pub mod pool;
pub mod prize_stock;
pub mod proof;
pub mod public_id;
pub mod rejection;
pub mod role;
pub mod slot;
pub mod stock_log;
pub mod waiting;
mod words;

pub use campaign::{Campaign, CampaignState, Kind, Phase, Protect, Sale, Window};
pub use claim::{Claim, ClaimRequest, Granted, IdempotencyKey, Wanted};
pub use delivery::{DeliveryState, WaitsFor};
pub use draw::{Draw, Prize, PrizeNumber};
pub use id::{
    ApiKeyId, CampaignId, ClaimId, DeliveryId, DrawId, IdSource, ItemId, OperatorId, OrderId, PlayId, UserId,
    WebhookId,
};
pub use item::Item;
pub use moment::Moment;
pub use money::{Currency, Money};
pub use order::{Order, OrderState};
pub use pass::{Pass, PassRules, Shown};
pub use play::{Play, PlayState};
pub use pool::{Pool, Seed};
pub use prize_stock::{PrizeSeed, PrizeStock};
pub use rejection::Rejection;
pub use role::Role;
pub use slot::{Slot, Slots};
pub use stock_log::{StockChange, StockEntry};
