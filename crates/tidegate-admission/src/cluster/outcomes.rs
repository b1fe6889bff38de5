//! The outcomes of claims: taken from this node's recorders, sent to other nodes, looked up in the ledger if missing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Claim, ClaimId};
use tidegate_ledger::{LedgerError, RecordOutcome};

use super::pending::ClaimOutcome;
use super::{Shared, news};
use crate::recorder::Listener;

/// How often the ledger is asked for outcomes that are due for a lookup.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(250);

impl Shared {
    /// Settles claims of this node. The outcome of a claim that was recorded before is unknown here (it may have been
    /// rejected), so it is looked up.
    pub(super) fn settle(&self, outcomes: impl Iterator<Item = (ClaimId, RecordOutcome)>) {
        let pending = &self.claims.pending;
        let (known, new): (Vec<_>, Vec<_>) =
            outcomes.partition(|(_, outcome)| *outcome == RecordOutcome::Duplicate);
        for (id, _) in known {
            pending.look_up_soon(id);
        }
        let outcomes =
            new.into_iter().map(|(id, outcome)| ClaimOutcome { id, rejection: outcome.rejection() });
        pending.settle(outcomes);
    }
}

/// Listens to this node's recorders.
pub(super) struct OutcomeListener {
    pub(super) shared: Weak<Shared>,
    /// Called after this one.
    pub(super) next: Arc<dyn Listener>,
}

impl Listener for OutcomeListener {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[RecordOutcome]) {
        let Some(shared) = self.shared.upgrade() else { return };
        let (mut here, mut elsewhere) = (Vec::with_capacity(claims.len()), Vec::new());
        for (claim, outcome) in claims.iter().zip(outcomes) {
            if *outcome == RecordOutcome::Conflict {
                shared.mark_suspect(claim.campaign, claim.epoch);
            }
            if outcome.rejection().is_some() {
                // Its units were returned: reconciling now makes them free without waiting for the next poll.
                shared.reconcile.notify_one();
            }
            if claim.id.node() == shared.options.number {
                here.push((claim.id, *outcome));
            } else if *outcome != RecordOutcome::Duplicate {
                let outcome = ClaimOutcome { id: claim.id, rejection: outcome.rejection() };
                elsewhere.push((claim.id.node(), outcome));
            }
        }
        shared.settle(here.into_iter());
        if !elsewhere.is_empty() {
            tokio::spawn(async move { news::publish_outcomes(&shared, elsewhere).await });
        }
        self.next.recorded(claims, outcomes);
    }

    fn failing(&self, error: &LedgerError) {
        // `Unclear` also means that another node holds the lease, which is no failure of the ledger; a real failure was
        // reported where it occurred.
        if !matches!(error, LedgerError::Unclear(_)) {
            self.next.failing(error);
        }
    }
}

/// Looks up outcomes in the ledger, because messages can be lost. Runs until the cluster is dropped.
pub(super) async fn look_up_outcomes(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(LOOKUP_INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let due = shared.claims.pending.take_due_lookups();
        let Some(ledger) = shared.ledger.get().filter(|_| !due.is_empty()) else { continue };
        match ledger.claims.outcomes_of(due).await {
            Ok(outcomes) => {
                let outcomes = outcomes.into_iter().map(|(id, rejection)| ClaimOutcome { id, rejection });
                shared.claims.pending.settle(outcomes);
            }
            Err(error) => tracing::debug!(%error, "outcomes of claims could not be looked up"),
        }
    }
}
