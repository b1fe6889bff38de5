//! The waiting room: the order of admission. Users who join before the start are shuffled at the start; later ones
//! follow in order of arrival.
//!
//! Invariants: a user has one place; the order of the early users depends only on their ids and on a key that is
//! unknown before the start; users who left are skipped, and admitted users have no place any more.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::{Moment, UserId};

/// A user's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Before the start: the order is not drawn yet.
    BeforeStart,
    /// Number of users ahead.
    Waiting {
        ahead: usize,
    },
    Admitted,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    last_seen: Moment,
    /// Its number in the order of admission; `None` before the start.
    number: Option<u64>,
    admitted: bool,
}

#[derive(Clone, Debug, Default)]
pub struct WaitingRoom {
    places: HashMap<UserId, Place>,
    early: Vec<UserId>,
    queue: VecDeque<UserId>,
    /// The number of the next place to admit.
    front: u64,
    started: bool,
    /// Unused admissions, in thousandths.
    credit: u64,
    credited_at: Option<Moment>,
}

impl WaitingRoom {
    /// Takes a place, or returns the user's existing one.
    pub fn join(&mut self, user: UserId, now: Moment) {
        if let Some(place) = self.places.get_mut(&user) {
            place.last_seen = now;
            return;
        }
        let number = self.started.then_some(self.front + self.queue.len() as u64);
        self.places.insert(user, Place { last_seen: now, number, admitted: false });
        if self.started { self.queue.push_back(user) } else { self.early.push(user) }
    }

    /// Orders the early users, ascending by `rank`. Called once.
    pub fn start(&mut self, rank: impl Fn(UserId) -> [u8; 32]) {
        if self.started {
            return;
        }
        self.started = true;
        let mut early: Vec<_> = self.early.drain(..).map(|user| (rank(user), user)).collect();
        early.sort_unstable();
        for (number, (_, user)) in early.into_iter().enumerate() {
            if let Some(place) = self.places.get_mut(&user) {
                place.number = Some(self.front + number as u64);
            }
            self.queue.push_back(user);
        }
    }

    /// Notes that the user is still waiting.
    pub fn seen(&mut self, user: UserId, now: Moment) -> Option<Standing> {
        let front = self.front;
        let place = self.places.get_mut(&user)?;
        place.last_seen = now;
        Some(match (place.admitted, place.number) {
            (true, _) => Standing::Admitted,
            (false, None) => Standing::BeforeStart,
            (false, Some(number)) => Standing::Waiting {
                ahead: usize::try_from(number.saturating_sub(front)).unwrap_or(usize::MAX),
            },
        })
    }

    /// Number of users to admit now at this rate: a token bucket with a capacity of one second.
    pub fn due(&mut self, per_s: u32, now: Moment) -> u32 {
        let since =
            self.credited_at.replace(now).map_or(0, |last| now.millis().saturating_sub(last.millis()));
        let earned = u64::try_from(since).unwrap_or(0) * u64::from(per_s);
        self.credit = (self.credit + earned).min(u64::from(per_s) * 1000);
        u32::try_from(self.credit / 1000).unwrap_or(u32::MAX)
    }

    /// The next user to admit, without removing them. Users not seen since `gone_before` lose their place and are added
    /// to `left`.
    pub fn next(&mut self, gone_before: Moment, left: &mut Vec<UserId>) -> Option<UserId> {
        while let Some(user) = self.queue.front().copied() {
            if self.places.get(&user).is_some_and(|place| place.last_seen >= gone_before) {
                return Some(user);
            }
            self.queue.pop_front();
            self.front += 1;
            self.places.remove(&user);
            left.push(user);
        }
        None
    }

    /// Whether the user is at the front of the queue.
    pub fn is_next(&self, user: UserId) -> bool {
        self.queue.front() == Some(&user)
    }

    /// Admits the user at the front of the queue.
    pub fn admit(&mut self) {
        if let Some(user) = self.queue.pop_front() {
            self.front += 1;
            self.credit = self.credit.saturating_sub(1000);
            if let Some(place) = self.places.get_mut(&user) {
                place.admitted = true;
            }
        }
    }

