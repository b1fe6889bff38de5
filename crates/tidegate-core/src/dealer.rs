//! The dealer determines which prize a seat wins: a pure function of the draw's seed, the seat, the player's own seed
//! and the prizes left. `docs/fairness.md` specifies it for independent implementations.
//!
//! Invariants: every number below its bound is equally likely; a prize with no unit left is never given; the same
//! arguments always give the same prize.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::draw::{ODDS_TOTAL, PrizeNumber, Strategy};
use crate::{Draw, Slot};

/// A published hash.
pub type Hash = [u8; 32];

#[derive(Clone)]
pub struct Dealer {
    /// Keyed with the seed; cloned for every number.
    mac: Hmac<Sha256>,
    strategy: Strategy,
    odds: Vec<u32>,
    /// The prize behind every seat, 0 for none; empty unless the strategy is a deck.
    deck: Vec<PrizeNumber>,
}

impl std::fmt::Debug for Dealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dealer").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

impl Dealer {
    /// Shuffles the deck, if the strategy is one; slow for millions of prizes.
    pub fn new(draw: &Draw, seats: u32) -> Self {
        // HMAC itself pads a short key with zeros to a whole block.
        let mut key = [0; 64];
        key[..draw.seed.len()].copy_from_slice(&draw.seed);
        let mut dealer = Self {
            mac: Hmac::new(&key.into()),
            strategy: draw.strategy,
            odds: draw.prizes.iter().map(|prize| prize.odds).collect(),
            deck: Vec::new(),
        };
        if draw.strategy == Strategy::Deck {
            dealer.deck =
                dealer.shuffled(&draw.prizes.iter().map(|prize| prize.stock).collect::<Vec<_>>(), seats);
        }
        dealer
    }

    /// The prize behind every seat, 0 for none; empty unless the strategy is a deck.
    pub fn deck(&self) -> &[PrizeNumber] {
        &self.deck
    }

    /// The prize of `seat` for a player with this `client_seed`, with `left` units of each prize.
    pub fn outcome(&self, seat: Slot, client_seed: &str, left: &[u32]) -> Option<PrizeNumber> {
        if self.strategy == Strategy::Deck {
            return self.deck.get(seat as usize - 1).copied().filter(|prize| *prize > 0);
        }
        let in_play = |prize: &(usize, &u32)| self.strategy == Strategy::Single || left[prize.0] > 0;
        let gone: u32 =
            self.odds.iter().enumerate().filter(|prize| !in_play(prize)).map(|(_, odds)| odds).sum();
        let bound = ODDS_TOTAL - gone;
        if bound == 0 {
            return None;
        }
        let mut number = self.number(&format!("play\n{seat}\n{client_seed}"), bound.into());
        for (at, odds) in self.odds.iter().enumerate().filter(in_play) {
            if number < u64::from(*odds) {
                // With `single` an exhausted prize counts as no win; with `whole` it is not in play at all.
                return PrizeNumber::try_from(at + 1).ok().filter(|_| left[at] > 0);
            }
            number -= u64::from(*odds);
        }
        None
    }

    /// A uniformly distributed number below `bound`, by rejection sampling: the first word of the MACs of `label`
    /// with 0, 1, 2, … that is below the greatest multiple of the bound.
    fn number(&self, label: &str, bound: u64) -> u64 {
        let mut round = 0_u32;
        loop {
            let mut mac = self.mac.clone();
            mac.update(label.as_bytes());
            mac.update(format!("\n{round}").as_bytes());
            let bytes = mac.finalize().into_bytes();
            let word = bytes.iter().take(8).fold(0_u128, |word, byte| word << 8 | u128::from(*byte));
            let fair = (1_u128 << 64) / u128::from(bound) * u128::from(bound);
            if word < fair {
                return u64::try_from(word % u128::from(bound)).unwrap_or(0);
            }
            round += 1;
        }
    }

    /// Fisher–Yates: each prize card, in the order of the table, picks one of the remaining seats.
    fn shuffled(&self, stocks: &[u32], seats: u32) -> Vec<PrizeNumber> {
        let mut row: Vec<Slot> = (1..=seats).collect();
        let mut deck = vec![0; seats as usize];
        let mut card = 0_usize;
        for (stock, prize) in stocks.iter().zip(1..) {
            for _ in 0..*stock {
                let rest = (row.len() - card) as u64;
                let pick = usize::try_from(self.number(&format!("card\n{card}"), rest)).unwrap_or(0);
                row.swap(card, card + pick);
                deck[row[card] as usize - 1] = prize;
                card += 1;
            }
        }
        deck
    }
}

/// The text that the commitment covers: everything that outcomes depend on, one fact per line.
pub fn table(draw_id: &str, draw: &Draw, seats: u32) -> String {
    use std::fmt::Write;
    let strategy = draw.strategy.as_str();
    let mut text = format!("tidegate draw 1\ndraw {draw_id}\nstrategy {strategy}\nseats {seats}\n");
    for (prize, number) in draw.prizes.iter().zip(1..) {
        let (kind, odds, stock) = (prize.kind.as_str(), prize.odds, prize.stock);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "prize {number} {kind} {odds} {stock} {}", prize.name);
    }
    text
}

/// Published with the draw: SHA-256 over the seed and the table.
pub fn commitment(seed: &[u8; 32], table: &str) -> Hash {
    Sha256::new().chain_update(seed).chain_update(table).finalize().into()
}

