//! A draw: prizes behind numbered seats, and the rules for giving them.
//!
//! `dealer` determines the prizes; a prize's delivery has its state.

use serde::{Deserialize, Serialize};

use crate::WaitsFor;
use crate::words::words;

/// Odds are in parts per billion; the remainder is "no win".
pub const ODDS_TOTAL: u32 = 1_000_000_000;

words! {
    /// The method that determines a seat's prize.
    Strategy { Single "single" Whole "whole" Deck "deck" }
}

words! {
    /// The kind of a prize, which determines its delivery.
    PrizeKind { Text "text" Code "code" Coupon "coupon" Goods "goods" }
}

words! {
    /// The time at which a prize is given.
    Grant { Instant "instant" AtClose "at_close" Manual "manual" }
}

/// A prize's number in its draw, counted from 1.
pub type PrizeNumber = u8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prize {
    pub name: String,
    pub kind: PrizeKind,
    /// In parts per billion; 0 in a deck, where the odds are stock over seats.
    pub odds: u32,
    pub stock: u32,
    pub grant: Grant,
    /// The text for the winner, or the merchant's name of the coupon.
    pub content: String,
}

impl Prize {
    /// The condition that a winner's delivery waits for first.
    pub fn waits_for(&self, closed: bool) -> Option<WaitsFor> {
        match (self.grant, self.kind) {
            (Grant::AtClose, _) if !closed => Some(WaitsFor::Close),
            (Grant::Manual, _) => Some(WaitsFor::Operator),
            (_, PrizeKind::Goods) => Some(WaitsFor::Address),
            (Grant::Instant | Grant::AtClose, _) => None,
        }
    }
}

/// The fields of a campaign that only draws have.
#[derive(Clone, PartialEq, Eq)]
pub struct Draw {
    pub name: String,
    pub strategy: Strategy,
    /// In the order of their numbers.
    pub prizes: Vec<Prize>,
    /// Secret until the draw is closed.
    pub seed: [u8; 32],
}

impl Draw {
    pub fn prize(&self, number: PrizeNumber) -> Option<&Prize> {
        self.prizes.get(usize::from(number).checked_sub(1)?)
    }
}

/// Omits the seed, which must not be logged.
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
