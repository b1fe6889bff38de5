//! Admission in one process: the core's pools in memory, a journal on disk.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ClaimRequest, UserId};
use tokio::sync::watch;

use super::{Kept, NotTaken, Now, Taken};
use crate::gate::memory::MemoryGate;
use crate::intake::journal::Journal;
use crate::intake::{Intake, Position, Unrecorded};
use crate::ledger::sql::SqlLedger;
use crate::recorder::{self, Listener};

#[derive(Debug)]
pub struct Embedded {
    gate: Arc<MemoryGate>,
    journal: Arc<Journal>,
    /// How far the journal is recorded.
    progress: watch::Sender<Position>,
}

impl Embedded {
    pub(super) fn new(gate: Arc<MemoryGate>, journal: Arc<Journal>) -> Self {
        let progress = watch::Sender::new(journal.recorded_through());
        Self { gate, journal, progress }
    }

    pub(super) fn gate(&self) -> &MemoryGate {
        &self.gate
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Resolves once everything the journal holds is recorded.
    pub(super) async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        let progress = self.progress.clone();
        tokio::spawn(recorder::run(self.journal.clone(), ledger, listener, move || now(), progress));
        let end = self.journal.end();
        // The sender lives here, so the channel cannot close.
        let _ = self.progress.subscribe().wait_for(|recorded| *recorded >= end).await;
    }

    pub(super) async fn stop(&self, within: Duration) {
        if !self.caught_up(self.journal.end(), within).await {
            tracing::warn!("not everything could be recorded; the journal keeps it for the next start");
        }
        let journal = self.journal.clone();
        // It waits for its thread, and does not panic.
        let _ = tokio::task::spawn_blocking(move || journal.close()).await;
    }

    pub(super) fn claim(&self, request: ClaimRequest) -> Result<Taken, NotTaken> {
        // Before the gate is asked: what it gives and takes back again would cost a pass.
        self.journal.check().map_err(NotTaken::NotKept)?;
        let (claim, done) = self
            .gate
            .decide(request, |claim| self.journal.enqueue(claim.clone()).map_err(NotTaken::NotKept))?;
        let kept = self.journal.is_waited_for().then_some(Kept { told: done, within: None });
        Ok(Taken { claim, kept })
    }

    pub(super) fn depth(&self) -> usize {
        self.journal.depth()
    }

    pub(super) fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        self.journal.of_buyer(user)
    }

    pub(super) async fn caught_up(&self, end: Position, within: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        self.journal.hurry(end);
        tokio::time::timeout(within, progress.wait_for(|recorded| *recorded >= end)).await.is_ok()
    }
}
