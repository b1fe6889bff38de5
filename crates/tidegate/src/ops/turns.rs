//! Turns: where there is one process, a buyer's claims are decided one after the other, so that a key is never used twice
//! at once. Elsewhere the ledger sees to it.
//!
//! A turn also knows the newcomers among its buyers: those who have claimed nothing, ever, so that their keys need not be
//! looked for in the ledger. In a rush nearly everybody is one, and that look is what an order would spend most of its time
//! on. What always holds: a newcomer has nothing in the intake and nothing in the ledger. They are put in inside their turn,
//! or before anybody has their token, and are taken out inside their turn before they claim; whoever is not in is looked up.

use tidegate_core::UserId;
use tokio::sync::{Mutex, MutexGuard};

use super::{App, Refusal};

/// Buyers share this many.
const TURNS: usize = 256;
/// Newcomers are sought in few places that are next to each other. All turns together have two million: room for a crowd of a
/// million, in 16 MiB, of which a small crowd touches little.
const LINES: usize = 1024;
const PLACES: usize = 8;

#[derive(Debug)]
pub(super) struct Turns(Vec<Mutex<Turn>>);

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// None until there is one. The first of all ids is nobody's: a free place.
    newcomers: Box<[[u64; PLACES]]>,
}

impl Default for Turns {
    fn default() -> Self {
        Self((0..TURNS).map(|_| Mutex::default()).collect())
    }
}

impl Turns {
    async fn of(&self, user: UserId) -> MutexGuard<'_, Turn> {
        self.0[user.spread() as usize % TURNS].lock().await
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
    /// Where there is no place, the oldest account makes room: whoever has looked and left is less likely to order than who
    /// comes now.
    fn welcome(&mut self, user: UserId) {
        if self.newcomers.is_empty() {
            self.newcomers = vec![[0; PLACES]; LINES].into();
        }
        if let Some(line) = self.line(user)
            && !line.contains(&user.raw())
            && let Some(oldest) = line.iter_mut().min()
        {
            *oldest = user.raw();
        }
    }

    /// Whether the buyer, who is about to claim, has never done so.
    pub(super) fn is_first_of(&mut self, user: UserId) -> bool {
        let place = self.line(user).and_then(|line| line.iter_mut().find(|one| **one == user.raw()));
        place.is_some_and(|place| std::mem::take(place) > 0)
    }

    fn line(&mut self, user: UserId) -> Option<&mut [u64; PLACES]> {
        self.newcomers.get_mut(user.spread() as usize / TURNS % LINES)
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
    fn a_newcomer_is_one_once_and_the_oldest_makes_room() {
        let (mut turn, user) = (Turn::default(), UserId::from_raw);
        assert!(!turn.is_first_of(user(1)));
        let line = |number: &u64| user(*number).spread() as usize / TURNS % LINES;
        let together: Vec<u64> = (1..).filter(|number| line(number) == line(&1)).take(PLACES + 1).collect();
        for number in together.iter().chain(together.last()) {
            turn.welcome(user(*number));
        }
        assert!(!turn.is_first_of(user(1)), "it is looked up instead");
        for number in &together[1..] {
            assert!(
                turn.is_first_of(user(*number)) && !turn.is_first_of(user(*number)),
                "once, also if met twice"
            );
        }
    }

    #[test]
    fn a_crowd_of_a_million_fits() {
        let mut turns: Vec<Turn> = (0..TURNS).map(|_| Turn::default()).collect();
        // As they are made: a few in every millisecond.
        let ids = || (0..1_000_000_u64).map(|number| UserId::from_raw(((number / 7) << 20) + number % 7 + 1));
        for user in ids() {
            turns[user.spread() as usize % TURNS].welcome(user);
        }
        let known = ids().filter(|user| turns[user.spread() as usize % TURNS].is_first_of(*user)).count();
        assert!(known > 950_000, "{known}");
    }
}
