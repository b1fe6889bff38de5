//! Admission in one process: the core's pools in memory, the intake in a journal on disk.

pub(crate) mod buyer_locks;
pub mod continuity;
pub mod data_dir;
mod first_time_buyers;
pub mod gate;
pub mod journal;
pub(crate) mod waiting_room;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ClaimRequest, UserId};
use tidegate_ledger::{Position, SqlLedger};
use tokio::sync::watch;

use crate::embedded::buyer_locks::{BuyerLock, BuyerLocks};
use crate::embedded::gate::MemoryGate;
use crate::embedded::journal::Journal;
use crate::embedded::waiting_room::MemoryRooms;
use crate::intake::{Intake, Unrecorded};
use crate::recorder::{self, Listener};
use crate::{AcceptedClaim, ClaimError, Durability, Now};

#[derive(Debug)]
pub struct Embedded {
    gate: Arc<MemoryGate>,
    journal: Arc<Journal>,
    /// The last position that is recorded.
    progress: watch::Sender<Position>,
    buyers: BuyerLocks,
    rooms: Arc<MemoryRooms>,
}

impl Embedded {
    pub(crate) fn new(gate: Arc<MemoryGate>, journal: Arc<Journal>, first_time_buyers: bool) -> Self {
        let progress = watch::Sender::new(journal.recorded_through());
        let buyers = BuyerLocks::new(first_time_buyers);
        Self { gate, journal, progress, buyers, rooms: Arc::default() }
    }

    pub(crate) fn gate(&self) -> &MemoryGate {
        &self.gate
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn rooms(&self) -> &Arc<MemoryRooms> {
        &self.rooms
    }

    pub(crate) async fn lock_buyer(&self, user: UserId) -> BuyerLock<'_> {
        self.buyers.lock(user).await
    }

    /// Resolves once the claims that the journal holds now are recorded.
    pub(crate) async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        let progress = self.progress.clone();
        tokio::spawn(recorder::run(self.journal.clone(), ledger, listener, move || now(), progress));
        let end = self.journal.end();
        // The sender is a field of `self`, so the channel cannot close.
        let _ = self.progress.subscribe().wait_for(|recorded| *recorded >= end).await;
    }

    pub(crate) async fn stop(&self, timeout: Duration) {
        if !self.wait_until_recorded(self.journal.end(), timeout).await {
            tracing::warn!("stopped with unrecorded claims; the journal keeps them for the next start");
        }
        let journal = self.journal.clone();
        // `close` joins a thread and does not panic.
        let _ = tokio::task::spawn_blocking(move || journal.close()).await;
    }

    pub(crate) fn claim(&self, request: ClaimRequest) -> Result<AcceptedClaim, ClaimError> {
        // Checked before the gate decides: undoing a granted claim would not restore its pass.
        self.journal.check().map_err(ClaimError::NotAppended)?;
        let (claim, outcome) = self
            .gate
            .decide(request, |claim| self.journal.enqueue(claim.clone()).map_err(ClaimError::NotAppended))?;
        let durability = self.journal.answer_timeout().map(|timeout| Durability::new(outcome, timeout));
        Ok(AcceptedClaim { claim, durability })
    }

    pub(crate) fn depth(&self) -> usize {
        self.journal.depth()
    }

    pub(crate) fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        self.journal.unrecorded_of(user)
    }

    /// Waits until everything up to this position is recorded; `false` after `timeout`.
    pub(crate) async fn wait_until_recorded(&self, through: Position, timeout: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        self.journal.record_now(through);
        tokio::time::timeout(timeout, progress.wait_for(|recorded| *recorded >= through)).await.is_ok()
    }

    /// The same for every claim that is accepted by now, durable or not.
    pub(crate) async fn wait_until_drained(&self, timeout: Duration) -> bool {
        self.buyers.wait_for_holders().await;
        self.wait_until_recorded(self.journal.end(), timeout).await
    }
}
