//! Deliveries: what has to reach somebody, sent when it is due, again when it fails, and shown to operators.
//!
//! One dispatcher for prizes and webhooks. What always holds: every target has its own line, so that one that hangs keeps
//! nobody else waiting; a line that keeps failing is tried with one delivery at a time until it works again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::delivery::{LONGEST_PAUSE, pause_after};
use tidegate_core::{DeliveryId, DeliveryState, Moment, Rejection, WebhookId};
use tidegate_store::ledger::sql::{DeliveryFilter, Tried};
use tidegate_store::ledger::{Actor, Delivery, Ledger, LedgerError, Page, Target};

use super::{App, Refusal};
use crate::chance;

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
/// Nobody gets a delivery that is being sent until this long after the request must have ended.
const LEASE_SLACK: Duration = Duration::from_secs(5);
/// Failures in a row after which a line is taken to be down.
const DOWN_AFTER: u32 = 5;
/// How long such a line rests between two tries: its deliveries have their own, longer pauses.
const DOWN_FOR: Duration = Duration::from_secs(1);

/// One target's line: how many are on their way, and how it has been going.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    on_their_way: usize,
    failures: u32,
    rests_until: Moment,
}

#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<Target, Line>>);

impl Lines {
    /// How many more may be sent now.
    fn free(&self, target: Target, at_once: usize, now: Moment) -> usize {
        let line = self.0.lock().get(&target).copied().unwrap_or_default();
        let most = if line.failures >= DOWN_AFTER { 1 } else { at_once };
        if now < line.rests_until { 0 } else { most.saturating_sub(line.on_their_way) }
    }

    fn sent(&self, target: Target) {
        self.0.lock().entry(target).or_default().on_their_way += 1;
    }

    /// `worked` is `None` where the answer says nothing about the target.
    fn came_back(&self, target: Target, worked: Option<bool>, now: Moment) {
        let mut lines = self.0.lock();
        let line = lines.entry(target).or_default();
        line.on_their_way -= 1;
        match worked {
            Some(true) => *line = Line { on_their_way: line.on_their_way, ..Line::default() },
            Some(false) => {
                line.failures = line.failures.saturating_add(1);
                if line.failures >= DOWN_AFTER {
                    line.rests_until = now + DOWN_FOR;
                }
            }
            None => {}
        }
    }
}

/// What came of sending one delivery.
pub(super) enum Sent {
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

impl App {
    /// One round: everything that is due is given, sent, or on its way. Says whether there may be more at once.
    pub async fn dispatch(self: &Arc<Self>) -> Result<bool, LedgerError> {
        let mut more = false;
        if self.ledger.is_release_due().await? {
            self.ledger.release_closed(self.now(), BATCH).await?;
            more = true;
        }
        if self.ledger.is_fan_out_due().await? {
            more |= self.ledger.fan_out(self.now(), BATCH).await? > 0;
        }
        if self.ledger.is_due(Target::Here, self.now()).await? {
            more |= self.ledger.give_prizes(self.now(), BATCH).await? > 0;
        }
        self.send_due(Target::Merchant).await?;
        for webhook in self.ledger.webhooks().await? {
            if webhook.disabled.is_none() {
                self.send_due(Target::Webhook(webhook.id)).await?;
            }
        }
        Ok(more)
    }

    async fn send_due(self: &Arc<Self>, target: Target) -> Result<(), LedgerError> {
        let (now, rules) = (self.now(), &self.rules.deliveries);
        let free = self.lines.free(target, rules.at_once, now);
        if free == 0 || !self.ledger.is_due(target, now).await? {
            return Ok(());
        }
        let most = u32::try_from(free).unwrap_or(u32::MAX);
        let lease = rules.timeout + LEASE_SLACK;
        for delivery in self.ledger.take_deliveries(target, now, lease, most).await? {
            self.lines.sent(target);
            let app = self.clone();
            tokio::spawn(async move { app.send(delivery).await });
        }
        Ok(())
    }

