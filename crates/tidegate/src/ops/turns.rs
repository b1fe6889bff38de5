//! Turns: where there is one process, a buyer's claims are decided one after the other, so that a key is never used twice
//! at once. Elsewhere the ledger sees to it.
//!
//! A turn also knows the newcomers among its buyers: those who have claimed nothing, ever, so that their keys need not be
//! looked for in the ledger. In a rush nearly everybody is one, and that look is what an order would spend most of its time
//! on. What always holds: a newcomer has nothing in the intake and nothing in the ledger. They are put in inside their turn,
//! or before anybody has their token, and are taken out inside their turn before they claim; whoever is not in is looked up.

use hashbrown::HashSet;
use tidegate_core::UserId;
use tokio::sync::{Mutex, MutexGuard};

use super::{App, Refusal};

/// Buyers share this many.
const TURNS: usize = 256;
/// Newcomers that one remembers: a million in all. More make it forget those who came first: somebody who has looked and left
/// is less likely to order than who comes now.
const MOST_NEWCOMERS: usize = 4096;

#[derive(Debug)]
pub(super) struct Turns(Vec<Mutex<Turn>>);

#[derive(Debug, Default)]
pub(super) struct Turn {
    newcomers: HashSet<UserId>,
    /// Those who came before them.
    earlier: HashSet<UserId>,
}

impl Default for Turns {
    fn default() -> Self {
        Self((0..TURNS).map(|_| Mutex::default()).collect())
    }
}

impl Turns {
    async fn of(&self, user: UserId) -> MutexGuard<'_, Turn> {
        // Mixed: ids that are made one in a millisecond end alike.
        let mixed = user.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = usize::try_from(mixed % TURNS as u64).unwrap_or(0);
        self.0[at].lock().await
    }

    /// After this every claim that was being decided in a turn is in the intake.
    pub(super) async fn pass(&self) {
        for turn in &self.0 {
            drop(turn.lock().await);
        }
    }

    /// Takes note of somebody who was made just now, and of whom nobody knows yet.
    pub(super) async fn welcome(&self, user: UserId) {
        self.of(user).await.welcome(user);
    }
}

impl Turn {
    fn welcome(&mut self, user: UserId) {
        if self.newcomers.len() >= MOST_NEWCOMERS / 2 {
            self.earlier = std::mem::take(&mut self.newcomers);
        }
        // Nobody is in both: whoever is found in one is not sought in the other.
        self.earlier.remove(&user);
        self.newcomers.insert(user);
    }

    /// Whether the buyer, who is about to claim, has never done so.
    pub(super) fn is_first_of(&mut self, user: UserId) -> bool {
        self.newcomers.remove(&user) || self.earlier.remove(&user)
    }
}

impl App {
    /// `None` where nobody has to wait for a turn.
    pub(super) async fn turn(&self, user: UserId) -> Option<MutexGuard<'_, Turn>> {
        if self.admission.is_embedded() { Some(self.turns.of(user).await) } else { None }
    }

    /// Finds out, when a session is first seen, whether its buyer has ever claimed.
    pub(super) async fn meet(&self, user: UserId) -> Result<(), Refusal> {
        let Some(mut turn) = self.turn(user).await else { return Ok(()) };
        // The intake before the ledger: what it has let go is there.
        if self.admission.of_buyer(user).is_empty() && !self.ledger.has_claimed(user).await? {
            turn.welcome(user);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_is_one_once_and_whoever_came_long_ago_is_forgotten() {
        let (mut turn, user) = (Turn::default(), UserId::from_raw);
        let most = MOST_NEWCOMERS as u64;
        (0..most).for_each(|number| turn.welcome(user(number)));
        assert!(turn.is_first_of(user(0)) && !turn.is_first_of(user(0)), "all of them are known, once");
        (most..2 * most).for_each(|number| turn.welcome(user(number)));
        assert!(!turn.is_first_of(user(1)), "it is looked up instead");
        assert!(turn.is_first_of(user(2 * most - 1)) && turn.is_first_of(user(most + most / 2)));
        assert!(turn.newcomers.len() + turn.earlier.len() <= MOST_NEWCOMERS);
        turn.welcome(user(most + 1));
        assert!(turn.is_first_of(user(most + 1)) && !turn.is_first_of(user(most + 1)), "also if met twice");
    }
}
