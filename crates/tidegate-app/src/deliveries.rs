//! Deliveries: prizes and events, sent when they are due, retried when they fail, and shown to operators.
//!
//! One dispatcher for prizes and webhooks. Invariants: every target has its own queue, so that one that hangs delays no
//! other; a target that keeps failing gets one delivery at a time until it works again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::ProblemCode;
use tidegate_core::delivery::{LONGEST_PAUSE, pause_after};
use tidegate_core::{DeliveryId, DeliveryState, Moment, Rejection, WebhookId};
use tidegate_ledger::{Actor, Delivery, LedgerError, Page, Target};
use tidegate_ledger::{AttemptOutcome, DeliveryFilter};

use crate::Refusal;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::outbound_http::OutboundHttp;
use crate::random;
use crate::tables::DeliveryTables;
use crate::webhooks::Coupons;

/// Configuration of deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryRules {
    /// Maximum number of concurrent requests to one target.
    pub at_once: usize,
    /// Timeout of one request.
    pub timeout: Duration,
    /// How long a failing delivery is retried before it is given up.
    pub give_up_after: Duration,
}

/// Deliveries in one state are counted up to this number.
pub const MAX_COUNTED: u32 = 10_000;
/// Rows handled in one transaction.
const BATCH: u32 = 500;
/// A delivery that is being sent is leased for the request timeout plus this.
const LEASE_SLACK: Duration = Duration::from_secs(5);
/// Consecutive failures after which a target counts as down.
const DOWN_AFTER: u32 = 5;
/// Pause between attempts at a target that is down, in addition to the backoff of each delivery.
const DOWN_PAUSE: Duration = Duration::from_secs(1);

/// State of one target: deliveries in flight and consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
struct TargetState {
    in_flight: usize,
    failures: u32,
    paused_until: Moment,
}

#[derive(Debug, Default)]
pub(crate) struct Targets(Mutex<HashMap<Target, TargetState>>);

impl Targets {
    /// How many more deliveries may be sent to the target now.
    fn free(&self, target: Target, at_once: usize, now: Moment) -> usize {
        let state = self.0.lock().get(&target).copied().unwrap_or_default();
        let most = if state.failures >= DOWN_AFTER { 1 } else { at_once };
        if now < state.paused_until { 0 } else { most.saturating_sub(state.in_flight) }
    }

    fn started(&self, target: Target) {
        self.0.lock().entry(target).or_default().in_flight += 1;
    }

    /// `worked` is `None` if the outcome says nothing about the target's health.
    fn finished(&self, target: Target, worked: Option<bool>, now: Moment) {
        let mut targets = self.0.lock();
        let state = targets.entry(target).or_default();
        state.in_flight -= 1;
        match worked {
            Some(true) => *state = TargetState { in_flight: state.in_flight, ..TargetState::default() },
            Some(false) => {
                state.failures = state.failures.saturating_add(1);
                if state.failures >= DOWN_AFTER {
                    state.paused_until = now + DOWN_PAUSE;
                }
            }
            None => {}
        }
    }
}

/// The outcome of sending one delivery.
pub(crate) enum SendOutcome {
    Arrived {
        content: Option<String>,
    },
    /// The target failed or is overloaded; it may say when to retry.
    Down {
        why: String,
        retry_after: Option<Duration>,
    },
    /// The target works but rejected this delivery.
    Refused {
        why: String,
    },
    /// The target answered 410: nothing more is to be sent to it.
    Gone,
    /// This delivery can never be sent.
    Unsendable {
        why: String,
    },
}

#[derive(Debug)]
pub struct Deliveries {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: DeliveryTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) outbound: OutboundHttp,
    pub(crate) rules: DeliveryRules,
    /// The merchant's endpoint for coupons, if configured.
    pub(crate) coupons: Option<Coupons>,
    pub(crate) targets: Targets,
}

