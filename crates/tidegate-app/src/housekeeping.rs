//! Forgets what need not be kept any more, and finds out when a ledger in trouble works again.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Moment;
use tidegate_ledger::{LedgerError, SqlLedger};

use crate::challenges::Challenges;
use crate::context::Context;
use crate::operators::Operators;

/// Idempotency keys of operators are remembered this long.
const KEEP_KEYS: Duration = Duration::from_secs(7 * 24 * 3600);
/// Deliveries that arrived are remembered this long.
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

    /// Forgets one-time values in memory that have expired.
    pub fn tidy(&self) {
        self.challenges.forget_expired(self.context.now());
    }

    /// Writes to the ledger: its observer hears whether that works.
    pub async fn probe_ledger(&self) -> Result<(), LedgerError> {
        self.ledger.probe().await
    }

    /// Ends the demo buyers' sessions, whose tokens everybody knows.
    pub async fn end_demo(&self) -> Result<(), LedgerError> {
        self.ledger.sessions.end_all("demo").await?;
        Ok(())
    }
}
