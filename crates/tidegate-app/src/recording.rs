//! Waits for claims to be recorded; after each commit, counts rejected claims and wakes the watchers of orders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_admission::{Admission, recorder};
use tidegate_core::{CampaignId, Claim, Rejection};
use tidegate_ledger::{LedgerError, RecordOutcome};

use crate::Refusal;
use crate::context::Context;
use crate::health::Part;
use crate::ledger_history::LedgerHistory;
use crate::order_watchers::Watchers;

/// How long a change waits for claims to be recorded.
pub(crate) const RECORD_WAIT: Duration = Duration::from_secs(5);

/// Waits, within a bound, until every claim that is durable now is recorded.
pub(crate) async fn wait_recorded(admission: &Admission) -> Result<(), Refusal> {
    if admission.wait_until_recorded(RECORD_WAIT).await { Ok(()) } else { Err(Rejection::Busy.into()) }
}

/// Waits, within a bound, until every accepted claim on this campaign is recorded, durable or not.
pub(crate) async fn wait_drained(admission: &Admission, campaign: CampaignId) -> Result<(), Refusal> {
    if admission.wait_until_drained(campaign, RECORD_WAIT).await {
        Ok(())
    } else {
        Err(Rejection::Busy.into())
    }
}

/// Called by the recorder after each commit.
pub(crate) struct RecordingListener {
    pub(crate) context: Arc<Context>,
    pub(crate) watchers: Arc<Watchers>,
    /// A claim cannot be recorded and is not at fault. Other changes may work, so this is not the ledger's health.
    pub(crate) is_stuck: AtomicBool,
    pub(crate) history: Arc<LedgerHistory>,
}

impl recorder::Listener for RecordingListener {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[RecordOutcome]) {
        if self.is_stuck.load(Ordering::Relaxed) {
            self.is_stuck.store(false, Ordering::Relaxed);
            self.context.health.set(Part::Recorder, None);
        }
        for (claim, outcome) in claims.iter().zip(outcomes) {
            if let Some(rejection) = outcome.rejection() {
                let (claim, reason) = (claim.id.raw(), rejection.code());
                tracing::warn!(claim, reason, "an accepted claim could not be recorded");
                self.context.metrics.order("rejected_by_ledger");
            }
            self.watchers.changed(claim.order());
        }
        let is_recorded =
            |outcome: &RecordOutcome| matches!(outcome, RecordOutcome::Order | RecordOutcome::Play);
        if let Some((last, _)) = claims.iter().zip(outcomes).rfind(|(_, outcome)| is_recorded(outcome)) {
            self.history.recorded(last.id);
        }
    }

    fn failing(&self, error: &LedgerError) {
        let problem = error.to_string();
        if matches!(error, LedgerError::Unexpected(_)) {
            let problem = format!("accepted orders wait, since they cannot be recorded: {problem}");
            self.is_stuck.store(true, Ordering::Relaxed);
            self.context.health.set(Part::Recorder, Some(&problem));
        } else if !matches!(error, LedgerError::Refused(_)) {
            self.context.health.set(Part::Ledger, Some(&problem));
        }
    }
}
