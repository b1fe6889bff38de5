//! The recorder: turns the intake into ledger rows, in order, exactly once, for as long as the process runs.
//!
//! A ledger that cannot be written is tried again: the intake keeps what it has. Nothing here swallows a claim.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Claim, Moment};
use tokio::sync::watch;

use crate::intake::{Intake, Position};
use crate::ledger::{Ledger, LedgerError, Recorded};

/// Claims in one transaction: large enough to be fast, small enough that payments are not kept waiting.
const MAX_BATCH: usize = 2048;
const RETRY: Duration = Duration::from_millis(300);

/// Hears what became of each claim, after the commit.
pub trait Listener: Send + Sync + 'static {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[Recorded]);
    fn failing(&self, error: &LedgerError);
}

/// Records until the task is dropped. `progress` tells the last position recorded.
pub async fn run<I: Intake, L: Ledger>(
    intake: Arc<I>,
    ledger: Arc<L>,
    listener: impl Listener,
    now: impl Fn() -> Moment + Send,
    progress: watch::Sender<Position>,
) {
    loop {
        let (first, claims) = intake.next(MAX_BATCH).await;
        let outcomes = match ledger.record(first, claims.clone(), now()).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                listener.failing(&error);
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let last = first + claims.len() as u64 - 1;
        intake.recorded(last).await;
        listener.recorded(&claims, &outcomes);
        progress.send_replace(last);
    }
}
