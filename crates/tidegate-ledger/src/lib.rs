//! The ledger: the system of record, in SQL, on SQLite or PostgreSQL.
//!
//! Invariants, whatever the gate granted: a slot has at most one active order; no buyer holds more than their limit; an
//! order is either paid or its units return, never both; every change that puts units back on sale is in the stock log,
//! numbered without gaps and committed with its cause. `conformance::ledger` tests them on both engines.
//!
//! Outside this crate there is no SQL: no public item takes or returns SQL text, a connection or a row.

mod engine;
mod progress;
mod recording;
mod sql_ledger;
pub mod tables;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::dealer::Hash;
use tidegate_core::{
    CampaignId, Claim, DeliveryId, DeliveryState, IdempotencyKey, Moment, Money, Order, OrderId, PlayId,
    RefundReason, Rejection, UserId, WaitsFor, WebhookId,
};

pub use self::engine::database::{NoObserver, Observer, SqliteOptions, path_in};
pub use self::engine::postgres::{PostgresOptions, schema_version as postgres_schema_version};
pub use self::engine::sqlite::schema_version;
pub use self::progress::{Kept, Progress, Witness};
pub use self::sql_ledger::SqlLedger;
pub use self::tables::accounts::Account;
pub use self::tables::api_keys::ApiKey;
pub use self::tables::buyers::NewBuyer;
pub use self::tables::console_sessions::{ConsoleSessionRecord, NewConsoleSession, OpenedBy};
pub use self::tables::deliveries::AttemptOutcome;
pub use self::tables::deliveries::admin::DeliveryFilter;
pub use self::tables::deliveries::sending::{Attempt, DispatcherWork, DueDelivery};
pub use self::tables::events::Event;
pub use self::tables::leases::NodeLease;
pub use self::tables::one_time_codes::{CodeCheck, CodeIssueOutcome, CodeLimits, NewCode};
pub use self::tables::operators::{CreateOutcome, OperatorAccount, OperatorChange};
pub use self::tables::orders::OrderFilter;
pub use self::tables::payments::{PaymentRecord, RefundRecord};
pub use self::tables::places::PlaceRecord;
pub use self::tables::sessions::Session;
pub use self::tables::stock::{LedgerUnits, RestockRefused};
pub use self::tables::webhooks::Webhook;

/// A claim's position in the journal, counted from 1. The ledger commits the last position with its rows.
pub type Position = u64;

#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// Nothing was changed; a retry may succeed.
    #[error("the ledger cannot be written right now: {0}")]
    Unavailable(String),
    /// An fsync failed: every write is refused until the process restarts.
    #[error("the ledger failed and must be reopened: {0}")]
    Failed(String),
    /// The connection broke during a commit, so its outcome is unknown.
    #[error("the database was lost in the middle of a commit: {0}")]
    Unclear(String),
    /// The file is damaged: every write is refused until it is mended and the process restarts.
    #[error(
        "the ledger is damaged: {0}. Nothing is written to it any more, and the journal keeps every accepted order. \
         Stop the process, copy the data directory, then repair ledger.db or restore the whole directory from a backup"
    )]
    Damaged(String),
    /// A constraint forbids this change. A retry fails again, other changes may succeed.
    #[error("the ledger does not accept this: {0}")]
    Refused(String),
    /// A row or a statement is not as this program knows it. This says nothing about the change that met it.
    #[error("the ledger is not as expected: {0}")]
    Unexpected(String),
}

/// The author of a change, for the outbox and the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The operator of this name, or the holder of the admin key.
    Operator(Option<Arc<str>>),
    Buyer(UserId),
    /// A deadline or the start or end of a campaign's window.
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

/// The outcome of recording one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOutcome {
    Order,
    Play,
    /// The claim was recorded before.
    Duplicate,
    /// The claim became neither; its buyer sees the reason.
    Rejected(Rejection),
    /// Another claim holds one of its slots, so the gate's stock is wrong; its buyer sees `ClaimLost`.
    Conflict,
}

impl RecordOutcome {
    /// The reason that the buyer sees, if the claim became neither an order nor a play.
    pub const fn rejection(self) -> Option<Rejection> {
        match self {
            Self::Order | Self::Play | Self::Duplicate => None,
            Self::Rejected(rejection) => Some(rejection),
            Self::Conflict => Some(Rejection::ClaimLost),
        }
    }
}

/// A payment that a provider reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub provider: String,
    /// The provider's identifier: the same reference is the same payment.
    pub reference: String,
    pub order: OrderId,
    pub amount: Money,
}

/// The outcome of booking a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    Paid(Order),
    /// The payment was late, a duplicate or of the wrong amount: exactly one refund is recorded for it.
    Refund {
        order: Order,
        reason: RefundReason,
    },
    NoSuchOrder,
}

/// An operator's request with an idempotency key: a repetition changes nothing.
#[derive(Clone, Debug)]
pub struct IdempotentRequest {
    pub scope: &'static str,
    pub key: IdempotencyKey,
    /// A digest of the request.
    pub fingerprint: [u8; 16],
}

/// The stored outcome of a request with an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub fingerprint: [u8; 16],
    /// The raw id of the object that was created or changed.
    pub subject: u64,
    /// A number that is part of the response.
    pub note: i64,
}

/// One page of a list, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only rows with a smaller raw id.
    pub before: Option<u64>,
    pub limit: u32,
}

impl Page {
    pub const ALL: Self = Self { before: None, limit: u32::MAX };
}

/// The end of a draw's history: the number of plays and the hash after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub plays: u64,
    pub hash: Hash,
}

/// The receiver of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// This program: texts, codes and the announcement of goods.
    Internal,
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
    /// Time of the next attempt.
    pub due_at: Moment,
    /// Time of the first possible attempt.
    pub open_since: Moment,
    pub error: Option<String>,
    /// The delivered content: the text, the code or the merchant's response.
    pub content: Option<String>,
    /// Shipping address of goods, as JSON.
    pub address: Option<String>,
    pub created_at: Moment,
    pub updated_at: Moment,
}

/// A fencing token: the change commits only while `holder` has the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub name: String,
    pub holder: String,
}

/// The part of a ledger that a recorder needs.
pub trait Records: Send + Sync + 'static {
    /// Records claims in order. `first` is the journal position of the first claim. The ledger commits the last
    /// position with the rows and refuses a batch that does not directly follow it.
    fn record(
        &self,
        first: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> impl Future<Output = Result<Vec<RecordOutcome>, LedgerError>> + Send;

    /// Skips a claim that cannot be recorded: stores it with the reason, rejects its order or play and frees those of
    /// its slots that no other claim holds. A claim that is recorded already stays as it is.
    fn set_aside(
        &self,
        position: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> impl Future<Output = Result<RecordOutcome, LedgerError>> + Send;
}

/// The result of auditing one campaign.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Number of rows read.
    pub checked: u64,
    /// Violated guarantees; empty for a sound campaign.
    pub violations: Vec<String>,
    pub tally: Tally,
    /// The last entry of the stock log that the audit has read.
    pub log_end: u64,
    pub recorded: Position,
}

/// Units of one campaign by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub stock: u32,
    pub awaiting_payment: u32,
    pub paid: u32,
    /// Units returned; a unit counts once for each return.
    pub returned: u32,
}
