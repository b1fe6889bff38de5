//! A draw: prizes behind numbered seats, and how they are given.
//!
//! What a player wins is decided by `dealer`; what became of the prize is told by its delivery.

use serde::{Deserialize, Serialize};

use crate::WaitsFor;
use crate::words::words;

/// Odds are in parts per billion; what the prizes leave is "no win".
pub const ODDS_TOTAL: u32 = 1_000_000_000;

words! {
    /// How a seat's outcome is found.
    Strategy { Single "single" Whole "whole" Deck "deck" }
}

words! {
    /// What a prize is, and so how it reaches its winner.
    PrizeKind { Text "text" Code "code" Coupon "coupon" Goods "goods" }
}

words! {
    /// When a prize is given.
    Grant { Instant "instant" AtClose "at_close" Manual "manual" }
}

/// A prize's number in its draw, from 1.
pub type PrizeNumber = u8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prize {
    pub name: String,
    pub kind: PrizeKind,
    /// In parts per billion; 0 in a deck, where stock over seats says it all.
    pub odds: u32,
    pub stock: u32,
    pub grant: Grant,
    /// What a winner of a text is shown; what a coupon is called at the merchant's.
    pub content: String,
}

impl Prize {
    /// What a winner's delivery waits for first, in a draw that is closed or not.
    pub fn waits_for(&self, closed: bool) -> Option<WaitsFor> {
        match (self.grant, self.kind) {
            (Grant::AtClose, _) if !closed => Some(WaitsFor::Close),
            (Grant::Manual, _) => Some(WaitsFor::Operator),
            (_, PrizeKind::Goods) => Some(WaitsFor::Address),
            (Grant::Instant | Grant::AtClose, _) => None,
        }
    }
}

/// What a draw is besides a campaign.
#[derive(Clone, PartialEq, Eq)]
pub struct Draw {
    pub name: String,
    pub strategy: Strategy,
    /// In the order of their numbers, which start at 1.
    pub prizes: Vec<Prize>,
    /// Secret until the draw is closed.
    pub seed: [u8; 32],
}

impl Draw {
    pub fn prize(&self, number: PrizeNumber) -> Option<&Prize> {
        self.prizes.get(usize::from(number).checked_sub(1)?)
    }
}

/// The seed must not reach a log.
impl std::fmt::Debug for Draw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, strategy, prizes, seed: _ } = self;
        f.debug_struct("Draw")
            .field("name", name)
            .field("strategy", strategy)
            .field("prizes", prizes)
            .finish_non_exhaustive()
    }
}
