//! Deletes expired data, and probes the ledger to notice when it has recovered.

use std::sync::Arc;
use std::time::Duration;

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
}

impl Housekeeping {
    pub async fn forget_old(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.idempotency_keys.delete_before(now - KEEP_KEYS).await?;
        self.ledger.sessions.delete_expired(now).await?;
        self.ledger.one_time_codes.delete_expired(now).await?;
        self.operators.forget_old(now).await?;
        while self.ledger.deliveries.delete_finished(now - KEEP_DELIVERIES).await? > 0 {}
        Ok(())
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
