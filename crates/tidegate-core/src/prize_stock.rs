//! A draw's prizes at the gate: how many are left of each, and who deals them.
//!
//! What always holds: a prize is taken in the same decision as its seat, and given back with it.

use std::sync::Arc;

use crate::dealer::Dealer;
use crate::draw::PrizeNumber;
use crate::{Draw, Slot};

/// What a pool's prizes are rebuilt from.
#[derive(Clone, Debug)]
pub struct PrizeSeed {
    pub draw: Arc<Draw>,
    pub seats: u32,
    /// How many of each were won, by the ledger.
    pub taken: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct PrizeStock {
    dealer: Dealer,
    left: Vec<u32>,
}

impl PrizeStock {
    pub fn from_seed(seed: PrizeSeed) -> Self {
        let PrizeSeed { draw, seats, taken } = seed;
        assert_eq!(draw.prizes.len(), taken.len(), "every prize is counted");
        let left = draw.prizes.iter().zip(&taken).map(|(prize, taken)| {
            assert!(prize.stock >= *taken, "more of a prize were won than there are");
            prize.stock - taken
        });
        Self { left: left.collect(), dealer: Dealer::new(&draw, seats) }
    }

    /// What the seat wins; it is taken.
    pub fn take(&mut self, seat: Slot, client_seed: &str) -> Option<PrizeNumber> {
        let prize = self.dealer.outcome(seat, client_seed, &self.left)?;
        let left = &mut self.left[usize::from(prize) - 1];
        assert!(*left > 0, "prize {prize} is gone");
        *left -= 1;
        Some(prize)
    }

    pub fn give_back(&mut self, prize: PrizeNumber) {
        // A prize that is none of the draw's was never taken from here.
        if let Some(left) = usize::from(prize).checked_sub(1).and_then(|at| self.left.get_mut(at)) {
            *left += 1;
        }
    }

    pub fn left(&self) -> &[u32] {
        &self.left
    }
}
