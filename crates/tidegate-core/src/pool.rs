//! A pool: a counted stock whose units are numbered slots, and who holds how many of them.
//!
//! The memory gate is this struct behind a lock; every other gate follows the same rules. What always holds:
//! a slot is free or taken, never both; a user's count is the number of units taken and not given back; the
//! last unit is sold; a returned slot is sold again; a log entry applied twice counts once.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::pass::Passes;
use crate::{
    Claim, ClaimRequest, Moment, Pass, PassRules, PrizeNumber, PrizeSeed, PrizeStock, Rejection, Shown, Slot,
    Slots, StockChange, StockEntry, UserId, Wanted,
};

/// Whether claims are taken at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Open,
    Paused,
    Closed,
}

/// What a pool is rebuilt from: one consistent look at the ledger.
#[derive(Clone, Debug)]
pub struct Seed {
    pub epoch: u32,
    pub door: Door,
    /// The highest slot that exists.
    pub top: Slot,
    /// Slots that are not for sale: held by orders, or withdrawn. Ascending.
    pub taken: Vec<Slot>,
    pub users: Vec<(UserId, u32)>,
    /// The last entry of the stock log that the look includes.
    pub applied: u64,
    /// Over how many shards a gate that has any splits the pool.
    pub shards: u32,
    /// A draw's prizes.
    pub prizes: Option<PrizeSeed>,
}

/// What following one log entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    Applied,
    /// It was taken in before; nothing changed.
    Already,
    /// Entries before it are missing; nothing changed.
    Gap,
}

/// Slots taken out of sale but not yet recorded as withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The epoch it was taken in: in a later one it never happened.
    pub epoch: u32,
    pub top: Slot,
    pub slots: Slots,
    pub units: u32,
}

#[derive(Clone, Debug)]
pub struct Pool {
    epoch: u32,
    version: u64,
    door: Door,
    top: Slot,
    /// The lowest slot that was never taken.
    next: Slot,
    /// Free slots below `next`.
    returned: BTreeSet<Slot>,
    users: HashMap<UserId, u32>,
    passes: Passes,
    prizes: Option<PrizeStock>,
    applied: u64,
}

impl Pool {
    pub fn from_seed(seed: Seed) -> Self {
        let Seed { epoch, door, top, taken, users, applied, shards: _, prizes } = seed;
        assert!(taken.is_sorted_by(|a, b| a < b), "taken slots come once each, in order");
        let next = taken.last().map_or(1, |last| last + 1);
        assert!(next <= top + 1, "slot {} is taken but only {top} exist", next - 1);
        let mut returned = BTreeSet::new();
        let mut expected = 1;
        for slot in taken {
            returned.extend(expected..slot);
            expected = slot + 1;
        }
        let users = users.into_iter().collect();
        let prizes = prizes.map(PrizeStock::from_seed);
        Self {
            epoch,
            version: 0,
            door,
            top,
            next,
            returned,
            users,
            passes: Passes::default(),
            prizes,
            applied,
        }
    }

    /// Decides a claim: the slots, and for a play what its seat wins. A rejection changes nothing.
    pub fn decide(&mut self, request: ClaimRequest) -> Result<Claim, Rejection> {
        let slots = self.claim(request.user, request.quantity, request.limit, request.shown)?;
        let prize = match (&request.wanted, &mut self.prizes) {
            (Wanted::Play { client_seed }, Some(prizes)) => {
                slots.iter().next().and_then(|seat| prizes.take(seat, client_seed))
            }
            _ => None,
        };
        Ok(request.granted(slots, prize, self.epoch, self.version))
    }

