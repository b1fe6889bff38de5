//! Verification of a draw's proof, play by play: whether the outcomes follow from the commitment. Used by the server's
//! audit and by `tidegate verify`.

use crate::dealer::{Dealer, Dealt, Hash, NO_PLAYS, link};
use crate::draw::Strategy;
use crate::{Draw, Slot};

/// The reason why a play contradicts the draw's commitment.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Wrong {
    #[error("play {number} stands in place {place} of the history")]
    Misplaced { number: u64, place: u64 },
    #[error("play {number}: there is no seat {seat}")]
    NoSuchSeat { number: u64, seat: Slot },
    #[error("play {number}: seat {seat} was played before")]
    SeatTwice { number: u64, seat: Slot },
    #[error("play {number} (seat {seat}): {told}, but the seed gives {due}")]
    Outcome { number: u64, seat: Slot, told: String, due: String },
    #[error("play {number} (seat {seat}): its hash does not follow from the play and the one before")]
    Broken { number: u64, seat: Slot },
}

/// Replays a draw; it must be given every play in order.
#[derive(Debug)]
pub struct Replay {
    dealer: Dealer,
    strategy: Strategy,
    odds: Vec<u32>,
    left: Vec<u32>,
    played: Vec<bool>,
    plays: u64,
    hash: Hash,
    /// Expected number of wins per prize, given the prizes left at each play; "no win" is the last element.
    expected: Vec<f64>,
}

impl Replay {
    pub fn new(draw: &Draw, seats: u32) -> Self {
        Self {
            dealer: Dealer::new(draw, seats),
            strategy: draw.strategy,
            odds: draw.prizes.iter().map(|prize| prize.odds).collect(),
            left: draw.prizes.iter().map(|prize| prize.stock).collect(),
            played: vec![false; seats as usize],
            plays: 0,
            hash: NO_PLAYS,
            expected: vec![0.0; draw.prizes.len() + 1],
        }
    }

    /// Checks the next play and the history's hash after it.
    pub fn play(&mut self, play: Dealt<'_>, hash: &Hash) -> Result<(), Wrong> {
        let Dealt { number, seat, .. } = play;
        self.plays += 1;
        if number != self.plays {
            return Err(Wrong::Misplaced { number, place: self.plays });
        }
        match seat.checked_sub(1).and_then(|at| self.played.get_mut(at as usize)) {
            None => return Err(Wrong::NoSuchSeat { number, seat }),
            Some(played) if *played => return Err(Wrong::SeatTwice { number, seat }),
            Some(played) => *played = true,
        }
        self.expect();
        let due = self.dealer.outcome(seat, play.client_seed, &self.left);
        if due != play.prize {
            let say =
                |prize: Option<u8>| prize.map_or("no win".to_owned(), |number| format!("prize {number}"));
            return Err(Wrong::Outcome { number, seat, told: say(play.prize), due: say(due) });
        }
        if let Some(prize) = due {
            self.left[usize::from(prize) - 1] -= 1;
        }
        self.hash = link(&self.hash, play);
        if self.hash == *hash { Ok(()) } else { Err(Wrong::Broken { number, seat }) }
    }

    /// Adds each outcome's probability at this play.
    fn expect(&mut self) {
        if self.strategy == Strategy::Deck {
            // No probabilities: a complete deck gives exactly its cards.
            return;
        }
        let available = |at: usize| self.left[at] > 0;
        let in_play: u32 = match self.strategy {
            Strategy::Whole => {
                let gone: u32 = self
                    .odds
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| !available(*at))
                    .map(|(_, odds)| odds)
                    .sum();
                crate::draw::ODDS_TOTAL - gone
            }
            Strategy::Single | Strategy::Deck => crate::draw::ODDS_TOTAL,
        };
        let mut wins = 0.0;
        for (at, odds) in self.odds.iter().enumerate().filter(|(at, _)| available(*at)) {
            let chance = f64::from(*odds) / f64::from(in_play.max(1));
            self.expected[at] += chance;
            wins += chance;
        }
        if let Some(no_win) = self.expected.last_mut() {
            *no_win += 1.0 - wins;
        }
    }

    pub fn plays(&self) -> u64 {
        self.plays
    }

    /// The history's hash after the plays so far.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Units left of each prize.
    pub fn left(&self) -> &[u32] {
        &self.left
    }

    /// Expected number of wins per prize, "no win" last; all zero for a deck, which has no probabilities.
    pub fn expected(&self) -> &[f64] {
        &self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Grant, Prize, PrizeKind};

    fn draw(strategy: Strategy) -> Draw {
        let prize = |odds, stock| Prize {
            name: "A prize".into(),
            kind: PrizeKind::Text,
            odds: if strategy == Strategy::Deck { 0 } else { odds },
            stock,
            grant: Grant::Instant,
            content: String::new(),
        };
        let prizes = vec![prize(100_000_000, 4), prize(300_000_000, 20)];
        Draw { name: "A draw".into(), strategy, prizes, seed: [3; 32] }
    }

    type Listed = (u64, Slot, Option<u8>, String, Hash);

    /// A history as a correct gate deals it.
    fn history(draw: &Draw, seats: u32) -> Vec<Listed> {
        let dealer = Dealer::new(draw, seats);
        let mut left: Vec<u32> = draw.prizes.iter().map(|prize| prize.stock).collect();
        let mut hash = NO_PLAYS;
        (1..=seats)
            .map(|seat| {
                let client_seed = format!("player {seat}");
                let prize = dealer.outcome(seat, &client_seed, &left);
                if let Some(prize) = prize {
                    left[usize::from(prize) - 1] -= 1;
                }
                let number = u64::from(seat);
                hash = link(&hash, Dealt { number, seat, prize, client_seed: &client_seed });
                (number, seat, prize, client_seed, hash)
            })
            .collect()
    }

    fn check(draw: &Draw, seats: u32, plays: &[Listed]) -> Result<(), Wrong> {
        let mut replay = Replay::new(draw, seats);
        plays.iter().try_for_each(|(number, seat, prize, client_seed, hash)| {
            replay.play(Dealt { number: *number, seat: *seat, prize: *prize, client_seed }, hash)
        })
    }

    #[test]
    fn a_correct_history_verifies_with_every_strategy() {
        for &strategy in Strategy::ALL {
            let draw = draw(strategy);
            assert_eq!(check(&draw, 100, &history(&draw, 100)), Ok(()), "{strategy:?}");
        }
    }

    #[test]
    fn a_tampered_play_is_named() {
        let draw = draw(Strategy::Whole);
        let honest = history(&draw, 40);
        for at in 0..honest.len() {
            let name = format!("play {}", at + 1);
            let tampered: [fn(&mut Listed); 4] = [
                |play| play.2 = if play.2 == Some(2) { None } else { Some(2) },
                |play| play.3.push('x'),
                |play| play.4[31] ^= 1,
                |play| play.1 = 77,
            ];
            for tamper in tampered {
                let mut plays = honest.clone();
                tamper(&mut plays[at]);
                let wrong = check(&draw, 40, &plays).unwrap_err().to_string();
                assert!(wrong.starts_with(&name), "{wrong}");
            }
            let mut plays = honest.clone();
            plays.remove(at);
            assert_eq!(check(&draw, 40, &plays).is_err(), at + 1 < honest.len(), "a play was removed");
        }
    }

    #[test]
    fn a_seat_is_played_once() {
        let draw = draw(Strategy::Single);
        let mut plays = history(&draw, 9);
        plays[4].1 = 2;
        assert_eq!(check(&draw, 9, &plays), Err(Wrong::SeatTwice { number: 5, seat: 2 }));
    }
}
