//! Deletes expired data, and probes the ledger to notice when it has recovered.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Moment;
use tidegate_ledger::{LedgerError, SqlLedger};

use crate::challenges::Challenges;
use crate::context::Context;
use crate::operators::Operators;

/// Retention of operators' idempotency keys.
const KEEP_KEYS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Retention of finished deliveries of events.
const KEEP_DELIVERIES: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug)]
pub struct Housekeeping {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: Arc<SqlLedger>,
    pub(crate) operators: Arc<Operators>,
    pub(crate) challenges: Arc<Challenges>,
    /// The time up to which time is known to have passed, and the steady time of that.
    pub(crate) passed: Mutex<Option<(Moment, Duration)>>,
}

impl Housekeeping {
    pub async fn forget_old(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.idempotency_keys.delete_before(now - KEEP_KEYS).await?;
        self.ledger.sessions.delete_expired(now).await?;
        self.ledger.one_time_codes.delete_expired(now).await?;
        self.operators.forget_old(now).await?;
        // Among them are those that were given up: an operator may still want to send them.
        if let Some(passed) = self.passed(now) {
            while self.ledger.deliveries.delete_finished(passed - KEEP_DELIVERIES).await? > 0 {}
        }
        Ok(())
    }

    /// `now`, but no later than the last time plus what has really passed since, so that a clock that is set ahead
    /// makes nothing old. `None` at the first call.
    fn passed(&self, now: Moment) -> Option<Moment> {
        let steady = self.context.clock.steady();
        let mut last = self.passed.lock();
        let passed = last.map(|(at, since)| now.min(at + steady.saturating_sub(since)));
        *last = Some((passed.unwrap_or(now), steady));
        passed
    }

    /// Drops expired one-time values from memory.
    pub fn tidy(&self) {
        self.challenges.forget_expired(self.context.now());
    }

    /// Makes a test write; the ledger reports the result to its observer.
    pub async fn probe_ledger(&self) -> Result<(), LedgerError> {
        self.ledger.probe().await
    }

    /// Ends the demo buyers' sessions, whose tokens are public.
    pub async fn end_demo(&self) -> Result<(), LedgerError> {
        self.ledger.sessions.end_all("demo").await?;
        Ok(())
    }
}