    async fn send(self: Arc<Self>, delivery: Delivery) {
        let target = delivery.target;
        let sent = match target {
            Target::Webhook(id) => self.send_event(id, &delivery).await,
            Target::Merchant | Target::Here => self.send_coupon(&delivery).await,
        };
        let now = self.now();
        let worked = match &sent {
            Sent::Arrived { .. } | Sent::Refused { .. } => Some(true),
            Sent::Down { .. } => Some(false),
            Sent::Gone | Sent::Never { .. } => None,
        };
        if let (Sent::Gone, Target::Webhook(id)) = (&sent, target) {
            let why = Some("the receiver answered 410 Gone".to_owned());
            noted(self.ledger.set_webhook(id, why, Actor::Clock, now).await.map(|_| ()));
        }
        let outcome = self.outcome(&delivery, sent, now);
        self.metrics.delivery(&delivery.kind, &outcome);
        noted(self.ledger.delivery_tried(delivery, outcome, now).await);
        self.lines.came_back(target, worked, now);
    }

    /// What is written down: delivered, to be tried again with a growing pause, or given up.
    fn outcome(&self, delivery: &Delivery, sent: Sent, now: Moment) -> Tried {
        let (error, retry_after) = match sent {
            Sent::Arrived { content } => return Tried::Delivered { content },
            Sent::Never { why } => return Tried::Dead { error: why },
            Sent::Gone => return Tried::Dead { error: "the receiver answered 410 Gone".into() },
            Sent::Refused { why } => (why, None),
            Sent::Down { why, retry_after } => (why, retry_after),
        };
        if now >= delivery.open_since + self.rules.deliveries.give_up_after {
            return Tried::Dead { error: format!("given up after {} tries: {error}", delivery.tries + 1) };
        }
        let pause = pause_after(delivery.tries + 1, chance::fraction());
        let asked = retry_after.unwrap_or_default().min(LONGEST_PAUSE);
        Tried::Failed { error, due_at: now + pause.max(asked) }
    }

    /// Whether anything is on its way at this moment.
    pub fn are_deliveries_out(&self) -> bool {
        self.lines.0.lock().values().any(|line| line.on_their_way > 0)
    }

    /// Newest first.
    pub async fn deliveries(&self, filter: DeliveryFilter, page: Page) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries(filter, page).await?)
    }

    /// How many are in which state; more than `COUNTED` are not counted.
    pub async fn delivery_counts(&self) -> Result<Vec<(DeliveryState, u32)>, Refusal> {
        Ok(self.ledger.count_all_deliveries(COUNTED).await?)
    }

    /// The newest that go, or went, to a webhook.
    pub async fn deliveries_to(&self, webhook: WebhookId, most: u32) -> Result<Vec<Delivery>, Refusal> {
        Ok(self.ledger.deliveries_to(webhook, most).await?)
    }

    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery, Refusal> {
        self.ledger.delivery(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// An operator has a delivery tried again, now.
    pub async fn retry_delivery(&self, id: DeliveryId, by: Actor) -> Result<Delivery, Refusal> {
        let before = self.delivery(id).await?;
        if self.ledger.retry_delivery(id, by, self.now()).await? {
            return self.delivery(id).await;
        }
        let state = before.state.as_str();
        let detail =
            format!("A delivery that is {state} cannot be retried; only one that failed, or was given up.");
        Err(Refusal::Conflict { code: "wrong_state", detail })
    }

    /// An operator grants a prize that waited for it.
    pub async fn grant_delivery(&self, id: DeliveryId, by: Actor) -> Result<Delivery, Refusal> {
        self.delivery(id).await?;
        if self.ledger.grant_delivery(id, by, self.now()).await? {
            return self.delivery(id).await;
        }
        let detail = "Only a prize that waits for an operator can be granted.".into();
        Err(Refusal::Conflict { code: "wrong_state", detail })
    }
}

/// A result nobody waits for: the delivery is due again when its lease ends.
fn noted(result: Result<(), LedgerError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "what became of a delivery could not be written down; it is tried again");
    }
}
