//! Property tests of the pool against an independent model: after any sequence of steps, every slot is free or held
//! once.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_core::pool::{Followed, GateState};
use tidegate_core::{Pool, Rejection, Seed, Shown, Slot, Slots, StockChange, StockEntry, UserId};

const LIMIT: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Claim { user: u64, quantity: u32 },
    Return { which: usize, again: bool },
    Restock { units: u32 },
    Withdraw { units: u32, fails: bool },
    Rebuild,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8_u64, 1..4_u32).prop_map(|(user, quantity)| Step::Claim { user, quantity }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, again)| Step::Return { which, again }),
        1 => (1..4_u32).prop_map(|units| Step::Restock { units }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(units, fails)| Step::Withdraw { units, fails }),
        1 => Just(Step::Rebuild),
    ]
}

/// The pool's state as the ledger would record it: holders of slots, withdrawn slots, the end of the log.
struct Model {
    pool: Pool,
    top: Slot,
    held: BTreeMap<Slot, Option<UserId>>,
    claims: Vec<(UserId, Slots)>,
    seq: u64,
}

impl Model {
    fn new(stock: u32) -> Self {
        let seed = Seed {
            epoch: 1,
            gate_state: GateState::Open,
            top: stock,
            taken: vec![],
            users: vec![],
            applied: 0,
            shards: 1,
            prizes: None,
        };
        Self { pool: Pool::from_seed(seed), top: stock, held: BTreeMap::new(), claims: vec![], seq: 0 }
    }

    fn free(&self) -> u32 {
        self.top - u32::try_from(self.held.len()).unwrap()
    }

    fn units_of(&self, user: UserId) -> u32 {
        u32::try_from(self.held.values().filter(|holder| **holder == Some(user)).count()).unwrap()
    }

    fn log(&mut self, change: StockChange) -> StockEntry {
        self.seq += 1;
        let entry = StockEntry { seq: self.seq, change };
        assert_eq!(self.pool.follow(&entry), Followed::Applied);
        entry
    }

    fn claim(&mut self, user: UserId, quantity: u32) {
        let expected = if self.free() == 0 {
            Some(Rejection::SoldOut)
        } else if self.units_of(user) + quantity > LIMIT {
            Some(Rejection::LimitReached)
        } else if self.free() < quantity {
            Some(Rejection::SoldOut)
        } else {
            None
        };
        match self.pool.claim(user, quantity, LIMIT, Shown::NotNeeded) {
            Ok(slots) => {
                assert_eq!(expected, None, "a claim that had to be refused was granted");
                assert_eq!(slots.units(), quantity);
                for slot in slots.iter() {
                    assert!((1..=self.top).contains(&slot), "slot {slot} does not exist");
                    assert!(self.held.insert(slot, Some(user)).is_none(), "slot {slot} was sold twice");
                }
                self.claims.push((user, slots));
            }
            Err(rejection) => assert_eq!(Some(rejection), expected),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Claim { user, quantity } => self.claim(UserId::from_raw(user), quantity),
            Step::Return { which, again } if !self.claims.is_empty() => {
                let (user, slots) = self.claims.swap_remove(which % self.claims.len());
                for slot in slots.iter() {
                    self.held.remove(&slot);
                }
                let entry = self.log(StockChange::Return { user, slots, prize: None });
                if again {
                    assert_eq!(self.pool.follow(&entry), Followed::Already);
                }
            }
            Step::Return { .. } => {}
            Step::Restock { units } => {
                self.top += units;
                self.log(StockChange::Restock { top: self.top });
            }
            Step::Withdraw { units, fails } => {
                let withdrawal = self.pool.withdraw(units);
                assert_eq!(withdrawal.units, units.min(self.free()), "only free units are withdrawn");
                if fails {
                    self.pool.put_back(withdrawal);
                } else {
                    self.top = withdrawal.top;
                    self.held.extend(withdrawal.slots.iter().map(|slot| (slot, None)));
                    self.log(StockChange::Withdraw { top: withdrawal.top, slots: withdrawal.slots });
                }
            }
            Step::Rebuild => self.rebuild(),
        }
        assert_eq!(self.pool.free(), self.free(), "free units are exactly those without a holder");
    }

    fn rebuild(&mut self) {
        let mut users: BTreeMap<UserId, u32> = BTreeMap::new();
        for user in self.held.values().flatten() {
            *users.entry(*user).or_default() += 1;
        }
        self.pool = Pool::from_seed(Seed {
            epoch: self.pool.epoch() + 1,
            gate_state: GateState::Open,
            top: self.top,
            taken: self.held.keys().copied().collect(),
            users: users.into_iter().collect(),
            applied: self.seq,
            shards: 1,
            prizes: None,
        });
    }
}