impl Deliveries {
    /// One round: grants prizes and sends the deliveries that are due. Returns whether more may be due right away.
    pub async fn dispatch(self: &Arc<Self>) -> Result<bool, LedgerError> {
        let mut more = false;
        if self.ledger.deliveries.is_release_due().await? {
            self.ledger.deliveries.release_closed(self.context.now(), BATCH).await?;
            more = true;
        }
        if self.ledger.webhooks.is_fan_out_due().await? {
            more |= self.ledger.webhooks.fan_out(self.context.now(), BATCH).await? > 0;
        }
        if self.ledger.deliveries.is_due(Target::Internal, self.context.now()).await? {
            more |= self.ledger.deliveries.give_prizes(self.context.now(), BATCH).await? > 0;
        }
        self.send_due(Target::Merchant).await?;
        for webhook in self.ledger.webhooks.list().await? {
            if webhook.disabled.is_none() {
                self.send_due(Target::Webhook(webhook.id)).await?;
            }
        }
        Ok(more)
    }

    async fn send_due(self: &Arc<Self>, target: Target) -> Result<(), LedgerError> {
        let (now, rules) = (self.context.now(), &self.rules);
        let free = self.targets.free(target, rules.at_once, now);
        if free == 0 || !self.ledger.deliveries.is_due(target, now).await? {
            return Ok(());
        }
        let most = u32::try_from(free).unwrap_or(u32::MAX);
        let lease = rules.timeout + LEASE_SLACK;
        for delivery in self.ledger.deliveries.take_due(target, now, lease, most).await? {
            self.targets.started(target);
            let deliveries = self.clone();
            tokio::spawn(async move { deliveries.send(delivery).await });
        }
        Ok(())
    }

    async fn send(self: Arc<Self>, delivery: Delivery) {
        let target = delivery.target;
        let sent = match target {
            Target::Webhook(id) => self.send_event(id, &delivery).await,
            Target::Merchant | Target::Internal => self.send_coupon(&delivery).await,
        };
        let now = self.context.now();
        let worked = match &sent {
            SendOutcome::Arrived { .. } | SendOutcome::Refused { .. } => Some(true),
            SendOutcome::Down { .. } => Some(false),
            SendOutcome::Gone | SendOutcome::Unsendable { .. } => None,
        };
        if let (SendOutcome::Gone, Target::Webhook(id)) = (&sent, target) {
            let why = Some("the receiver answered 410 Gone".to_owned());
            log_failure(self.ledger.webhooks.set_disabled(id, why, Actor::Clock, now).await.map(|_| ()));
        }
        let outcome = self.outcome(&delivery, sent, now);
        self.context.metrics.delivery(&delivery.kind, &outcome);
        log_failure(self.ledger.deliveries.record_attempt(delivery, outcome, now).await);
        self.targets.finished(target, worked, now);
    }

    /// The outcome to record: delivered, to be retried after a growing pause, or given up.
    fn outcome(&self, delivery: &Delivery, sent: SendOutcome, now: Moment) -> AttemptOutcome {
        let (error, retry_after) = match sent {
            SendOutcome::Arrived { content } => return AttemptOutcome::Delivered { content },
            SendOutcome::Unsendable { why } => return AttemptOutcome::Dead { error: why },
            SendOutcome::Gone => {
                return AttemptOutcome::Dead { error: "the receiver answered 410 Gone".into() };
            }
            SendOutcome::Refused { why } => (why, None),
            SendOutcome::Down { why, retry_after } => (why, retry_after),
        };
        if now >= delivery.open_since + self.rules.give_up_after {
            return AttemptOutcome::Dead {
                error: format!("given up after {} tries: {error}", delivery.tries + 1),
            };
        }
        let pause = pause_after(delivery.tries + 1, random::fraction());
        let asked = retry_after.unwrap_or_default().min(LONGEST_PAUSE);
        AttemptOutcome::Failed { error, due_at: now + pause.max(asked) }
    }

    /// Whether any delivery is in flight.
    pub fn has_in_flight(&self) -> bool {
        self.targets.0.lock().values().any(|state| state.in_flight > 0)
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

/// Logs a failure that no caller waits for: the delivery is due again when its lease ends.
fn log_failure(result: Result<(), LedgerError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "could not record the outcome of a delivery; it will be retried");
    }
}
