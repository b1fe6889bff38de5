//! What the journal holds in memory: claims from the moment they are queued until the ledger has them.
//!
//! What always holds: `recorded ≤ written ≤ end`; positions are consecutive; `unwritten` are the newest of them, less those
//! that are being written. Behind `told` somebody waits for each. A buyer's claims are found by going back from the newest of
//! all who share a place in `newest`; what is recorded ends the way, so nothing has to be taken out there.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_core::{CampaignId, Claim, UserId};

use super::super::{AppendError, Position, Unrecorded};
use super::Waiter;

#[derive(Debug)]
pub(super) struct Backlog {
    /// The ledger has everything up to here; the queue's front is the next one.
    recorded: Position,
    /// Everything up to here is on disk.
    written: Position,
    queue: VecDeque<Queued>,
    unwritten: Vec<Arc<Claim>>,
    /// Who waits for the claims behind `told`, one each, oldest first.
    waiters: VecDeque<Waiter>,
    /// Whoever waited for claims up to here was told something.
    told: Position,
    /// By buyer, some of whom share a place.
    newest: Box<[Position]>,
    units: HashMap<CampaignId, u32>,
    max: usize,
    problem: Option<AppendError>,
    closed: bool,
}

#[derive(Debug)]
struct Queued {
    claim: Arc<Claim>,
    /// The one before it of those who share its place.
    before: Position,
}

/// Places for buyers, at most; untouched ones take up no memory.
const MOST_PLACES: usize = 1 << 18;

