//! Passes: a campaign's one-time permissions to order, limited to a multiple of its stock.
//!
//! Invariants: one outstanding pass per user; `outstanding + spent ≤ factor × stock + returned units`; an expired
//! pass returns to the quota, a spent one does not. So one user cannot exhaust the quota, and a pass pays for one
//! order only.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::{Moment, Rejection, UserId};

/// The sale's terms for issuing passes.
#[derive(Clone, Copy, Debug)]
pub struct PassRules {
    pub factor: u32,
    pub stock: u32,
    pub limit: u32,
}

/// A pass in the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub number: u64,
    pub expires_at: Moment,
}

/// The pass that a claim presents to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The sale needs no pass.
    NotNeeded,
    Pass {
        number: u64,
        now: Moment,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    outstanding: HashMap<UserId, Pass>,
    /// In the order of issue; entries whose pass is spent or replaced are stale.
    issued: VecDeque<(UserId, Pass)>,
    last: u64,
    spent: u64,
    /// Returned units; each allows one more pass.
    returned: u64,
}

impl Passes {
    /// Returns the user's outstanding pass, or a new one while the quota lasts.
    pub(crate) fn issue(
        &mut self,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<Pass, Rejection> {
        self.forget_expired(now);
        if let Some(pass) = self.outstanding.get(&user).filter(|pass| pass.expires_at > now) {
            return Ok(*pass);
        }
        let quota = u64::from(rules.factor) * u64::from(rules.stock) + self.returned;
        if self.outstanding.len() as u64 + self.spent >= quota {
            return Err(Rejection::Busy);
        }
        self.last += 1;
        let pass = Pass { number: self.last, expires_at };
        self.outstanding.insert(user, pass);
        self.issued.push_back((user, pass));
        Ok(pass)
    }

    pub(crate) fn check(&self, user: UserId, shown: Shown) -> Result<(), Rejection> {
        let Shown::Pass { number, now } = shown else { return Ok(()) };
        match self.outstanding.get(&user) {
            Some(pass) if pass.number == number && pass.expires_at > now => Ok(()),
            _ => Err(Rejection::PassInvalid),
        }
    }

    /// Removes the pass; called after `check`.
    pub(crate) fn spend(&mut self, user: UserId, shown: Shown) {
        if shown != Shown::NotNeeded {
            self.outstanding.remove(&user);
            self.spent += 1;
        }
    }

    pub(crate) fn units_returned(&mut self, units: u32) {
        self.returned += u64::from(units);
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    /// Passes are issued with ascending deadlines, except for those before the start, which share one. An unexpired
    /// pass at the front delays the removal of those behind it for that long at most.
    fn forget_expired(&mut self, now: Moment) {
        while let Some((user, pass)) = self.issued.front().copied() {
            let current = self.outstanding.get(&user) == Some(&pass);
            if current && pass.expires_at > now {
                return;
            }
            if current {
                self.outstanding.remove(&user);
            }
            self.issued.pop_front();
        }
    }
}
