//! The journal's claims in memory, from the moment they are queued until the ledger has them.
//!
//! Invariants: `recorded ≤ written ≤ end`; positions are consecutive; `unwritten` holds the newest claims, without
//! those being written. Every claim behind `answered` has a waiter.
//!
//! The claims of a user are found through a hash table without entries to remove: each bucket holds the newest
//! position of its users, each claim the previous position in its bucket. The chain ends at the first recorded
//! position.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::{CampaignId, Claim, UserId};
use tidegate_ledger::Position;

use super::Waiter;
use super::kept_progress::KeptProgress;
use crate::intake::{AppendError, Unrecorded};

#[derive(Debug)]
pub(super) struct Backlog {
    /// The ledger has everything up to here; the front of the queue is the next position.
    recorded: Position,
    /// Everything up to here is on disk.
    written: Position,
    queue: VecDeque<Queued>,
    unwritten: Vec<Arc<Claim>>,
    /// One for each claim behind `answered`, oldest first.
    waiters: VecDeque<Waiter>,
    /// The requests for claims up to here were answered.
    answered: Position,
    /// The newest position of each bucket of users.
    newest: Box<[Position]>,
    /// Queued units by campaign.
    units: HashMap<CampaignId, u32>,
    max: usize,
    problem: Option<AppendError>,
    closed: bool,
    pub(super) progress: KeptProgress,
}

#[derive(Debug)]
struct Queued {
    claim: Arc<Claim>,
    /// The previous position in the same bucket.
    previous: Position,
}

/// An upper bound; the operating system allocates memory for used buckets only.
const MAX_BUCKETS: usize = 1 << 18;