/// One play as the proof lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealt<'a> {
    /// Its number in the draw's history, counted from 1.
    pub number: u64,
    pub seat: Slot,
    pub prize: Option<PrizeNumber>,
    pub client_seed: &'a str,
}

/// The history's hash before the first play.
pub const NO_PLAYS: Hash = [0; 32];

/// The history's hash after this play: SHA-256 over the hash before it and the play as a line of text.
pub fn link(before: &Hash, play: Dealt<'_>) -> Hash {
    let Dealt { number, seat, prize, client_seed } = play;
    let line = format!("{number} {seat} {} {client_seed}\n", prize.unwrap_or(0));
    Sha256::new().chain_update(before).chain_update(line).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Grant, Prize, PrizeKind};

    fn prize(odds: u32, stock: u32) -> Prize {
        Prize {
            name: "A prize".into(),
            kind: PrizeKind::Text,
            odds,
            stock,
            grant: Grant::Instant,
            content: String::new(),
        }
    }

    fn draw(strategy: Strategy, prizes: &[(u32, u32)]) -> Draw {
        let prizes = prizes.iter().map(|(odds, stock)| prize(*odds, *stock)).collect();
        Draw { name: "A draw".into(), strategy, prizes, seed: [7; 32] }
    }

    /// Outcomes of seats 1 to `seats`, counted: no win first.
    fn counted(draw: &Draw, seats: u32, left: &[u32]) -> Vec<u32> {
        let dealer = Dealer::new(draw, seats);
        let mut counts = vec![0; left.len() + 1];
        for seat in 1..=seats {
            counts[dealer.outcome(seat, "", left).map_or(0, usize::from)] += 1;
        }
        counts
    }

    #[test]
    fn an_exhausted_prize_is_no_win_with_single_and_excluded_with_whole() {
        let table = [(500_000_000, 9), (300_000_000, 9)];
        let all = counted(&draw(Strategy::Single, &table), 10_000, &[1, 1]);
        let single = counted(&draw(Strategy::Single, &table), 10_000, &[0, 1]);
        assert_eq!(single, [all[0] + all[1], 0, all[2]], "the odds of the other prizes do not change");
        let whole = counted(&draw(Strategy::Whole, &table), 10_000, &[0, 1]);
        assert_eq!(whole[1], 0);
        // Odds of 300 million out of the remaining 500 million.
        assert!((5_800..6_200).contains(&whole[2]), "{whole:?}");
    }

    #[test]
    fn without_prizes_left_every_play_loses() {
        let draw = draw(Strategy::Whole, &[(400_000_000, 1), (600_000_000, 1)]);
        assert_eq!(counted(&draw, 100, &[0, 0]), [100, 0, 0]);
        assert_eq!(counted(&draw, 100, &[0, 1]), [0, 0, 100]);
    }

    #[test]
    fn a_deck_contains_each_prize_as_often_as_its_stock() {
        let draw = draw(Strategy::Deck, &[(0, 3), (0, 20)]);
        assert_eq!(counted(&draw, 50, &[3, 20]), [27, 3, 20]);
        assert_eq!(
            counted(&draw, 23, &[3, 20]),
            [0, 3, 20],
            "a deck with as many cards as seats has no blanks"
        );
    }

    /// Over many seeds a card lands on every seat equally often: chi-squared with nine degrees of freedom exceeds 40.1
    /// once in a hundred thousand fair shuffles.
    #[test]
    fn a_deck_favours_no_seat() {
        let mut landed = [0_u32; 10];
        for seed in 0..5_000_u32 {
            let mut draw = draw(Strategy::Deck, &[(0, 1)]);
            draw.seed[..4].copy_from_slice(&seed.to_be_bytes());
            let dealer = Dealer::new(&draw, 10);
            let seat = (1..=10).find(|seat| dealer.outcome(*seat, "", &[1]).is_some()).unwrap();
            landed[seat as usize - 1] += 1;
        }
        let chi: f64 = landed.iter().map(|count| (f64::from(*count) - 500.0).powi(2) / 500.0).sum();
        assert!(chi < 40.1, "{landed:?}");
    }

    #[test]
    fn the_outcome_depends_on_the_client_seed_and_is_reproducible() {
        let draw = draw(Strategy::Single, &[(500_000_000, 1)]);
        let dealer = Dealer::new(&draw, 1);
        let outcomes: Vec<_> =
            (0..64).map(|n| dealer.outcome(1, &format!("seed {n}"), &[1]).is_some()).collect();
        assert!(outcomes.contains(&true) && outcomes.contains(&false));
        assert_eq!(dealer.outcome(1, "mine", &[1]), dealer.outcome(1, "mine", &[1]));
    }

    #[test]
    fn the_commitment_depends_on_the_seed_and_on_every_part_of_the_table() {
        let plain = draw(Strategy::Single, &[(5, 6)]);
        let text = table("D", &plain, 10);
        assert_eq!(text, "tidegate draw 1\ndraw D\nstrategy single\nseats 10\nprize 1 text 5 6 A prize\n");
        let other = table("D", &draw(Strategy::Single, &[(5, 7)]), 10);
        assert_ne!(commitment(&plain.seed, &text), commitment(&plain.seed, &other));
        assert_ne!(commitment(&plain.seed, &text), commitment(&[8; 32], &text));
    }
}
