//! Fixed-size, 8-way set-associative table of first-time buyers: those who have never claimed anything.
//!
//! A first-time buyer's idempotency key need not be looked up in the ledger. In a rush nearly everybody is one, and
//! that look-up would take most of an order's time. Invariant: a buyer in the table has nothing in the intake and
//! nothing in the ledger. A buyer who is missing from the table is looked up, so evictions cost time, never
//! correctness.

use tidegate_core::UserId;

/// All tables together (one for each buyer lock) hold two million buyers: enough for a crowd of a million, in 16 MiB,
/// of which a small crowd touches little.
const SETS: usize = 1024;
const WAYS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct FirstTimeBuyers {
    /// Allocated with the first buyer. Raw id 0 is never given out and marks a free way.
    sets: Box<[[u64; WAYS]]>,
}

impl FirstTimeBuyers {
    /// A full set evicts its oldest account: a buyer who registered long ago is less likely to order than one who
    /// comes now.
    pub(super) fn insert(&mut self, user: UserId) {
        if self.sets.is_empty() {
            self.sets = vec![[0; WAYS]; SETS].into();
        }
        if let Some(set) = self.set_of(user)
            && !set.contains(&user.raw())
            && let Some(oldest) = set.iter_mut().min()
        {
            *oldest = user.raw();
        }
    }

    /// Takes the buyer out of the table; whether they were in it.
    pub(super) fn remove(&mut self, user: UserId) -> bool {
        let way = self.set_of(user).and_then(|set| set.iter_mut().find(|way| **way == user.raw()));
        way.is_some_and(|way| std::mem::take(way) > 0)
    }

    fn set_of(&mut self, user: UserId) -> Option<&mut [u64; WAYS]> {
        self.sets.get_mut(set_number(user))
    }
}

/// Independent of the buyer's lock, which takes the remainder of the same number.
fn set_number(user: UserId) -> usize {
    user.spread() as usize / super::buyer_locks::LOCKS % SETS
}

#[cfg(test)]
mod tests {
    use super::super::buyer_locks::LOCKS;
    use super::*;

    #[test]
    fn a_buyer_is_taken_out_once_and_the_oldest_makes_room() {
        let (mut buyers, user) = (FirstTimeBuyers::default(), UserId::from_raw);
        assert!(!buyers.remove(user(1)));
        let set = |number: &u64| set_number(user(*number));
        let together: Vec<u64> = (1..).filter(|number| set(number) == set(&1)).take(WAYS + 1).collect();
        for number in together.iter().chain(together.last()) {
            buyers.insert(user(*number));
        }
        assert!(!buyers.remove(user(1)), "evicted, and looked up instead");
        for number in &together[1..] {
            assert!(
                buyers.remove(user(*number)) && !buyers.remove(user(*number)),
                "once, also if inserted twice"
            );
        }
    }

    #[test]
    fn a_crowd_of_a_million_fits() {
        let mut tables: Vec<FirstTimeBuyers> = (0..LOCKS).map(|_| FirstTimeBuyers::default()).collect();
        // As accounts are made: a few in every millisecond.
        let ids = || (0..1_000_000_u64).map(|number| UserId::from_raw(((number / 7) << 20) + number % 7 + 1));
        for user in ids() {
            tables[user.spread() as usize % LOCKS].insert(user);
        }
        let known = ids().filter(|user| tables[user.spread() as usize % LOCKS].remove(*user)).count();
        assert!(known > 950_000, "{known}");
    }
}
