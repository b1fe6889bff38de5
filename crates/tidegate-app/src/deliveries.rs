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

/// What the configuration says about deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryRules {
    /// Requests to one target at a time.
    pub at_once: usize,
    /// How long one request may take.
    pub timeout: Duration,
    /// How long a delivery is tried.
    pub give_up_after: Duration,
}

/// Deliveries in one state are counted up to so many.
pub const COUNTED: u32 = 10_000;
/// Rows handled in one transaction.
const BATCH: u32 = 500;
/// A delivery that is being sent is not taken again until this long after its request must have ended.
const LEASE_SLACK: Duration = Duration::from_secs(5);
/// Failures in a row after which a target is taken to be down.
const DOWN_AFTER: u32 = 5;
/// The pause between two tries at such a target: its deliveries have their own, longer pauses.
const DOWN_FOR: Duration = Duration::from_secs(1);

/// One target: how many deliveries are on their way to it, and how many failed in a row.
#[derive(Clone, Copy, Debug, Default)]
struct TargetState {
    on_their_way: usize,
    failures: u32,
    rests_until: Moment,
}

#[derive(Debug, Default)]
pub(crate) struct Targets(Mutex<HashMap<Target, TargetState>>);

impl Targets {
    /// How many more may be sent now.
    fn free(&self, target: Target, at_once: usize, now: Moment) -> usize {
        let state = self.0.lock().get(&target).copied().unwrap_or_default();
        let most = if state.failures >= DOWN_AFTER { 1 } else { at_once };
        if now < state.rests_until { 0 } else { most.saturating_sub(state.on_their_way) }
    }

    fn sent(&self, target: Target) {
        self.0.lock().entry(target).or_default().on_their_way += 1;
    }

    /// `worked` is `None` where the answer says nothing about the target.
    fn came_back(&self, target: Target, worked: Option<bool>, now: Moment) {
        let mut targets = self.0.lock();
        let state = targets.entry(target).or_default();
        state.on_their_way -= 1;
        match worked {
            Some(true) => *state = TargetState { on_their_way: state.on_their_way, ..TargetState::default() },
            Some(false) => {
                state.failures = state.failures.saturating_add(1);
                if state.failures >= DOWN_AFTER {
                    state.rests_until = now + DOWN_FOR;
                }
            }
            None => {}
        }
    }
}

/// The outcome of sending one delivery.
pub(crate) enum Sent {
    Arrived {
        content: Option<String>,
    },
    /// The target is in trouble; it may say when to come back.
    Down {
        why: String,
        retry_after: Option<Duration>,
    },
    /// The target works and did not take this.
    Refused {
        why: String,
    },
    /// The target wants nothing more.
    Gone,
    /// It can never be sent.
    Never {
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
    /// Where coupons are asked for, if anywhere.
    pub(crate) coupons: Option<Coupons>,
    pub(crate) targets: Targets,
}

impl Deliveries {
    /// One round: gives prizes and sends deliveries that are due. Whether there may be more at once.
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
            self.targets.sent(target);
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
            Sent::Arrived { .. } | Sent::Refused { .. } => Some(true),
            Sent::Down { .. } => Some(false),
            Sent::Gone | Sent::Never { .. } => None,
        };
        if let (Sent::Gone, Target::Webhook(id)) = (&sent, target) {
            let why = Some("the receiver answered 410 Gone".to_owned());
            noted(self.ledger.webhooks.set_disabled(id, why, Actor::Clock, now).await.map(|_| ()));
        }
        let outcome = self.outcome(&delivery, sent, now);
        self.context.metrics.delivery(&delivery.kind, &outcome);
        noted(self.ledger.deliveries.record_attempt(delivery, outcome, now).await);
        self.targets.came_back(target, worked, now);
    }

    /// The outcome to record: delivered, to be retried after a growing pause, or given up.
    fn outcome(&self, delivery: &Delivery, sent: Sent, now: Moment) -> AttemptOutcome {
        let (error, retry_after) = match sent {
            Sent::Arrived { content } => return AttemptOutcome::Delivered { content },
            Sent::Never { why } => return AttemptOutcome::Dead { error: why },
            Sent::Gone => return AttemptOutcome::Dead { error: "the receiver answered 410 Gone".into() },
            Sent::Refused { why } => (why, None),
            Sent::Down { why, retry_after } => (why, retry_after),
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

    /// Whether anything is on its way at this moment.
    pub fn any_on_their_way(&self) -> bool {
        self.targets.0.lock().values().any(|state| state.on_their_way > 0)
    }

    /// Newest first.
    pub async fn list(&self, filter: DeliveryFilter, page: Page) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries.list(filter, page).await?)
    }

    /// How many are in which state; more than `COUNTED` are not counted.
    pub async fn counts(&self) -> Result<Vec<(DeliveryState, u32)>, Refusal> {
        Ok(self.ledger.deliveries.count_all(COUNTED).await?)
    }

    /// The newest that go, or went, to a webhook.
    pub async fn to_webhook(&self, webhook: WebhookId, most: u32) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries.by_webhook(webhook, most).await?)
    }

    pub async fn find(&self, id: DeliveryId) -> Result<Delivery, Refusal> {
        self.ledger.deliveries.get(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// An operator has a delivery tried again, now.
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

    /// An operator grants a prize that waited for it.
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
fn noted(result: Result<(), LedgerError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the outcome of a delivery could not be recorded; it is tried again");
    }
}