proptest! {
    #[test]
    fn the_pool_agrees_with_its_model(stock in 0..12_u32, steps in prop::collection::vec(step(), 0..200)) {
        let mut model = Model::new(stock);
        for step in steps {
            model.take(step);
        }
    }

    /// When demand exceeds the stock, exactly the stock is sold.
    #[test]
    fn a_crowd_buys_exactly_the_stock(stock in 1..200_u32, quantities in prop::collection::vec(1..4_u32, 200..300)) {
        let mut model = Model::new(stock);
        for (user, quantity) in quantities.iter().enumerate() {
            model.claim(UserId::from_raw(user as u64), *quantity);
        }
        for user in 1_000..1_003 {
            model.claim(UserId::from_raw(user), 1);
        }
        prop_assert_eq!(model.free(), 0);
    }

    /// Every returned slot is sold again, to another user, with its number.
    #[test]
    fn every_returned_slot_is_sold_again(stock in 1..50_u32, returns in prop::collection::vec(any::<usize>(), 1..50)) {
        let mut model = Model::new(stock);
        for user in 0..u64::from(stock) {
            model.claim(UserId::from_raw(user), 1);
        }
        let mut given_back = std::collections::BTreeSet::new();
        for which in returns.into_iter().take(stock as usize) {
            let (_, slots) = model.claims[which % model.claims.len()].clone();
            given_back.extend(slots.iter());
            model.take(Step::Return { which, again: true });
        }
        let sold_before = model.claims.len();
        for user in 1_000..1_000 + given_back.len() as u64 {
            model.claim(UserId::from_raw(user), 1);
        }
        let sold_again: std::collections::BTreeSet<_> =
            model.claims[sold_before..].iter().flat_map(|(_, slots)| slots.iter()).collect();
        prop_assert_eq!(sold_again, given_back);
    }
}

#[derive(Clone, Debug)]
enum PassStep {
    Issue { user: u64 },
    Order { user: u64, stale: bool },
    Return { which: usize },
    Wait,
}

fn pass_step() -> impl Strategy<Value = PassStep> {
    prop_oneof![
        4 => (0..12_u64).prop_map(|user| PassStep::Issue { user }),
        4 => (0..12_u64, any::<bool>()).prop_map(|(user, stale)| PassStep::Order { user, stale }),
        2 => any::<usize>().prop_map(|which| PassStep::Return { which }),
        1 => Just(PassStep::Wait),
    ]
}

proptest! {
    /// With any interleaving: passes spent ≤ factor × stock + returned, and no pass buys twice.
    #[test]
    fn passes_are_limited_and_buy_once(
        stock in 1..8_u32, factor in 1..4_u32, steps in prop::collection::vec(pass_step(), 0..300),
    ) {
        use std::collections::HashMap;
        use tidegate_core::{Moment, PassRules};
        let mut model = Model::new(stock);
        let rules = PassRules { factor, stock, limit: LIMIT };
        let (mut now, mut returned) = (0_i64, 0_u64);
        let mut current: HashMap<u64, tidegate_core::Pass> = HashMap::new();
        let mut used: Vec<(u64, u64)> = Vec::new();
        for step in steps {
            let at = Moment::from_millis(now);
            match step {
                PassStep::Issue { user } => {
                    let id = UserId::from_raw(user);
                    if let Ok(pass) = model.pool.issue_pass(id, rules, at, Moment::from_millis(now + 5)) {
                        prop_assert!(!used.contains(&(user, pass.number)), "a spent pass was issued again");
                        current.insert(user, pass);
                    }
                }
                PassStep::Order { user, stale } => {
                    let number = if stale {
                        used.iter().rev().find(|(owner, _)| *owner == user).map(|(_, number)| *number)
                    } else {
                        current.get(&user).map(|pass| pass.number)
                    };
                    let Some(number) = number else { continue };
                    let id = UserId::from_raw(user);
                    if let Ok(slots) = model.pool.claim(id, 1, LIMIT, Shown::Pass { number, now: at }) {
                        prop_assert!(!used.contains(&(user, number)), "a pass was used twice");
                        prop_assert!(current[&user].expires_at > at, "an expired pass was used");
                        used.push((user, number));
                        model.held.extend(slots.iter().map(|slot| (slot, Some(id))));
                        model.claims.push((id, slots));
                    }
                }
                PassStep::Return { which } if !model.claims.is_empty() => {
                    returned += 1;
                    model.take(Step::Return { which, again: true });
                }
                PassStep::Return { .. } => {}
                PassStep::Wait => now += 3,
            }
            let (out, spent) = model.pool.passes();
            let quota = u64::from(factor * stock) + returned;
            prop_assert!(spent <= quota && out as u64 + spent <= quota, "{out} unused and {spent} spent of {quota}");
            prop_assert_eq!(spent, used.len() as u64);
        }
    }
}