    /// Restores a user who was admitted before a restart.
    pub fn readmit(&mut self, user: UserId, now: Moment) {
        self.places.insert(user, Place { last_seen: now, number: None, admitted: true });
    }

    pub fn leave(&mut self, user: UserId) {
        if self.places.get(&user).is_some_and(|place| place.admitted) {
            self.places.remove(&user);
        }
    }

    /// Number of waiting users.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.early.len()
    }

    pub fn has_started(&self) -> bool {
        self.started
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn user(number: u64) -> UserId {
        UserId::from_raw(number)
    }

    fn at(millis: i64) -> Moment {
        Moment::from_millis(millis)
    }

    /// Ranks by the number's complement: the last to join is admitted first.
    fn backwards(user: UserId) -> [u8; 32] {
        let mut rank = [0; 32];
        rank[..8].copy_from_slice(&(!user.raw()).to_be_bytes());
        rank
    }

    #[test]
    fn early_users_are_shuffled_and_later_users_queue_behind_them() {
        let mut room = WaitingRoom::default();
        for number in 1..=3 {
            room.join(user(number), at(0));
        }
        assert_eq!(room.seen(user(1), at(0)), Some(Standing::BeforeStart));
        room.start(backwards);
        room.join(user(9), at(1));
        room.join(user(8), at(1));
        let ahead = |room: &mut WaitingRoom, number| room.seen(user(number), at(1));
        for (number, expected) in [(3, 0), (2, 1), (1, 2), (9, 3), (8, 4)] {
            assert_eq!(ahead(&mut room, number), Some(Standing::Waiting { ahead: expected }));
        }
        assert_eq!(room.seen(user(7), at(1)), None);
    }

    #[test]
    fn a_second_browser_finds_the_same_place() {
        let mut room = WaitingRoom::default();
        room.start(backwards);
        room.join(user(1), at(0));
        room.join(user(2), at(0));
        room.join(user(1), at(5));
        assert_eq!((room.waiting(), room.seen(user(1), at(5))), (2, Some(Standing::Waiting { ahead: 0 })));
    }

    #[test]
    fn absent_users_are_skipped_and_the_admission_rate_holds() {
        let mut room = WaitingRoom::default();
        room.start(backwards);
        for number in 1..=5 {
            room.join(user(number), at(0));
        }
        assert_eq!(room.due(10, at(0)), 0);
        assert_eq!(room.due(10, at(250)), 2);
        for number in [1, 3, 4, 5] {
            room.seen(user(number), at(200));
        }
        let mut left = Vec::new();
        assert_eq!(room.next(at(100), &mut left), Some(user(1)));
        room.admit();
        assert_eq!(room.next(at(100), &mut left), Some(user(3)), "user 2 has left");
        room.admit();
        assert_eq!((left, room.due(10, at(250))), (vec![user(2)], 0));
        assert_eq!(room.seen(user(4), at(250)), Some(Standing::Waiting { ahead: 0 }));
        assert_eq!(room.seen(user(1), at(250)), Some(Standing::Admitted));
        assert_eq!(room.due(10, at(9_000)), 10, "unused admissions accumulate for one second at most");
    }

    proptest! {
        #[test]
        fn every_user_is_admitted_once_in_the_announced_order(
            early in prop::collection::vec(0..50_u64, 0..40), late in prop::collection::vec(0..80_u64, 0..40),
        ) {
            let mut room = WaitingRoom::default();
            for number in &early {
                room.join(user(*number), at(0));
            }
            room.start(backwards);
            for number in &late {
                room.join(user(*number), at(1));
            }
            let everybody: std::collections::BTreeSet<u64> = early.iter().chain(&late).copied().collect();
            let mut told: Vec<(usize, u64)> = everybody
                .iter()
                .filter_map(|number| match room.seen(user(*number), at(1)) {
                    Some(Standing::Waiting { ahead }) => Some((ahead, *number)),
                    _ => None,
                })
                .collect();
            told.sort_unstable();
            prop_assert_eq!(told.len(), everybody.len());
            let (mut admitted, mut left) = (Vec::new(), Vec::new());
            while let Some(next) = room.next(at(0), &mut left) {
                admitted.push(next.raw());
                room.admit();
            }
            prop_assert!(left.is_empty());
            prop_assert_eq!(admitted, told.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
        }
    }
}
