//! The outcomes of attempts on their way to the ledger: while one transaction commits, the next ones gather.
//!
//! Invariants: a delivery stays in hand until its outcome is stored; while the ledger cannot store any, nothing more is
//! read from it either, so what waits here is bounded by what was read.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_ledger::{Attempt, LedgerError};

use super::Deliveries;
use super::targets::InHand;

/// Outcomes in one transaction.
const BATCH: usize = 1000;
/// Between two transactions, so that each has several outcomes and others get their turn at the ledger.
const GATHER: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(super) struct Outcomes {
    waiting: Mutex<Vec<(Attempt, InHand)>>,
    /// Held by who stores a batch, so that batches are stored in order.
    storing: tokio::sync::Mutex<()>,
    /// Held by the task that stores one batch after the other.
    task: Arc<tokio::sync::Mutex<()>>,
}

impl Outcomes {
    pub(super) fn push(&self, attempt: Attempt, in_hand: InHand) {
        self.waiting.lock().push((attempt, in_hand));
    }

    fn take(&self) -> (Vec<Attempt>, Vec<InHand>) {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(BATCH);
        waiting.drain(..count).unzip()
    }

    fn put_back(&self, attempts: Vec<Attempt>, in_hand: Vec<InHand>) {
        self.waiting.lock().splice(..0, attempts.into_iter().zip(in_hand));
    }
}

impl Deliveries {
    /// Stores the outcomes that wait, in a task of its own unless there is one.
    pub(super) fn store_outcomes_soon(self: &Arc<Self>) {
        let Ok(only) = self.outcomes.task.clone().try_lock_owned() else { return };
        let deliveries = self.clone();
        tokio::spawn(async move {
            loop {
                match deliveries.store_outcomes().await {
                    Ok(0) => break,
                    Ok(_) => tokio::time::sleep(GATHER).await,
                    Err(error) => {
                        tracing::warn!(%error, "could not record outcomes of deliveries; it will be retried");
                        return;
                    }
                }
            }
            drop(only);
            // What came between the last look and this found the task running.
            if !deliveries.outcomes.waiting.lock().is_empty() {
                deliveries.store_outcomes_soon();
            }
        });
    }

    /// Stores a batch of outcomes; returns how many.
    pub(super) async fn store_outcomes(&self) -> Result<usize, LedgerError> {
        let _one_at_a_time = self.outcomes.storing.lock().await;
        let (attempts, in_hand) = self.outcomes.take();
        if attempts.is_empty() {
            return Ok(0);
        }
        let (count, attempts) = (attempts.len(), Arc::new(attempts));
        match self.ledger.deliveries.record_attempts(attempts.clone()).await {
            Ok(()) => {}
            Err(LedgerError::Unexpected(_)) => self.store_one_by_one(&attempts).await,
            Err(error) => {
                self.outcomes.put_back(attempts.to_vec(), in_hand);
                return Err(error);
            }
        }
        drop(in_hand);
        self.wake.notify_one();
        Ok(count)
    }

    /// One of them cannot be stored; it must not keep back the others.
    async fn store_one_by_one(&self, attempts: &[Attempt]) {
        for attempt in attempts {
            let id = attempt.delivery.id.raw();
            if let Err(error) = self.ledger.deliveries.record_attempts(Arc::new(vec![attempt.clone()])).await
            {
                tracing::error!(%error, delivery = id, "the outcome of a delivery cannot be recorded");
            }
        }
    }
}
