//! The recorder: turns the intake into ledger rows, in order, exactly once, for as long as the process runs.
//!
//! A ledger that cannot be written is tried again: the intake keeps what it has. A claim that the ledger can never take
//! does not stop the others: it is set aside with its reason, and its buyer sees it rejected. Nothing is swallowed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tidegate_core::{Claim, Moment};
use tokio::sync::watch;

use crate::intake::{Intake, Position};
use crate::ledger::{LedgerError, Recorded, Records};

/// Claims in one transaction: large enough to be fast, small enough that payments are not kept waiting.
const MAX_BATCH: usize = 2048;
const RETRY: Duration = Duration::from_millis(300);

/// Hears what became of each claim, after the commit.
pub trait Listener: Send + Sync + 'static {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[Recorded]);
    fn failing(&self, error: &LedgerError);
}

/// Records until the task is dropped. `progress` tells the last position recorded.
pub async fn run<I: Intake, L: Records>(
    intake: Arc<I>,
    ledger: Arc<L>,
    listener: Arc<dyn Listener>,
    now: impl Fn() -> Moment + Send,
    progress: watch::Sender<Position>,
) {
    // After a batch that the ledger cannot take, claims go one by one until that place is passed.
    let mut one_by_one_until = 0;
    let most = |last: Position, until: Position| if last < until { 1 } else { MAX_BATCH };
    let mut upcoming = None;
    loop {
        let (first, claims) = match upcoming.take() {
            Some(found) => found,
            None => {
                let last = *progress.borrow();
                intake.next(most(last, one_by_one_until)).await
            }
        };
        let last = first + claims.len() as u64 - 1;
        let outcomes = match ledger.record(first, claims.clone(), now()).await {
            Ok(outcomes) => outcomes,
            Err(error @ LedgerError::Unexpected(_)) if claims.len() == 1 => {
                tracing::error!(%error, position = first, "a claim cannot be recorded and is set aside");
                match ledger.set_aside(first, claims[0].clone(), error.to_string(), now()).await {
                    Ok(outcome) => vec![outcome],
                    Err(_) => {
                        listener.failing(&error);
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                }
            }
            Err(error) => {
                if matches!(error, LedgerError::Unexpected(_)) {
                    one_by_one_until = last;
                }
                listener.failing(&error);
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        listener.recorded(&claims, &outcomes);
        // An intake over the network forgets these while it looks for the next: the ledger need not wait for that.
        let forget = async {
            intake.recorded(last).await;
            progress.send_replace(last);
        };
        // In this order: what is forgotten is not given again.
        let ((), found) = join(forget, intake.next(most(last, one_by_one_until))).await;
        upcoming = Some(found);
    }
}
