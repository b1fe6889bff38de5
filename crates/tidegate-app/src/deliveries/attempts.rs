//! One attempt after the other: each place at a target sends what waits for it, without waiting for the dispatcher.
//!
//! Invariants: every attempt ends within the timeout; whatever happens in it, a panic included, its delivery gets an
//! outcome and its place goes on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_core::delivery::{LONGEST_PAUSE, counting, pause_after};
use tidegate_core::{Moment, WebhookId};
use tidegate_ledger::{Actor, Attempt, AttemptOutcome, Delivery, DueDelivery, Target, Webhook};

use super::Deliveries;
use super::targets::Place;
use crate::random;

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
    /// This program is at fault.
    Panicked,
}

/// Turns a panic while sending into a failure of this delivery.
async fn caught(sending: impl Future<Output = SendOutcome>) -> SendOutcome {
    AssertUnwindSafe(sending).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("sending a delivery panicked; it will be retried");
        SendOutcome::Panicked
    })
}

impl Deliveries {
    /// Sends what waits for the place's target until nothing does.
    pub(super) async fn send_all(self: Arc<Self>, mut place: Place) {
        while let Some((job, webhook)) = self.targets.next(&mut place, self.context.clock.steady()) {
            let sent = caught(self.send(&job.due, webhook.as_deref())).await;
            let attempt = self.finished(job.due.delivery, sent).await;
            self.outcomes.push(attempt, job.in_hand);
            self.store_outcomes_soon();
        }
    }

    async fn send(&self, due: &DueDelivery, webhook: Option<&Webhook>) -> SendOutcome {
        match (due.delivery.target, webhook) {
            (Target::Webhook(_), Some(webhook)) => self.send_event(webhook, due).await,
            (Target::Webhook(_), None) => SendOutcome::Unsendable { why: "the webhook is gone".into() },
            (Target::Merchant | Target::Internal, _) => self.send_coupon(due).await,
        }
    }

    async fn finished(&self, delivery: Delivery, sent: SendOutcome) -> Attempt {
        let (now, steady) = (self.context.now(), self.context.clock.steady());
        let worked = match &sent {
            SendOutcome::Arrived { .. } | SendOutcome::Refused { .. } => Some(true),
            SendOutcome::Down { .. } => Some(false),
            SendOutcome::Gone | SendOutcome::Unsendable { .. } | SendOutcome::Panicked => None,
        };
        if let (SendOutcome::Gone, Target::Webhook(id)) = (&sent, delivery.target) {
            self.disable(id, now).await;
        }
        let seen_failing = self.targets.finished(delivery.target, worked, now, steady);
        let outcome = self.outcome(&delivery, sent, seen_failing, now);
        self.context.metrics.delivery(&delivery.kind, &outcome);
        Attempt { delivery, outcome, at: now }
    }

    async fn disable(&self, id: WebhookId, now: Moment) {
        self.targets.clear(Target::Webhook(id));
        let why = Some("the receiver answered 410 Gone".to_owned());
        if let Err(error) = self.ledger.webhooks.set_disabled(id, why, Actor::Clock, now).await {
            tracing::warn!(%error, "could not disable a webhook whose receiver answered 410; its next answer will");
        }
    }

    /// The outcome to record: delivered, to be retried after a growing pause, or given up.
    fn outcome(
        &self,
        delivery: &Delivery,
        sent: SendOutcome,
        seen_failing: Duration,
        now: Moment,
    ) -> AttemptOutcome {
        let (error, retry_after) = match sent {
            SendOutcome::Arrived { content } => return AttemptOutcome::Delivered { content },
            SendOutcome::Unsendable { why } => return AttemptOutcome::Dead { error: why },
            SendOutcome::Gone => {
                return AttemptOutcome::Dead { error: "the receiver answered 410 Gone".into() };
            }
            SendOutcome::Refused { why } => (why, None),
            SendOutcome::Down { why, retry_after } => (why, retry_after),
            SendOutcome::Panicked => ("this program failed while sending it".into(), None),
        };
        let Delivery { open_since, updated_at, due_at, tries, .. } = delivery;
        let counts = counting(updated_at.until(*due_at).min(LONGEST_PAUSE), seen_failing);
        let tried_for = open_since.until(*updated_at) + updated_at.until(now).min(counts);
        if tried_for >= self.rules.give_up_after {
            return AttemptOutcome::Dead { error: format!("given up after {} tries: {error}", tries + 1) };
        }
        let pause = pause_after(tries + 1, random::fraction());
        let asked = retry_after.unwrap_or_default().min(LONGEST_PAUSE);
        AttemptOutcome::Failed { error, due_at: now + pause.max(asked), counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_while_sending_is_an_outcome() {
        let sent = caught(async { panic!("a panic of the test") }).await;
        assert!(matches!(sent, SendOutcome::Panicked));
        let sent = caught(async { SendOutcome::Arrived { content: None } }).await;
        assert!(matches!(sent, SendOutcome::Arrived { .. }));
    }
}
