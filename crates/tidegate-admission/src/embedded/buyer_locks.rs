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
pub(super) struct BuyerLocks {
    locks: Vec<Mutex<FirstTimeBuyers>>,
    /// Whether first-time buyers are remembered.
    first_time: bool,
}

/// A buyer's lock, held until their claim is decided.
#[derive(Debug)]
pub struct BuyerLock<'a> {
    user: UserId,
    first_time: MutexGuard<'a, FirstTimeBuyers>,
    remembers_first_time: bool,
}

impl BuyerLocks {
    pub(super) fn new(first_time: bool) -> Self {
        Self { locks: (0..LOCKS).map(|_| Mutex::default()).collect(), first_time }
    }

    pub(super) async fn lock(&self, user: UserId) -> BuyerLock<'_> {
        let first_time = self.locks[user.spread() as usize % LOCKS].lock().await;
        BuyerLock { user, first_time, remembers_first_time: self.first_time }
    }

    /// After this every claim that was being decided under a lock is in the intake.
    pub(super) async fn wait_for_holders(&self) {
        for lock in &self.locks {
            drop(lock.lock().await);
        }
    }
}

impl BuyerLock<'_> {
    /// Whether it is of use to find out if the buyer has claimed anything.
    pub fn remembers_first_time(&self) -> bool {
        self.remembers_first_time
    }

    /// The buyer has claimed nothing yet.
    pub fn note_first_time(&mut self) {
        if self.remembers_first_time {
            self.first_time.insert(self.user);
        }
    }

    /// Whether the buyer, who is about to claim, is known to have claimed nothing before.
    pub fn take_first_time(&mut self) -> bool {
        self.first_time.remove(self.user)
    }
}
