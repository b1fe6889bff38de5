//! Notices a database of a cluster that has lost committed changes: a standby that lacked them was promoted, or an old
//! backup was restored.
//!
//! A node knows the newest event that it has read and the last claim that it has recorded; Redis knows the newest event
//! that any node has read. A ledger that ends before them sells nothing until an operator has accepted the loss.

use parking_lot::Mutex;
use tidegate_admission::Cluster;
use tidegate_core::{ClaimId, Moment};
use tidegate_ledger::{LedgerError, SqlLedger};

use crate::context::Context;
use crate::health::Part;

/// When an operator last accepted a loss: milliseconds of the database's clock.
pub const ACCEPTED_AT: &str = "loss_accepted_at";

#[derive(Debug, Default)]
pub(crate) struct LedgerHistory(Mutex<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    event: u64,
    claim: Option<ClaimId>,
    /// When the loss was noticed.
    lost_at: Option<Moment>,
}

impl LedgerHistory {
    /// The ledger has committed this claim.
    pub(crate) fn recorded(&self, claim: ClaimId) {
        self.0.lock().claim = Some(claim);
    }

    pub(crate) async fn check(
        &self,
        context: &Context,
        cluster: &Cluster,
        ledger: &SqlLedger,
    ) -> Result<(), LedgerError> {
        // What is remembered is read before the ledger: it was committed by then.
        let (known, shared) = (*self.0.lock(), cluster.newest_event());
        let on_redis = shared.get().await.ok();
        let event = known.event.max(on_redis.unwrap_or(0));
        let newest = ledger.events.newest().await?;
        let has_claim = match known.claim {
            Some(claim) => !ledger.claims.outcomes_of(vec![claim]).await?.is_empty(),
            None => true,
        };
        if newest < event || !has_claim {
            let lost_at = *self.0.lock().lost_at.get_or_insert_with(|| context.now());
            if accepted_at(ledger).await? <= Some(lost_at) {
                context.health.set(Part::LedgerHistory, Some(&problem(event, newest)));
                return Ok(());
            }
            // Redis may be away; the next check sets it back.
            let _ = shared.reset_to(newest).await;
            *self.0.lock() = Seen::default();
        }
        self.agrees_up_to(newest);
        context.health.set(Part::LedgerHistory, None);
        if on_redis.is_some_and(|on_redis| on_redis < newest) {
            // If this fails, the next check repeats it.
            let _ = shared.raise_to(newest).await;
        }
        Ok(())
    }

    fn agrees_up_to(&self, event: u64) {
        let mut seen = self.0.lock();
        (seen.event, seen.lost_at) = (event, None);
    }
}

async fn accepted_at(ledger: &SqlLedger) -> Result<Option<Moment>, LedgerError> {
    let stored = ledger.settings.get(ACCEPTED_AT).await?;
    Ok(stored
        .and_then(|bytes| bytes.try_into().ok())
        .map(|bytes| Moment::from_millis(i64::from_be_bytes(bytes))))
}

fn problem(event: u64, newest: u64) -> String {
    format!(
        "PostgreSQL has lost committed changes: nodes have seen event {event} and their own orders, but the database \
         ends with event {newest} or lacks such an order. A standby that lacked them was promoted, or an old backup \
         restored. Nothing is sold until the right database is back, or the loss is accepted with \
         `tidegate accept-loss`"
    )
}
