//! A draw's prizes in the gate: the units left of each, and their dealer.
//!
//! Invariant: a prize is taken in the same decision as its seat, and returned with it.

use std::sync::Arc;

use crate::dealer::Dealer;
use crate::draw::PrizeNumber;
use crate::{Draw, Slot};

/// The state that a pool's prizes are rebuilt from.
#[derive(Clone, Debug)]
pub struct PrizeSeed {
    pub draw: Arc<Draw>,
    pub seats: u32,
    /// Number of winners per prize, from the ledger.
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

    /// Determines the seat's prize and takes it.
    pub fn take(&mut self, seat: Slot, client_seed: &str) -> Option<PrizeNumber> {
        let prize = self.dealer.outcome(seat, client_seed, &self.left)?;
        let left = &mut self.left[usize::from(prize) - 1];
        assert!(*left > 0, "prize {prize} is gone");
        *left -= 1;
        Some(prize)
    }

    pub fn give_back(&mut self, prize: PrizeNumber) {
        // A number that is not one of the draw's prizes was never taken here.
        if let Some(left) = usize::from(prize).checked_sub(1).and_then(|at| self.left.get_mut(at)) {
            *left += 1;
        }
    }

    pub fn left(&self) -> &[u32] {
        &self.left
    }
}
