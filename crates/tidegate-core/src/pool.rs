//! A pool: a stock of numbered slots, and the number of slots that each user holds.
//!
//! The embedded gate is this struct behind a lock; every other gate follows the same rules. Invariants: a slot is
//! either free or taken; a user's count is the number of units taken and not returned; the last unit can be sold; a
//! returned slot is sold again; a log entry applied twice counts once.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::pass::Passes;
use crate::{
    Claim, ClaimRequest, Moment, Pass, PassRules, PrizeNumber, PrizeSeed, PrizeStock, Rejection, Shown, Slot,
    Slots, StockChange, StockEntry, UserId, Wanted,
};

/// Whether the pool takes claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    Open,
    Paused,
    Closed,
}

/// The state that a pool is rebuilt from: one consistent snapshot of the ledger.
#[derive(Clone, Debug)]
pub struct Seed {
    pub epoch: u32,
    pub gate_state: GateState,
    /// The highest slot that exists.
    pub top: Slot,
    /// Slots that are not for sale: held by orders, or withdrawn. Ascending.
    pub taken: Vec<Slot>,
    pub users: Vec<(UserId, u32)>,
    /// The last entry of the stock log that the snapshot includes.
    pub applied: u64,
    /// Number of shards, in a gate that splits the pool.
    pub shards: u32,
    /// A draw's prizes.
    pub prizes: Option<PrizeSeed>,
}

/// The outcome of applying one log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    Applied,
    /// The entry was applied before; nothing changed.
    Already,
    /// Earlier entries are missing; nothing changed.
    Gap,
}

/// Slots taken out of sale whose withdrawal is not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// Tells the withdrawals of one gate apart.
    pub number: u64,
    /// The epoch of the withdrawal; a later one does not know it.
    pub epoch: u32,
    pub top: Slot,
    pub slots: Slots,
    pub units: u32,
}

#[derive(Clone, Debug)]
pub struct Pool {
    epoch: u32,
    version: u64,
    gate_state: GateState,
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
        let Seed { epoch, gate_state, top, taken, users, applied, shards: _, prizes } = seed;
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
            gate_state,
            top,
            next,
            returned,
            users,
            passes: Passes::default(),
            prizes,
            applied,
        }
    }

    /// Decides a claim: its slots and, for a play, the prize of its seat. A rejection changes nothing.
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

    /// Takes `quantity` slots for `user`, all or none, and spends the pass that was presented. A rejection changes
    /// nothing.
    pub fn claim(
        &mut self,
        user: UserId,
        quantity: u32,
        limit: u32,
        shown: Shown,
    ) -> Result<Slots, Rejection> {
        assert!(quantity > 0, "a claim is for at least one unit");
        match self.gate_state {
            GateState::Open => {}
            GateState::Paused => return Err(Rejection::Paused),
            GateState::Closed => return Err(Rejection::Ended),
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

    /// Issues a pass, or returns the user's outstanding one.
    pub fn issue_pass(
        &mut self,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<Pass, Rejection> {
        if self.gate_state == GateState::Closed {
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

    /// Numbers of outstanding and of spent passes.
    pub fn passes(&self) -> (usize, u64) {
        (self.passes.outstanding(), self.passes.spent())
    }

    /// Reverts a claim that was not recorded: its slots and its prize are free again.
    pub fn undo(&mut self, claim: &Claim) {
        self.give_back(claim.user, &claim.slots, claim.prize());
        self.version += 1;
    }

    /// Applies one entry of the stock log.
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
                // A later withdrawal that is not recorded yet may have lowered the top further.
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

    /// Takes up to `units` free slots out of sale, those never sold first. They stay out unless `put_back` reverts
    /// it; the log confirms a recorded withdrawal.
    pub fn withdraw(&mut self, units: u32) -> Withdrawal {
        let fresh = units.min(self.top + 1 - self.next);
        self.top -= fresh;
        let slots: Slots = self.returned.iter().rev().take((units - fresh) as usize).copied().collect();
        for slot in slots.iter() {
            self.returned.remove(&slot);
        }
        self.version += 1;
        Withdrawal {
            number: self.version,
            epoch: self.epoch,
            top: self.top,
            units: fresh + slots.units(),
            slots,
        }
    }

    /// Reverts a withdrawal that was not recorded.
    pub fn put_back(&mut self, withdrawal: Withdrawal) {
        // Not below its value before the withdrawal; a restock may have raised it meanwhile.
        self.top = self.top.max(withdrawal.top + withdrawal.units - withdrawal.slots.units());
        self.returned.extend(withdrawal.slots.iter());
        self.version += 1;
    }

    pub fn set_gate_state(&mut self, gate_state: GateState) {
        self.gate_state = gate_state;
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

    /// Units left of each of a draw's prizes.
    pub fn prizes_left(&self) -> &[u32] {
        self.prizes.as_ref().map_or(&[], PrizeStock::left)
    }

    pub fn gate_state(&self) -> GateState {
        self.gate_state
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
mod tests;
