//! What the journal holds in memory: claims from the moment they are queued until the ledger has them.
//!
//! What always holds: `recorded ≤ written ≤ end`; positions are consecutive; `by_user` names exactly the queued claims;
//! `unwritten` are the newest of them, less those that are being written.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;
use tidegate_core::{CampaignId, Claim, UserId};

use super::super::{AppendError, Position, Unrecorded};
use super::Waiter;

#[derive(Debug)]
pub(super) struct Backlog {
    /// The ledger has everything up to here; the queue's front is the next one.
    recorded: Position,
    /// Everything up to here is on disk.
    written: Position,
    queue: VecDeque<Arc<Claim>>,
    unwritten: Batch,
    /// Where in the queue a buyer's claims are. Nearly everybody has one.
    by_user: HashMap<UserId, SmallVec<[Position; 2]>>,
    units: HashMap<CampaignId, u32>,
    max: usize,
    problem: Option<AppendError>,
    closed: bool,
}

/// Claims to be written together, and who waits for each.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) claims: Vec<Arc<Claim>>,
    pub(super) waiters: Vec<Waiter>,
}

impl Backlog {
    pub(super) fn new(recorded: Position, unrecorded: Vec<Claim>, max: usize) -> Self {
        let mut backlog = Self {
            recorded,
            written: recorded,
            queue: VecDeque::new(),
            unwritten: Batch::default(),
            by_user: HashMap::new(),
            units: HashMap::new(),
            max,
            problem: None,
            closed: false,
        };
        for claim in unrecorded {
            backlog.insert(Arc::new(claim));
        }
        backlog.written = backlog.end();
        backlog
    }

    pub(super) fn end(&self) -> Position {
        self.recorded + self.queue.len() as u64
    }

    pub(super) fn written(&self) -> Position {
        self.written
    }

    pub(super) fn recorded(&self) -> Position {
        self.recorded
    }

    pub(super) fn highest_order(&self) -> u64 {
        self.queue.iter().map(|claim| claim.id.raw()).max().unwrap_or(0)
    }

    pub(super) fn depth(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.queue.len() >= self.max / 2
    }

    pub(super) fn check(&self) -> Result<(), AppendError> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if self.closed {
            return Err(AppendError::NoRoom("the journal is closed".into()));
        }
        if self.queue.len() >= self.max { Err(AppendError::Full) } else { Ok(()) }
    }

    /// Takes the claim in; says whether nothing else waits to be written.
    pub(super) fn push(&mut self, claim: Arc<Claim>, waiter: Waiter) -> Result<bool, AppendError> {
        self.check()?;
        self.insert(claim.clone());
        self.unwritten.claims.push(claim);
        self.unwritten.waiters.push(waiter);
        Ok(self.unwritten.claims.len() == 1)
    }

    fn insert(&mut self, claim: Arc<Claim>) {
        let position = self.end() + 1;
        self.by_user.entry(claim.user).or_default().push(position);
        *self.units.entry(claim.campaign).or_default() += claim.slots.units();
        self.queue.push_back(claim);
    }

    fn uncount(&mut self, claim: &Claim, position: Position) {
        if let Some(theirs) = self.by_user.get_mut(&claim.user) {
            theirs.retain(|at| *at != position);
            if theirs.is_empty() {
                self.by_user.remove(&claim.user);
            }
        }
        if let Some(units) = self.units.get_mut(&claim.campaign) {
            *units -= claim.slots.units();
            if *units == 0 {
                self.units.remove(&claim.campaign);
            }
        }
    }

    pub(super) fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        let theirs = self.by_user.get(&user).map_or(&[][..], SmallVec::as_slice);
        let claim = |at: Position| self.queue.get(usize::try_from(at - self.recorded - 1).ok()?).cloned();
        let found = |at: &Position| Some(Unrecorded { claim: claim(*at)?, durable: *at <= self.written });
        theirs.iter().filter_map(found).collect()
    }

    pub(super) fn queued_units(&self, campaign: CampaignId) -> u32 {
        self.units.get(&campaign).copied().unwrap_or(0)
    }

    /// How many claims wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.claims.len()
    }

    /// The claims to be written next, with the position of the first.
    pub(super) fn take_unwritten(&mut self, most: usize) -> (Position, Batch) {
        let Batch { claims, waiters } = &mut self.unwritten;
        let most = most.min(claims.len());
        let rest = Batch { claims: claims.split_off(most), waiters: waiters.split_off(most) };
        (self.written + 1, std::mem::replace(&mut self.unwritten, rest))
    }

    /// Durable claims the ledger does not have, with the position of the first.
    pub(super) fn durable(&self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        let durable = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        (self.recorded + 1, self.queue.iter().take(durable.min(most)).cloned().collect())
    }

    /// The next `count` claims are on disk.
    pub(super) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Nothing beyond what is written was kept: drops all of it. Gives back who waits for what nobody has taken yet.
    pub(super) fn refuse(&mut self) -> (Vec<Arc<Claim>>, Vec<Waiter>) {
        let keep = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        let first = self.written + 1;
        let dropped: Vec<_> = self.queue.drain(keep..).collect();
        for (claim, position) in dropped.iter().zip(first..) {
            self.uncount(claim, position);
        }
        (dropped, std::mem::take(&mut self.unwritten).waiters)
    }

    /// The disk failed: whether the unwritten claims were kept only a restart can tell.
    pub(super) fn fail(&mut self, problem: AppendError) -> Vec<Waiter> {
        self.problem = Some(problem);
        std::mem::take(&mut self.unwritten).waiters
    }

    /// There is no room now (`Some`), or there is again.
    pub(super) fn set_problem(&mut self, problem: Option<AppendError>) {
        self.problem = problem;
    }

    pub(super) fn forget(&mut self, through: Position) {
        assert!(through <= self.written, "the ledger cannot have what is not on disk");
        while self.recorded < through {
            let Some(claim) = self.queue.pop_front() else { break };
            self.recorded += 1;
            self.uncount(&claim, self.recorded);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}
