//! What the app does with what its recorders tell: counts it, and wakes those who watch.

use std::sync::{Arc, Weak};

use tidegate_core::Claim;
use tidegate_store::ledger::{LedgerError, Recorded};
use tidegate_store::recorder;

use super::App;
use crate::health::Part;

/// Hears from the recorder.
pub(super) struct Recording(pub(super) Weak<App>);

impl recorder::Listener for Recording {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[Recorded]) {
        let Some(app) = self.0.upgrade() else { return };
        for (claim, outcome) in claims.iter().zip(outcomes) {
            if let Some(rejection) = outcome.rejection() {
                tracing::warn!(
                    claim = claim.id.raw(),
                    reason = rejection.code(),
                    "an accepted claim could not be recorded"
                );
                app.metrics.order("rejected_by_ledger");
            }
            app.watchers.changed(claim.order());
        }
    }

    fn failing(&self, error: &LedgerError) {
        if let Some(app) = self.0.upgrade() {
            app.health.set(Part::Ledger, Some(&error.to_string()));
        }
    }
}
