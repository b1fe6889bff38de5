//! The dispatcher: grants prizes, turns events into deliveries, reads what is due for all targets at once, and puts
//! senders to work.
//!
//! Invariants: one round at a time; each of its steps handles a bounded number of rows; how long a target takes to
//! answer has no influence on a round.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Moment;
use tidegate_core::delivery::LONGEST_PAUSE;
use tidegate_ledger::{LedgerError, Target, Webhook};

use super::Deliveries;

/// Rows handled in one transaction.
const BATCH: u32 = 1000;
/// A clock that goes back by more than this was set.
const SET_BACK: Duration = Duration::from_secs(2);
/// How often deliveries are looked for that wait for longer than any pause.
const PULL_IN_EVERY: Duration = Duration::from_secs(60);

/// What one round leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    last: Moment,
    pulled_in: Option<Duration>,
    has_webhooks: bool,
}

impl Deliveries {
    /// One round: stores outcomes, grants prizes, fans events out and sends what is due. Returns whether it found work,
    /// so that there may be more right away.
    pub async fn dispatch(self: &Arc<Self>) -> Result<bool, LedgerError> {
        let mut rounds = self.rounds.lock().await;
        let (now, steady) = (self.context.now(), self.context.clock.steady());
        let mut worked = self.store_outcomes().await? > 0;
        let webhooks = self.enabled_webhooks().await?;
        rounds.has_webhooks = !webhooks.is_empty();
        let mut targets: Vec<(Target, Option<Arc<Webhook>>)> = vec![(Target::Merchant, None)];
        targets.extend(webhooks.into_iter().map(|webhook| (Target::Webhook(webhook.id), Some(webhook))));
        let places = (self.rules.at_once_in_all / targets.len()).clamp(1, self.rules.at_once);
        self.pull_in(&mut rounds, &targets, now, steady).await?;
        let work = self.ledger.deliveries.dispatcher_work(now).await?;
        if work.release {
            self.ledger.deliveries.release_closed(now, BATCH).await?;
            worked = true;
        }
        if work.fan_out {
            worked |= self.ledger.webhooks.fan_out(now, BATCH).await? > 0;
        }
        if work.prizes {
            worked |= self.ledger.deliveries.give_prizes(now, BATCH).await? > 0;
        }
        self.targets.set(&targets, places);
        worked |= self.send_due(now, steady).await?;
        Ok(worked)
    }

    async fn enabled_webhooks(&self) -> Result<Vec<Arc<Webhook>>, LedgerError> {
        let all = self.ledger.webhooks.list().await?;
        Ok(all.into_iter().filter(|webhook| webhook.disabled.is_none()).map(Arc::new).collect())
    }

    /// Reads what is due for targets with free places, and puts as many senders to work.
    async fn send_due(self: &Arc<Self>, now: Moment, steady: Duration) -> Result<bool, LedgerError> {
        let wanted = self.targets.wanted(steady);
        let mut found = false;
        if !wanted.is_empty() {
            for due in self.ledger.deliveries.due(wanted, self.targets.in_hand(), now).await? {
                self.targets.queue(due, steady);
                found = true;
            }
        }
        for place in self.targets.take_places(steady) {
            tokio::spawn(self.clone().send_all(place));
        }
        Ok(found)
    }

    /// A clock that was ahead, in this process or an earlier one, has put off deliveries for longer than any pause, and
    /// after a step back every pause is too long. Such deliveries are due now.
    async fn pull_in(
        &self,
        rounds: &mut Rounds,
        targets: &[(Target, Option<Arc<Webhook>>)],
        now: Moment,
        steady: Duration,
    ) -> Result<(), LedgerError> {
        let was_set_back = now + SET_BACK < rounds.last;
        let is_time = rounds.pulled_in.is_none_or(|last| steady >= last + PULL_IN_EVERY);
        if was_set_back || is_time {
            let limit = if was_set_back { now } else { now + LONGEST_PAUSE };
            let targets = targets.iter().map(|(target, _)| *target).chain([Target::Internal]).collect();
            let count = self.ledger.deliveries.pull_in(targets, limit, now).await?;
            if count > 0 {
                tracing::warn!(
                    count,
                    "deliveries waited for a time that a clock had set too late; they are due now"
                );
            }
            rounds.pulled_in = Some(steady);
        }
        rounds.last = now;
        Ok(())
    }

    /// Waits until something may be due, for at most this time. Without webhooks, commits are no reason to look.
    pub async fn something_due(&self, most: Duration) {
        let has_webhooks = self.rounds.lock().await.has_webhooks;
        let woken =
            async { if has_webhooks { self.wake.notified().await } else { std::future::pending().await } };
        // Either way the caller looks again.
        let _ = tokio::time::timeout(most, woken).await;
    }

    /// Whether any delivery was read whose outcome is not stored.
    pub fn has_in_flight(&self) -> bool {
        self.targets.has_in_hand()
    }
}
