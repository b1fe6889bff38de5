//! Striped locks that decide a buyer's claims one after the other, so that an idempotency key is never used twice at
//! once.
//!
//! Only one process needs them: on many nodes the ledger takes each key once. Each lock guards the first-time buyers
//! of its stripe. They are inserted under the lock, or before anybody has their token, and removed under it before
//! they claim.

use tidegate_core::UserId;
use tokio::sync::{Mutex, MutexGuard};

use super::first_time_buyers::FirstTimeBuyers;

pub(super) const LOCKS: usize = 256;

#[derive(Debug)]
pub(super) struct BuyerLocks(Vec<Mutex<FirstTimeBuyers>>);

/// A buyer's lock, held until their claim is decided.
#[derive(Debug)]
pub struct BuyerLock<'a> {
    user: UserId,
    first_time: MutexGuard<'a, FirstTimeBuyers>,
}

impl Default for BuyerLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::default()).collect())
    }
}

impl BuyerLocks {
    pub(super) async fn lock(&self, user: UserId) -> BuyerLock<'_> {
        BuyerLock { user, first_time: self.0[user.spread() as usize % LOCKS].lock().await }
    }

    /// After this every claim that was being decided under a lock is in the intake.
    pub(super) async fn wait_for_holders(&self) {
        for lock in &self.0 {
            drop(lock.lock().await);
        }
    }
}

impl BuyerLock<'_> {
    /// The buyer has claimed nothing yet.
    pub fn note_first_time(&mut self) {
        self.first_time.insert(self.user);
    }

    /// Whether the buyer, who is about to claim, is known to have claimed nothing before.
    pub fn take_first_time(&mut self) -> bool {
        self.first_time.remove(self.user)
    }
}
