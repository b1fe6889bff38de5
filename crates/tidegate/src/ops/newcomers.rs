//! Buyers who are known to have claimed nothing, ever: their keys need not be looked for in the ledger.
//!
//! In a rush nearly everybody is one, and that look is what an order would spend most of its time on. Only where there is
//! one process: it alone takes claims. What always holds: whoever is in here has nothing in the intake and nothing in the
//! ledger. They are put in inside their turn, or before anybody has their token, and taken out inside their turn before they
//! claim; whoever is not in here is looked up.

use quick_cache::sync::Cache;
use tidegate_core::UserId;

use super::{App, Refusal};

/// Beyond this some are looked up again.
const KEPT: usize = 200_000;

#[derive(Debug)]
pub(super) struct Newcomers(Cache<UserId, ()>);

impl Default for Newcomers {
    fn default() -> Self {
        Self(Cache::new(KEPT))
    }
}

impl Newcomers {
    pub(super) fn has(&self, user: UserId) -> bool {
        self.0.peek(&user).is_some()
    }

    /// Somebody who was made just now, and of whom nobody knows yet.
    pub(super) fn add(&self, user: UserId) {
        self.0.insert(user, ());
    }

    /// They claim.
    pub(super) fn strike(&self, user: UserId) {
        self.0.remove(&user);
    }
}

impl App {
    /// Finds out, when a session is first seen, whether its buyer has ever claimed.
    pub(super) async fn meet(&self, user: UserId) -> Result<(), Refusal> {
        if self.newcomers.has(user) {
            return Ok(());
        }
        let Some(_turn) = self.turn(user).await else { return Ok(()) };
        // The intake before the ledger: what it has let go is there.
        if self.admission.of_buyer(user).is_empty() && !self.ledger.has_claimed(user).await? {
            self.newcomers.add(user);
        }
        Ok(())
    }
}