impl Backlog {
    pub(super) fn new(recorded: Position, unrecorded: Vec<Claim>, max: usize) -> Self {
        let mut backlog = Self {
            recorded,
            written: recorded,
            queue: VecDeque::new(),
            unwritten: Vec::new(),
            waiters: VecDeque::new(),
            told: recorded,
            newest: vec![0; max.clamp(1, MOST_PLACES).next_power_of_two()].into(),
            units: HashMap::new(),
            max,
            problem: None,
            closed: false,
        };
        for claim in unrecorded {
            backlog.insert(Arc::new(claim));
        }
        (backlog.written, backlog.told) = (backlog.end(), backlog.end());
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
            return Err(AppendError::NoRoom("the journal is closed".into()));
        }
        if self.queue.len() >= self.max { Err(AppendError::Full) } else { Ok(()) }
    }

    /// Takes the claim in; says whether nothing else waits to be written.
    pub(super) fn push(&mut self, claim: Arc<Claim>, waiter: Waiter) -> Result<bool, AppendError> {
        self.check()?;
        self.insert(claim.clone());
        self.unwritten.push(claim);
        self.waiters.push_back(waiter);
        Ok(self.unwritten.len() == 1)
    }

    fn insert(&mut self, claim: Arc<Claim>) {
        let position = self.end() + 1;
        let before = std::mem::replace(&mut self.newest[self.place(claim.user)], position);
        *self.units.entry(claim.campaign).or_default() += claim.slots.units();
        self.queue.push_back(Queued { claim, before });
    }

    fn place(&self, user: UserId) -> usize {
        user.spread() as usize & (self.newest.len() - 1)
    }

    fn uncount(&mut self, claim: &Claim) {
        if let Some(units) = self.units.get_mut(&claim.campaign) {
            *units -= claim.slots.units();
            if *units == 0 {
                self.units.remove(&claim.campaign);
            }
        }
    }

    pub(super) fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        let queued = |at: Position| {
            let index = at.checked_sub(self.recorded + 1)?;
            Some((at, self.queue.get(usize::try_from(index).ok()?)?))
        };
        let newest = queued(self.newest[self.place(user)]);
        let mut found: Vec<_> = std::iter::successors(newest, |(_, one)| queued(one.before))
            .filter(|(_, one)| one.claim.user == user)
            .map(|(at, one)| Unrecorded { claim: one.claim.clone(), durable: at <= self.written })
            .collect();
        found.reverse();
        found
    }

    pub(super) fn queued_units(&self, campaign: CampaignId) -> u32 {
        self.units.get(&campaign).copied().unwrap_or(0)
    }

    /// How many claims wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// The claims to be written next, with the position of the first.
    pub(super) fn take_unwritten(&mut self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        // The next will be about as many.
        let mut rest = Vec::with_capacity(self.unwritten.len());
        rest.extend(self.unwritten.drain(most.min(self.unwritten.len())..));
        (self.written + 1, std::mem::replace(&mut self.unwritten, rest))
    }

    /// Durable claims the ledger does not have, with the position of the first.
    pub(super) fn durable(&self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        let durable = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        (
            self.recorded + 1,
            self.queue.iter().take(durable.min(most)).map(|queued| queued.claim.clone()).collect(),
        )
    }

    /// The next `count` claims are on disk. Gives back who waits for them.
    pub(super) fn wrote(&mut self, count: usize) -> Vec<Waiter> {
        self.written += count as u64;
        self.waiting_through(self.written)
    }

    /// Those who wait for claims up to there; they are to be told something.
    pub(super) fn waiting_through(&mut self, through: Position) -> Vec<Waiter> {
        let count = usize::try_from(through.saturating_sub(self.told)).unwrap_or(usize::MAX);
        let waiters: Vec<_> = self.waiters.drain(..count.min(self.waiters.len())).collect();
        self.told += waiters.len() as u64;
        waiters
    }

    /// Nothing beyond what is written was kept: drops all of it. Gives back who waits for it.
    pub(super) fn refuse(&mut self) -> (Vec<Arc<Claim>>, Vec<Waiter>) {
        let keep = usize::try_from(self.written - self.recorded).unwrap_or(usize::MAX);
        let dropped: Vec<_> = self.queue.drain(keep..).collect();
        // The newest first, so that each place is left as it was before them.
        for Queued { claim, before } in dropped.iter().rev() {
            self.newest[self.place(claim.user)] = *before;
            self.uncount(claim);
        }
        let dropped = dropped.into_iter().map(|queued| queued.claim).collect();
        self.unwritten.clear();
        self.told = self.written;
        (dropped, self.waiters.drain(..).collect())
    }

    /// The disk failed: whether the unwritten claims were kept only a restart can tell.
    pub(super) fn fail(&mut self, problem: AppendError) -> Vec<Waiter> {
        self.problem = Some(problem);
        self.unwritten.clear();
        self.waiting_through(self.end())
    }

    /// There is no room now (`Some`), or there is again.
    pub(super) fn set_problem(&mut self, problem: Option<AppendError>) {
        self.problem = problem;
    }

    pub(super) fn forget(&mut self, through: Position) {
        assert!(through <= self.written, "the ledger cannot have what is not on disk");
        while self.recorded < through {
            let Some(Queued { claim, .. }) = self.queue.pop_front() else { break };
            self.recorded += 1;
            self.uncount(&claim);
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
    use crate::conformance::claim;

    /// What may happen to a backlog, with a number each.
    #[derive(Clone, Debug)]
    enum Step {
        Queue(u64),
        Write(usize),
        Late(u64),
        Refuse,
        Record(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..5_u64).prop_map(Step::Queue),
            3 => (1..4_usize).prop_map(Step::Write),
            1 => (0..9_u64).prop_map(Step::Late),
            1 => Just(Step::Refuse),
            2 => (1..4_u64).prop_map(Step::Record),
        ]
    }

    type Waiting = BTreeMap<Position, tokio::sync::oneshot::Receiver<Result<(), AppendError>>>;

    fn tell(waiters: Vec<Waiter>) {
        for waiter in waiters {
            waiter.send(Ok(())).unwrap();
        }
    }

    /// Those who wait for claims behind `through`; everybody else was told something, and nobody of them.
    fn still_waiting(mut waiting: Waiting, through: Position) -> Result<Waiting, TestCaseError> {
        let mut others = waiting.split_off(&(through + 1));
        prop_assert!(waiting.values_mut().all(|waits| waits.try_recv().is_ok()));
        prop_assert!(others.values_mut().all(|waits| waits.try_recv().is_err()));
        Ok(others)
    }

    proptest! {
        /// A buyer's claims are found, oldest first, whoever shares their place and whatever was taken back or recorded; and
        /// whoever waits is told once, of their own claim.
        #[test]
        fn everybody_finds_their_own(steps in prop::collection::vec(step(), 1..80), places in 1..4_usize) {
            let mut backlog = Backlog { max: 1000, ..Backlog::new(7, vec![], places) };
            // What is queued, by position: whose it is, and its number.
            let mut expected: BTreeMap<Position, (u64, u64)> = BTreeMap::new();
            // Who waits, by position.
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
                        tell(backlog.wrote(claims.len()));
                        waiting = still_waiting(waiting, backlog.written())?;
                    }
                    Step::Late(through) => {
                        let through = backlog.end().min(backlog.recorded() + through);
                        tell(backlog.waiting_through(through));
                        waiting = still_waiting(waiting, through)?;
                    }
                    Step::Refuse => {
                        tell(backlog.refuse().1);
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
                    let found = backlog.of_user(UserId::from_raw(user));
                    let found: Vec<_> = found.iter().map(|one| (one.claim.id.raw(), one.durable)).collect();
                    let theirs = expected.iter().filter(|(_, (whose, _))| *whose == user);
                    let theirs: Vec<_> = theirs.map(|(at, (_, number))| (*number, *at <= backlog.written())).collect();
                    prop_assert_eq!(found, theirs);
                }
            }
        }
    }
}
