//! The rules of sales and draws, and nothing else.
//!
//! Invariants: no I/O, no async, no clock, no randomness, no SQL, no HTTP. Time and random values are arguments, so
//! that every decision can be replayed.

pub mod campaign;
pub mod claim;
pub mod codes;
pub mod dealer;
pub mod delivery;
pub mod draw;
pub mod event_kind;
pub mod id;
pub mod item;
pub mod latency;
pub mod limits;
pub mod moment;
pub mod money;
pub mod order;
pub mod pass;
pub mod play;
pub mod pool;
pub mod prize_stock;
pub mod problem_code;
pub mod proof;
pub mod public_id;
pub mod refund_reason;
pub mod rejection;
pub mod role;
pub mod slot;
pub mod stock_log;
pub mod waiting;
mod words;

pub use campaign::{Campaign, CampaignState, Kind, Phase, Protect, Sale, Window};
pub use claim::{Claim, ClaimRequest, Granted, IdempotencyKey, Wanted};
pub use codes::{Code, Stored};
pub use delivery::{DeliveryState, WaitsFor};
pub use draw::{Draw, Prize, PrizeNumber};
pub use event_kind::{EventKind, EventNoun, EventVerb};
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
pub use problem_code::ProblemCode;
pub use refund_reason::RefundReason;
pub use rejection::Rejection;
pub use role::Role;
pub use slot::{Slot, Slots};
pub use stock_log::{StockChange, StockEntry};