impl Backlog {
    pub(super) fn new(recorded: Position, unrecorded: Vec<Claim>, max: usize) -> Self {
        let mut backlog = Self {
            recorded,
            written: recorded,
            queue: VecDeque::new(),
            unwritten: Vec::new(),
            waiters: VecDeque::new(),
            answered: recorded,
            newest: vec![0; max.clamp(1, MAX_BUCKETS).next_power_of_two()].into(),
            units: HashMap::new(),
            max,
            problem: None,
            closed: false,
            progress: KeptProgress::default(),
        };
        for claim in unrecorded {
            backlog.insert(Arc::new(claim));
        }
        (backlog.written, backlog.answered) = (backlog.end(), backlog.end());
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
        self.queue.iter().map(|queued| queued.claim.id.raw()).max().unwrap_or(0)
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
            return Err(AppendError::NoSpace("the journal is closed".into()));
        }
        if self.queue.len() >= self.max { Err(AppendError::Full) } else { Ok(()) }
    }

    /// Queues a claim; returns whether it is the only one that waits to be written.
    pub(super) fn push(&mut self, claim: Arc<Claim>, waiter: Waiter) -> Result<bool, AppendError> {
        self.check()?;
        self.insert(claim.clone());
        self.unwritten.push(claim);
        self.waiters.push_back(waiter);
        Ok(self.unwritten.len() == 1)
    }

    fn insert(&mut self, claim: Arc<Claim>) {
        let position = self.end() + 1;
        let previous = std::mem::replace(&mut self.newest[self.bucket(claim.user)], position);
        *self.units.entry(claim.campaign).or_default() += claim.slots.units();
        self.queue.push_back(Queued { claim, previous });
    }

    fn bucket(&self, user: UserId) -> usize {
        user.spread() as usize & (self.newest.len() - 1)
    }

    fn subtract_units(&mut self, claim: &Claim) {
        if let Some(units) = self.units.get_mut(&claim.campaign) {
            *units -= claim.slots.units();
            if *units == 0 {
                self.units.remove(&claim.campaign);
            }
        }
    }

    pub(super) fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        let queued = |at: Position| {
            let index = at.checked_sub(self.recorded + 1)?;
            Some((at, self.queue.get(usize::try_from(index).ok()?)?))
        };
        let newest = queued(self.newest[self.bucket(user)]);
        let mut found: Vec<_> = std::iter::successors(newest, |(_, one)| queued(one.previous))
            .filter(|(_, one)| one.claim.user == user)
            .map(|(at, one)| Unrecorded { claim: one.claim.clone(), durable: at <= self.written })
            .collect();
        found.reverse();
        found
    }

    pub(super) fn queued_units(&self, campaign: CampaignId) -> u32 {
        self.units.get(&campaign).copied().unwrap_or(0)
    }

    /// The number of claims that wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// The claims to write next, with the position of the first.
    pub(super) fn take_unwritten(&mut self, max: usize) -> (Position, Vec<Arc<Claim>>) {
        // The next batch is about as large.
        let mut rest = Vec::with_capacity(self.unwritten.len());
        rest.extend(self.unwritten.drain(max.min(self.unwritten.len())..));
        (self.written + 1, std::mem::replace(&mut self.unwritten, rest))
    }

    /// Durable claims that the ledger does not have, with the position of the first.
    pub(super) fn durable(&self, max: usize) -> (Position, Vec<Arc<Claim>>) {
        let durable = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        (
            self.recorded + 1,
            self.queue.iter().take(durable.min(max)).map(|queued| queued.claim.clone()).collect(),
        )
    }

    /// The next `count` claims are on disk. Returns their waiters.
    pub(super) fn wrote(&mut self, count: usize) -> Vec<Waiter> {
        self.written += count as u64;
        self.take_waiters(self.written)
    }

    /// The waiters of claims up to this position; the caller answers them.
    fn take_waiters(&mut self, through: Position) -> Vec<Waiter> {
        let count = usize::try_from(through.saturating_sub(self.answered)).unwrap_or(usize::MAX);
        let waiters: Vec<_> = self.waiters.drain(..count.min(self.waiters.len())).collect();
        self.answered += waiters.len() as u64;
        waiters
    }

    /// There is no space: drops all claims that are not written. Returns them with all waiters.
    pub(super) fn refuse_unwritten(&mut self) -> (Vec<Arc<Claim>>, Vec<Waiter>) {
        let keep = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        let dropped: Vec<_> = self.queue.drain(keep..).collect();
        // The newest first, so that each bucket is restored.
        for Queued { claim, previous } in dropped.iter().rev() {
            self.newest[self.bucket(claim.user)] = *previous;
            self.subtract_units(claim);
        }
        let dropped = dropped.into_iter().map(|queued| queued.claim).collect();
        self.unwritten.clear();
        self.answered = self.written;
        (dropped, self.waiters.drain(..).collect())
    }

    /// The disk failed: only a restart can tell whether the unwritten claims were kept. Returns all waiters.
    pub(super) fn fail(&mut self, problem: AppendError) -> Vec<Waiter> {
        self.problem = Some(problem);
        self.unwritten.clear();
        self.take_waiters(self.end())
    }

    /// The reason to refuse appends; `None` to accept them again.
    pub(super) fn set_problem(&mut self, problem: Option<AppendError>) {
        self.problem = problem;
    }

    pub(super) fn forget(&mut self, through: Position) {
        assert!(through <= self.written, "the ledger cannot have what is not on disk");
        while self.recorded < through {
            let Some(Queued { claim, .. }) = self.queue.pop_front() else { break };
            self.recorded += 1;
            self.subtract_units(&claim);
        }
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use tidegate_testing::conformance::claim;

    /// What can happen to a backlog.
    #[derive(Clone, Debug)]
    enum Step {
        Queue(u64),
        Write(usize),
        Refuse,
        Record(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..5_u64).prop_map(Step::Queue),
            3 => (1..4_usize).prop_map(Step::Write),
            1 => Just(Step::Refuse),
            2 => (1..4_u64).prop_map(Step::Record),
        ]
    }

    type Waiting = BTreeMap<Position, tokio::sync::oneshot::Receiver<Result<(), AppendError>>>;

    fn answer(waiters: Vec<Waiter>) {
        for waiter in waiters {
            waiter.send(Ok(())).unwrap();
        }
    }

    /// The requests for claims behind `through`. Checks that all others were answered, and none of these.
    fn still_waiting(mut waiting: Waiting, through: Position) -> Result<Waiting, TestCaseError> {
        let mut others = waiting.split_off(&(through + 1));
        prop_assert!(waiting.values_mut().all(|waits| waits.try_recv().is_ok()));
        prop_assert!(others.values_mut().all(|waits| waits.try_recv().is_err()));
        Ok(others)
    }

    proptest! {
        /// The claims of a user are found, oldest first, whichever users share the bucket and whatever was dropped or
        /// recorded; and every request is answered once.
        #[test]
        fn users_find_their_own_claims(steps in prop::collection::vec(step(), 1..80), buckets in 1..4_usize) {
            let mut backlog = Backlog { max: 1000, ..Backlog::new(7, vec![], buckets) };
            // By position: user and number of each queued claim.
            let mut expected: BTreeMap<Position, (u64, u64)> = BTreeMap::new();
            // By position: the requests not answered yet.
            let mut waiting = BTreeMap::new();
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Queue(user) => {
                        let (waiter, waits) = tokio::sync::oneshot::channel();
                        backlog.push(Arc::new(claim(number, user, &[1])), waiter).unwrap();
                        expected.insert(backlog.end(), (user, number));
                        waiting.insert(backlog.end(), waits);
                    }
                    Step::Write(most) => {
                        let (_, claims) = backlog.take_unwritten(most);
                        answer(backlog.wrote(claims.len()));
                        waiting = still_waiting(waiting, backlog.written())?;
                    }
                    Step::Refuse => {
                        answer(backlog.refuse_unwritten().1);
                        waiting = still_waiting(waiting, Position::MAX - 1)?;
                        expected.split_off(&(backlog.written() + 1));
                    }
                    Step::Record(count) => {
                        let through = backlog.written().min(backlog.recorded() + count);
                        backlog.forget(through);
                        expected = expected.split_off(&(through + 1));
                    }
                }
                for user in 0..5 {
                    let found = backlog.unrecorded_of(UserId::from_raw(user));
                    let found: Vec<_> = found.iter().map(|one| (one.claim.id.raw(), one.durable)).collect();
                    let theirs = expected.iter().filter(|(_, (whose, _))| *whose == user);
                    let theirs: Vec<_> = theirs.map(|(at, (_, number))| (*number, *at <= backlog.written())).collect();
                    prop_assert_eq!(found, theirs);
                }
            }
        }
    }
}
