//! The ledger: the durable truth. What it has committed is what happened.
//!
//! What every ledger guarantees, whatever the gate did: a slot has at most one active order; nobody holds more
//! than their limit; an order is paid for or its units return, never both; everything that makes units sellable
//! again is in the stock log, numbered without gaps, committed with its cause. `conformance::ledger` holds them to it.

pub mod sql;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::dealer::Hash;
use tidegate_core::order::WrongState;
use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Campaign, CampaignId, Claim, DeliveryId, DeliveryState, IdempotencyKey, Item, Moment, Money, Order,
    OrderId, Play, PlayId, Rejection, Seed, StockEntry, UserId, WaitsFor, WebhookId,
};

use crate::intake::Position;

#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Nothing was changed; it may work later.
    #[error("the ledger cannot be written right now: {0}")]
    Unavailable(String),
    /// A sync failed: nothing is written any more until the process starts again.
    #[error("the ledger failed and must be reopened: {0}")]
    Failed(String),
    /// The connection broke while it was being committed: whether it was done cannot be said.
    #[error("the database was lost in the middle of a commit: {0}")]
    Unclear(String),
    /// Something is not as this program left it.
    #[error("the ledger is not as expected: {0}")]
    Unexpected(String),
}

/// Who did it, for the outbox and the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The operator of this name; without one, whoever has the admin key.
    Operator(Option<Arc<str>>),
    Buyer(UserId),
    /// A deadline or a window.
    Clock,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(None) => f.write_str("operator"),
            Self::Operator(Some(name)) => write!(f, "operator:{name}"),
            Self::Buyer(user) => write!(f, "buyer:{}", user.raw()),
            Self::Clock => f.write_str("clock"),
        }
    }
}

/// What became of one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    Order,
    Play,
    /// It was recorded before.
    Known,
    /// It could become neither; its buyer sees why.
    Rejected(Rejection),
    /// Somebody else holds what it claims, so the gate is wrong about its stock; its buyer sees it lost.
    Conflict,
}

impl Recorded {
    /// Why it became nothing, if it did not.
    pub const fn rejection(self) -> Option<Rejection> {
        match self {
            Self::Order | Self::Play | Self::Known => None,
            Self::Rejected(rejection) => Some(rejection),
            Self::Conflict => Some(Rejection::ClaimLost),
        }
    }
}

/// Money that a provider says it has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub provider: String,
    /// The provider's own name for it: the same reference is the same payment.
    pub reference: String,
    pub order: OrderId,
    pub amount: Money,
}

/// What a payment led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Paid(Order),
    /// It came too late, twice or with the wrong amount: the money goes back, recorded once.
    Refund {
        order: Order,
        reason: &'static str,
    },
    NoSuchOrder,
}

/// A key that makes a repeated request of an operator harmless.
#[derive(Clone, Debug)]
pub struct Remember {
    pub scope: &'static str,
    pub key: IdempotencyKey,
    /// A digest of what was asked.
    pub fingerprint: [u8; 16],
}

/// What a remembered key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    pub fingerprint: [u8; 16],
    /// The raw id of what was made or changed.
    pub subject: u64,
    /// A number that belongs to the answer.
    pub note: i64,
}

/// One page of a list, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only what is older than this raw id.
    pub before: Option<u64>,
    pub limit: u32,
}

impl Page {
    pub const ALL: Self = Self { before: None, limit: u32::MAX };
}

/// How far a draw's history goes: plays, and the hash after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub plays: u64,
    pub hash: Hash,
}

/// Who takes a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// This program itself: texts, codes and the announcement of goods.
    Here,
    /// The merchant: coupons.
    Merchant,
    Webhook(WebhookId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub target: Target,
    /// `text`, `code`, `coupon`, `goods` or `webhook`.
    pub kind: String,
    pub campaign: Option<CampaignId>,
    pub play: Option<PlayId>,
    /// The number of the event in the outbox.
    pub event: Option<u64>,
    pub state: DeliveryState,
    pub waits_for: Option<WaitsFor>,
    pub tries: u32,
    /// When it is tried next.
    pub due_at: Moment,
    /// Since when it can be tried.
    pub open_since: Moment,
    pub error: Option<String>,
    /// What the winner got: the text, the code, what the merchant said.
    pub content: Option<String>,
    /// Where goods go, as JSON.
    pub address: Option<String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

/// A lease that must be held for a change to be made: who lost it without knowing changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub name: String,
    pub holder: String,
}

