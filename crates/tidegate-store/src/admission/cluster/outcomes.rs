//! What became of claims: heard from this node's recorders, told to other nodes, asked of the ledger where nobody said.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Claim, ClaimId};

use super::pending::Outcome;
use super::{Shared, news};
use crate::ledger::{LedgerError, Recorded};
use crate::recorder::Listener;

/// How often the ledger is asked about claims whose outcome nobody told.
const ASK_EVERY: Duration = Duration::from_millis(250);

impl Shared {
    /// Wakes whoever waits here. What was recorded before may have been rejected then: the ledger is asked.
    pub(super) fn settle(&self, outcomes: impl Iterator<Item = (ClaimId, Recorded)>) {
        let pending = &self.books.pending;
        let (known, fresh): (Vec<_>, Vec<_>) = outcomes.partition(|(_, outcome)| *outcome == Recorded::Known);
        for (id, _) in known {
            pending.ask_about(id);
        }
        pending.settle(fresh.into_iter().map(|(id, outcome)| Outcome { id, rejection: outcome.rejection() }));
    }
}

/// Hears from this node's recorders.
pub(super) struct Outcomes {
    pub(super) shared: Weak<Shared>,
    pub(super) outer: Arc<dyn Listener>,
}

impl Listener for Outcomes {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[Recorded]) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (mut here, mut elsewhere) = (Vec::with_capacity(claims.len()), Vec::new());
        for (claim, outcome) in claims.iter().zip(outcomes) {
            if *outcome == Recorded::Conflict {
                shared.distrust(claim.campaign, claim.epoch);
            }
            if outcome.rejection().is_some() {
                // Its units go back: whoever looks now need not wait for them.
                shared.attention.notify_one();
            }
            if claim.id.node() == shared.options.number {
                here.push((claim.id, *outcome));
            } else if *outcome != Recorded::Known {
                elsewhere.push((claim.id.node(), Outcome { id: claim.id, rejection: outcome.rejection() }));
            }
        }
        shared.settle(here.into_iter());
        if !elsewhere.is_empty() {
            tokio::spawn(async move { news::tell_outcomes(&shared, elsewhere).await });
        }
        self.outer.recorded(claims, outcomes);
    }

    fn failing(&self, error: &LedgerError) {
        // A lease that another node has is no trouble of the ledger's, and a real one was noticed where it happened.
        if !matches!(error, LedgerError::Unclear(_)) {
            self.outer.failing(error);
        }
    }
}

/// Messages can be lost: the ledger knows.
pub(super) async fn ask_the_ledger(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let asked = shared.books.pending.overdue();
        let Some(ledger) = shared.ledger.get().filter(|_| !asked.is_empty()) else { continue };
        match ledger.outcomes_of(asked).await {
            Ok(outcomes) => {
                let outcomes = outcomes.into_iter().map(|(id, rejection)| Outcome { id, rejection });
                shared.books.pending.settle(outcomes);
            }
            Err(error) => tracing::debug!(%error, "what became of claims is asked again"),
        }
    }
}
