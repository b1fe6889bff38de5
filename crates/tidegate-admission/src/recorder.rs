//! The recorder: turns the claims of an intake into ledger rows, in order, exactly once.
//!
//! While the ledger cannot be written, the recorder retries and the intake keeps the claims. A claim that a sound
//! ledger refuses does not block the others: it is set aside with the reason, and its buyer sees it rejected. No other
//! error rejects a claim.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tidegate_core::{Claim, Moment};
use tidegate_ledger::{LedgerError, Position, RecordOutcome, Records};
use tokio::sync::watch;

use crate::intake::Intake;

/// Claims in one transaction: large enough to be fast, small enough not to delay payments.
const MAX_BATCH: usize = 2048;
const RETRY_DELAY: Duration = Duration::from_millis(300);

/// Hears the outcome of each claim after its commit.
pub trait Listener: Send + Sync + 'static {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[RecordOutcome]);
    fn failing(&self, error: &LedgerError);
}

/// Records until the task is dropped. `progress` is the last position recorded.
pub async fn run<I: Intake, L: Records>(
    intake: Arc<I>,
    ledger: Arc<L>,
    listener: Arc<dyn Listener>,
    now: impl Fn() -> Moment + Send,
    progress: watch::Sender<Position>,
) {
    // After a batch that the ledger rejects as a whole, its claims are recorded one by one, to find the bad one.
    let mut one_by_one_until = 0;
    let batch_size = |last: Position, until: Position| if last < until { 1 } else { MAX_BATCH };
    let mut prefetched = None;
    loop {
        let (first, claims) = match prefetched.take() {
            Some(found) => found,
            None => {
                let last = *progress.borrow();
                intake.next(batch_size(last, one_by_one_until)).await
            }
        };
        let last = first + claims.len() as u64 - 1;
        let outcomes = match ledger.record(first, claims.clone(), now()).await {
            Ok(outcomes) => outcomes,
            Err(error @ LedgerError::Refused(_)) if claims.len() == 1 => {
                match ledger.set_aside(first, claims[0].clone(), error.to_string(), now()).await {
                    Ok(outcome) => {
                        tracing::error!(%error, position = first, "a claim cannot be recorded and was set aside");
                        vec![outcome]
                    }
                    Err(error) => {
                        listener.failing(&error);
                        tokio::time::sleep(RETRY_DELAY).await;
                        continue;
                    }
                }
            }
            Err(error) => {
                // One of its claims may be at fault.
                if matches!(error, LedgerError::Refused(_)) {
                    one_by_one_until = last;
                }
                listener.failing(&error);
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        listener.recorded(&claims, &outcomes);
        // An intake over the network deletes these claims while it fetches the next ones.
        let delete = async {
            intake.recorded(last).await;
            progress.send_replace(last);
        };
        // `join` polls `delete` first, so `next` does not return these claims again.
        let ((), found) = join(delete, intake.next(batch_size(last, one_by_one_until))).await;
        prefetched = Some(found);
    }
}
