//! Deliveries: prizes and events, sent when they are due, retried when they fail, and shown to operators.
//!
//! One dispatcher for prizes and webhooks. Invariants: every target has its own queue and its own places, so that one
//! that hangs delays no other; a target that keeps failing gets one delivery at a time until it works again; what
//! decides that a delivery is given up are attempts, not the clock alone.

mod attempts;
mod dispatch;
mod outcomes;
mod targets;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::ProblemCode;
use tidegate_core::{DeliveryId, DeliveryState, Rejection, WebhookId};
use tidegate_ledger::DeliveryFilter;
use tidegate_ledger::{Actor, Delivery, Page};
use tokio::sync::Notify;

pub(crate) use self::attempts::SendOutcome;
use self::dispatch::Rounds;
use self::outcomes::Outcomes;
use self::targets::Targets;
use crate::Refusal;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::outbound_http::OutboundHttp;
use crate::tables::DeliveryTables;
use crate::webhooks::Coupons;

/// Configuration of deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryRules {
    /// Maximum number of concurrent requests to one target.
    pub at_once: usize,
    /// Maximum number of concurrent requests to all targets; each has an equal part of it.
    pub at_once_in_all: usize,
    /// Timeout of one request.
    pub timeout: Duration,
    /// How long a failing delivery is retried before it is given up.
    pub give_up_after: Duration,
}

/// Deliveries in one state are counted up to this number.
pub const MAX_COUNTED: u32 = 10_000;
#[derive(Debug)]
pub struct Deliveries {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: DeliveryTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) outbound: OutboundHttp,
    pub(crate) rules: DeliveryRules,
    /// The merchant's endpoint for coupons, if configured.
    pub(crate) coupons: Option<Coupons>,
    targets: Arc<Targets>,
    outcomes: Outcomes,
    rounds: tokio::sync::Mutex<Rounds>,
    /// Notified when something may have become due: after each commit of this process, and when outcomes are stored.
    wake: Arc<Notify>,
}

/// What `Deliveries` is made of.
pub(crate) struct DeliveryParts {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: DeliveryTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) outbound: OutboundHttp,
    pub(crate) rules: DeliveryRules,
    pub(crate) coupons: Option<Coupons>,
    pub(crate) wake: Arc<Notify>,
}

impl Deliveries {
    pub(crate) fn new(parts: DeliveryParts) -> Self {
        let DeliveryParts { context, ledger, directory, outbound, rules, coupons, wake } = parts;
        Self {
            context,
            ledger,
            directory,
            outbound,
            rules,
            coupons,
            targets: Arc::default(),
            outcomes: Outcomes::default(),
            rounds: tokio::sync::Mutex::default(),
            wake,
        }
    }

    /// Newest first.
    pub async fn list(&self, filter: DeliveryFilter, page: Page) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries.list(filter, page).await?)
    }

    /// Number of deliveries by state, each counted up to `MAX_COUNTED`.
    pub async fn counts(&self) -> Result<Vec<(DeliveryState, u32)>, Refusal> {
        Ok(self.ledger.deliveries.count_all(MAX_COUNTED).await?)
    }

    /// The newest deliveries to a webhook, pending or finished.
    pub async fn to_webhook(&self, webhook: WebhookId, most: u32) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries.by_webhook(webhook, most).await?)
    }

    pub async fn find(&self, id: DeliveryId) -> Result<Delivery, Refusal> {
        self.ledger.deliveries.get(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Retries a delivery now, for an operator.
    pub async fn retry(&self, id: DeliveryId, by: Actor) -> Result<Delivery, Refusal> {
        let before = self.find(id).await?;
        if self.ledger.deliveries.retry(id, by, self.context.now()).await? {
            return self.find(id).await;
        }
        let state = before.state.as_str();
        let detail =
            format!("A delivery that is {state} cannot be retried; only one that failed, or was given up.");
        Err(Refusal::Conflict { code: ProblemCode::WrongState, detail })
    }

    /// Grants a prize that waits for an operator.
    pub async fn grant(&self, id: DeliveryId, by: Actor) -> Result<Delivery, Refusal> {
        self.find(id).await?;
        if self.ledger.deliveries.grant(id, by, self.context.now()).await? {
            return self.find(id).await;
        }
        let detail = "Only a prize that waits for an operator can be granted.".into();
        Err(Refusal::Conflict { code: ProblemCode::WrongState, detail })
    }
}