/// What a recorder needs of a ledger.
pub trait Records: Send + Sync + 'static {
    /// Records claims in order. `first` is the intake's position of the first; a ledger whose intake is a journal commits it
    /// with the rows and takes what follows it only.
    fn record(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> impl Future<Output = Result<Vec<Recorded>, LedgerError>> + Send;

    /// Gets past a claim that cannot be recorded: keeps it with the reason, rejects its order, frees what nobody holds. One
    /// that is recorded after all stays as it is.
    fn set_aside(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> impl Future<Output = Result<Recorded, LedgerError>> + Send;
}

/// The part of a ledger that the agreement with the gate rests on.
pub trait Ledger: Records {
    fn create_item(
        &self,
        item: Item,
        by: Actor,
        remember: Option<Remember>,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Creates a draft; `codes` are those of a draw's prizes, prize by prize.
    fn create_campaign(
        &self,
        campaign: Campaign,
        codes: Vec<Vec<String>>,
        by: Actor,
        remember: Option<Remember>,
    ) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// The last position of the intake that is recorded.
    fn position(&self) -> impl Future<Output = Result<Position, LedgerError>> + Send;

    /// What a gate is rebuilt from.
    fn seed(&self, campaign: CampaignId) -> impl Future<Output = Result<Option<Seed>, LedgerError>> + Send;

    /// Begins a new epoch and gives its seed: claims of earlier epochs are not recorded any more.
    fn reseed(
        &self,
        campaign: CampaignId,
        now: Moment,
    ) -> impl Future<Output = Result<Option<Seed>, LedgerError>> + Send;

    /// The stock log after `seq`, oldest first.
    fn stock_log(
        &self,
        campaign: CampaignId,
        after: u64,
        most: u32,
    ) -> impl Future<Output = Result<Vec<StockEntry>, LedgerError>> + Send;

    /// Adds units; gives the campaign as it is then.
    fn restock(
        &self,
        campaign: CampaignId,
        units: u32,
        by: Actor,
        now: Moment,
        remember: Option<Remember>,
    ) -> impl Future<Output = Result<Option<Campaign>, LedgerError>> + Send;

    /// Records units that the gate took out of sale.
    fn withdraw(
        &self,
        campaign: CampaignId,
        withdrawal: Withdrawal,
        by: Actor,
        now: Moment,
        remember: Option<Remember>,
    ) -> impl Future<Output = Result<Option<Campaign>, LedgerError>> + Send;

    fn order(&self, id: OrderId) -> impl Future<Output = Result<Option<Order>, LedgerError>> + Send;

    fn order_by_key(
        &self,
        user: UserId,
        key: IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Order>, LedgerError>> + Send;

    fn play(&self, id: PlayId) -> impl Future<Output = Result<Option<Play>, LedgerError>> + Send;

    /// How far a draw's history goes.
    fn history(&self, draw: CampaignId) -> impl Future<Output = Result<Option<History>, LedgerError>> + Send;

    /// Gives up to `most` prizes that are due and need nobody else; how many.
    fn give_prizes(&self, now: Moment, most: u32) -> impl Future<Output = Result<usize, LedgerError>> + Send;

    /// The delivery of what a play won.
    fn delivery_of(&self, play: PlayId)
    -> impl Future<Output = Result<Option<Delivery>, LedgerError>> + Send;

    /// Books a payment, once per provider and reference.
    fn settle(
        &self,
        payment: Payment,
        by: Actor,
        now: Moment,
    ) -> impl Future<Output = Result<Settlement, LedgerError>> + Send;

    /// Cancels an unpaid order and returns its units; `None` if there is no such order.
    fn cancel(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> impl Future<Output = Result<Option<Result<Order, WrongState>>, LedgerError>> + Send;

    /// Gives a paid order's money and units back.
    fn refund(
        &self,
        id: OrderId,
        by: Actor,
        now: Moment,
    ) -> impl Future<Output = Result<Option<Result<Order, WrongState>>, LedgerError>> + Send;

    /// Expires up to `most` orders whose deadline has come, the most overdue first.
    fn expire_due(
        &self,
        now: Moment,
        most: u32,
    ) -> impl Future<Output = Result<Vec<Order>, LedgerError>> + Send;

    /// When the next unpaid order is due.
    fn next_deadline(&self) -> impl Future<Output = Result<Option<Moment>, LedgerError>> + Send;

    /// Checks every promise about one campaign against what is recorded.
    fn audit(&self, campaign: CampaignId) -> impl Future<Output = Result<Option<Audit>, LedgerError>> + Send;
}

/// What an audit of one campaign found.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Rows looked at.
    pub checked: u64,
    /// Promises broken; empty when all is well.
    pub violations: Vec<String>,
    pub tally: Tally,
    /// The last entry of the stock log that this look includes.
    pub log_end: u64,
    pub recorded: Position,
}

/// Units of one campaign by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub stock: u32,
    pub awaiting_payment: u32,
    pub paid: u32,
    /// Units that came back, counted each time.
    pub returned: u32,
}