    /// Takes `quantity` slots for `user`, all or none, and spends the pass that was shown. A rejection changes nothing.
    pub fn claim(
        &mut self,
        user: UserId,
        quantity: u32,
        limit: u32,
        shown: Shown,
    ) -> Result<Slots, Rejection> {
        assert!(quantity > 0, "a claim is for at least one unit");
        match self.door {
            Door::Open => {}
            Door::Paused => return Err(Rejection::Paused),
            Door::Closed => return Err(Rejection::Ended),
        }
        if self.free() == 0 {
            return Err(Rejection::SoldOut);
        }
        self.passes.check(user, shown)?;
        let units = self.users.get(&user).copied().unwrap_or(0);
        if units.saturating_add(quantity) > limit {
            return Err(Rejection::LimitReached);
        }
        if self.free() < quantity {
            return Err(Rejection::SoldOut);
        }
        let slots = (0..quantity).map(|_| self.take_lowest()).collect();
        self.users.insert(user, units + quantity);
        self.passes.spend(user, shown);
        self.version += 1;
        Ok(slots)
    }

    /// Issues a pass, or gives the one the user has.
    pub fn issue_pass(
        &mut self,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<Pass, Rejection> {
        if self.door == Door::Closed {
            return Err(Rejection::Ended);
        }
        if self.free() == 0 {
            return Err(Rejection::SoldOut);
        }
        if self.users.get(&user).is_some_and(|units| *units >= rules.limit) {
            return Err(Rejection::LimitReached);
        }
        self.passes.issue(user, rules, now, expires_at)
    }

    /// Passes that are out, and passes that were spent.
    pub fn passes(&self) -> (usize, u64) {
        (self.passes.outstanding(), self.passes.spent())
    }

    /// Gives back what a claim took and nothing has recorded: the claim never happened.
    pub fn undo(&mut self, claim: &Claim) {
        self.give_back(claim.user, &claim.slots, claim.prize());
        self.version += 1;
    }

    /// Takes in one entry of the stock log.
    pub fn follow(&mut self, entry: &StockEntry) -> Followed {
        if entry.seq <= self.applied {
            return Followed::Already;
        }
        if entry.seq > self.applied + 1 {
            return Followed::Gap;
        }
        match &entry.change {
            StockChange::Restock { top } => self.top = (*top).max(self.top),
            StockChange::Return { user, slots, prize } => self.give_back(*user, slots, *prize),
            StockChange::Withdraw { top, slots } => {
                assert!(self.next <= top + 1, "only slots that were never taken are cut off the top");
                // More may have been taken out since, by somebody who has not recorded it yet.
                self.top = self.top.min(*top);
                for slot in slots.iter() {
                    self.returned.remove(&slot);
                }
            }
        }
        self.applied = entry.seq;
        self.version += 1;
        Followed::Applied
    }

    /// Takes up to `units` free slots out of sale, those never sold first. They stay out until the ledger has
    /// recorded it and the log says so, or `put_back` undoes it.
    pub fn withdraw(&mut self, units: u32) -> Withdrawal {
        let fresh = units.min(self.top + 1 - self.next);
        self.top -= fresh;
        let slots: Slots = self.returned.iter().rev().take((units - fresh) as usize).copied().collect();
        for slot in slots.iter() {
            self.returned.remove(&slot);
        }
        self.version += 1;
        Withdrawal { epoch: self.epoch, top: self.top, units: fresh + slots.units(), slots }
    }

    /// Undoes a withdrawal that was not recorded.
    pub fn put_back(&mut self, withdrawal: Withdrawal) {
        // At least what it was, whatever was added meanwhile.
        self.top = self.top.max(withdrawal.top + withdrawal.units - withdrawal.slots.units());
        self.returned.extend(withdrawal.slots.iter());
        self.version += 1;
    }

    pub fn set_door(&mut self, door: Door) {
        self.door = door;
        self.version += 1;
    }

    /// Units that can be claimed now.
    pub fn free(&self) -> u32 {
        // `returned` holds distinct slots below `next`, so it cannot outgrow a u32.
        self.top + 1 - self.next + u32::try_from(self.returned.len()).unwrap_or(u32::MAX)
    }

    /// Units `user` holds; `None` if the user never claimed here.
    pub fn units_of(&self, user: UserId) -> Option<u32> {
        self.users.get(&user).copied()
    }

    /// What is left of each of a draw's prizes.
    pub fn prizes_left(&self) -> &[u32] {
        self.prizes.as_ref().map_or(&[], PrizeStock::left)
    }

    pub fn door(&self) -> Door {
        self.door
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn applied(&self) -> u64 {
        self.applied
    }

    fn take_lowest(&mut self) -> Slot {
        if let Some(slot) = self.returned.pop_first() {
            return slot;
        }
        let slot = self.next;
        assert!(slot <= self.top, "slot {slot} does not exist");
        self.next += 1;
        slot
    }

    fn give_back(&mut self, user: UserId, slots: &Slots, prize: Option<PrizeNumber>) {
        for slot in slots.iter() {
            assert!((1..self.next).contains(&slot), "slot {slot} was never taken");
            assert!(self.returned.insert(slot), "slot {slot} is free already");
        }
        let units = self.users.entry(user).or_insert(0);
        assert!(*units >= slots.units(), "a user cannot return more than they hold");
        *units -= slots.units();
        self.passes.units_returned(slots.units());
        if let (Some(prizes), Some(prize)) = (&mut self.prizes, prize) {
            prizes.give_back(prize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn pool(stock: u32) -> Pool {
        Pool::from_seed(Seed {
            epoch: 1,
            door: Door::Open,
            top: stock,
            taken: vec![],
            users: vec![],
            applied: 0,
            shards: 1,
            prizes: None,
        })
    }

    fn request(id: u64, buyer: u64, wanted: Wanted) -> ClaimRequest {
        let created_at = Moment::from_millis(0);
        ClaimRequest {
            id: crate::ClaimId::from_raw(id),
            user: user(buyer),
            campaign: crate::CampaignId::from_raw(1),
            quantity: 1,
            limit: 1,
            created_at,
            key: None,
            shown: Shown::NotNeeded,
            wanted,
        }
    }

    fn user(n: u64) -> UserId {
        UserId::from_raw(n)
    }

    #[test]
    fn last_unit_is_sold_and_then_no_more() {
        let mut pool = pool(2);
        assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap().to_string(), "1");
        assert_eq!(pool.claim(user(2), 1, 1, Shown::NotNeeded).unwrap().to_string(), "2");
        assert_eq!(pool.claim(user(3), 1, 1, Shown::NotNeeded), Err(Rejection::SoldOut));
    }

    #[test]
    fn sold_out_is_said_before_limit_reached() {
        let mut pool = pool(1);
        pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap();
        assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::SoldOut));
    }

    #[test]
    fn a_claim_is_all_or_nothing() {
        let mut pool = pool(2);
        assert_eq!(pool.claim(user(1), 3, 5, Shown::NotNeeded), Err(Rejection::SoldOut));
        assert_eq!(pool.claim(user(1), 3, 2, Shown::NotNeeded), Err(Rejection::LimitReached));
        assert_eq!((pool.free(), pool.version()), (2, 0));
    }

    #[test]
    fn a_return_applied_twice_counts_once() {
        let mut pool = pool(1);
        let slots = pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap();
        let entry = StockEntry { seq: 1, change: StockChange::Return { user: user(1), slots, prize: None } };
        assert_eq!(pool.follow(&entry), Followed::Applied);
        assert_eq!(pool.follow(&entry), Followed::Already);
        assert_eq!(pool.free(), 1);
        assert_eq!(pool.units_of(user(1)), Some(0));
    }

    #[test]
    fn a_gap_in_the_log_is_not_jumped() {
        let mut pool = pool(1);
        let entry = StockEntry { seq: 2, change: StockChange::Restock { top: 9 } };
        assert_eq!(pool.follow(&entry), Followed::Gap);
        assert_eq!(pool.free(), 1);
    }

    #[test]
    fn a_withdrawal_takes_free_units_only_and_can_be_undone() {
        let mut pool = pool(3);
        let price = crate::Money { amount: 1, currency: "CNY".parse().unwrap() };
        let order = Wanted::Order { unit_price: price, pay_by: Moment::from_millis(1) };
        let first = pool.decide(request(1, 1, order)).unwrap();
        pool.claim(user(2), 1, 1, Shown::NotNeeded).unwrap();
        pool.undo(&first);
        let withdrawal = pool.withdraw(9);
        assert_eq!((withdrawal.units, withdrawal.top, withdrawal.slots.to_string()), (2, 2, "1".into()));
        assert_eq!(pool.free(), 0);
        pool.put_back(withdrawal);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn a_seat_and_its_prize_are_taken_together_and_come_back_together() {
        let prize = crate::Prize {
            name: "A prize".into(),
            kind: crate::draw::PrizeKind::Text,
            odds: 1_000_000_000,
            stock: 1,
            grant: crate::draw::Grant::Instant,
            content: String::new(),
        };
        let draw = crate::Draw {
            name: "A draw".into(),
            strategy: crate::draw::Strategy::Single,
            prizes: vec![prize],
            seed: [1; 32],
        };
        let mut pool = pool(3);
        pool.prizes = Some(PrizeStock::from_seed(PrizeSeed { draw: draw.into(), seats: 3, taken: vec![0] }));
        let play = |pool: &mut Pool, id| {
            pool.decide(request(id, id, Wanted::Play { client_seed: String::new() })).unwrap()
        };
        let won = play(&mut pool, 1);
        assert_eq!((won.prize(), pool.prizes_left(), pool.free()), (Some(1), &[0][..], 2));
        assert_eq!(play(&mut pool, 2).prize(), None, "it is gone");
        pool.undo(&won);
        assert_eq!((pool.prizes_left(), pool.free()), (&[1][..], 2));
        assert_eq!(play(&mut pool, 3).prize(), Some(1));
    }

    #[test]
    fn a_pass_is_spent_once_and_only_by_its_user() {
        let now = Moment::from_millis(0);
        let until = Moment::from_millis(10);
        let mut pool = pool(5);
        let rules = PassRules { factor: 1, stock: 5, limit: 3 };
        let pass = pool.issue_pass(user(1), rules, now, until).unwrap();
        let shown = Shown::Pass { number: pass.number, now };
        assert_eq!(pool.claim(user(2), 1, 3, shown), Err(Rejection::PassInvalid), "another's");
        let late = Shown::Pass { number: pass.number, now: until };
        assert_eq!(pool.claim(user(1), 1, 3, late), Err(Rejection::PassInvalid), "expired");
        assert_eq!(
            pool.claim(user(1), 4, 3, shown),
            Err(Rejection::LimitReached),
            "a rejection spends nothing"
        );
        assert!(pool.claim(user(1), 1, 3, shown).is_ok());
        assert_eq!(pool.claim(user(1), 1, 3, shown), Err(Rejection::PassInvalid), "spent");
    }

    #[test]
    fn one_user_cannot_drain_the_quota_and_expired_passes_return_to_it() {
        let now = Moment::from_millis(0);
        let until = Moment::from_millis(10);
        let mut pool = pool(2);
        let rules = PassRules { factor: 1, stock: 2, limit: 1 };
        let first = pool.issue_pass(user(1), rules, now, until).unwrap();
        assert_eq!(pool.issue_pass(user(1), rules, now, until), Ok(first));
        pool.issue_pass(user(2), rules, now, until).unwrap();
        assert_eq!(pool.issue_pass(user(3), rules, now, until), Err(Rejection::Busy));
        assert!(pool.issue_pass(user(3), rules, until, Moment::from_millis(20)).is_ok());
    }

    #[test]
    fn a_paused_or_closed_pool_sells_nothing() {
        let mut pool = pool(1);
        pool.set_door(Door::Paused);
        assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::Paused));
        pool.set_door(Door::Closed);
        assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::Ended));
    }
}
