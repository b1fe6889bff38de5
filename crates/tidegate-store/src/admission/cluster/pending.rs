//! The claims of this node whose outcome is not known yet, and who waits for it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{CampaignId, Claim, ClaimId, Rejection, UserId};
use tokio::sync::oneshot;

use crate::intake::stream::Rush;
use crate::intake::{AppendError, Unrecorded};

/// Asked about at once.
const MOST_ASKED: usize = 2000;
/// How long nobody has to have said anything about a claim before the ledger is asked, at first and in the end; where nobody
/// waits for it, recording may wait itself.
const FIRST_ASKED: Duration = Duration::from_millis(250);
const FIRST_ASKED_LATER: Duration = Duration::from_secs(2);
const LAST_ASKED: Duration = Duration::from_secs(8);
/// A claim that was never taken, because whoever asked hung up, is forgotten after this.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// What became of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) id: ClaimId,
    pub(super) rejection: Option<Rejection>,
}

#[derive(Debug)]
struct Waiter {
    done: oneshot::Sender<Result<(), AppendError>>,
    /// Once it is taken. Shared with whoever expects it, who need not be found again then.
    claim: Arc<OnceLock<Arc<Claim>>>,
    since: Instant,
    /// When the ledger is asked about it, and how long it was left alone before.
    ask_at: Instant,
    pause: Duration,
}

/// A claim that is about to be made.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) outcome: oneshot::Receiver<Result<(), AppendError>>,
    claim: Arc<OnceLock<Arc<Claim>>>,
}

#[derive(Debug)]
pub(super) struct Pending {
    waiters: Mutex<HashMap<ClaimId, Waiter>>,
    most: usize,
    first_asked: Duration,
    rush: Arc<Rush>,
}

impl Pending {
    /// `waits` says whether buyers wait for what becomes of their claims.
    pub(super) fn new(most: usize, waits: bool) -> Self {
        Self {
            waiters: Mutex::default(),
            most,
            first_asked: if waits { FIRST_ASKED } else { FIRST_ASKED_LATER },
            rush: Arc::new(Rush::new(most / 2)),
        }
    }

    pub(super) fn rush(&self) -> &Arc<Rush> {
        &self.rush
    }

    /// Listens for the outcome of a claim that is about to be made; `None` where there are too many.
    pub(super) fn expect(&self, id: ClaimId) -> Option<Expected> {
        let (done, outcome) = oneshot::channel();
        let now = Instant::now();
        let pause = self.first_asked;
        let claim = Arc::default();
        let waiter = Waiter { done, claim: Arc::clone(&claim), since: now, ask_at: now + pause, pause };
        let mut waiters = self.waiters.lock();
        if waiters.len() >= self.most {
            return None;
        }
        waiters.insert(id, waiter);
        self.rush.waits(waiters.len());
        Some(Expected { outcome, claim })
    }

    pub(super) fn taken(&self, expected: &Expected, claim: &Arc<Claim>) {
        self.rush.took();
        // It is taken once.
        let _ = expected.claim.set(claim.clone());
    }

    pub(super) fn forget(&self, id: ClaimId) {
        self.waiters.lock().remove(&id);
    }

    /// Nobody has to wait for it any longer.
    pub(super) fn settle(&self, id: ClaimId, rejection: Option<Rejection>) {
        let waiter = self.waiters.lock().remove(&id);
        if let Some(waiter) = waiter {
            // Whoever asked may be gone.
            let _ = waiter.done.send(rejection.map_or(Ok(()), |why| Err(AppendError::Rejected(why))));
        }
    }

    /// It is in the ledger; as what is to be asked soon.
    pub(super) fn ask_about(&self, id: ClaimId) {
        if let Some(waiter) = self.waiters.lock().get_mut(&id) {
            (waiter.ask_at, waiter.pause) = (waiter.since, FIRST_ASKED);
        }
    }

    /// Those nobody has said anything about for a while; they are asked about less and less often.
    pub(super) fn overdue(&self) -> Vec<ClaimId> {
        let mut waiters = self.waiters.lock();
        waiters.retain(|_, waiter| waiter.claim.get().is_some() || waiter.since.elapsed() < FORGET_AFTER);
        let now = Instant::now();
        let due = waiters.iter_mut().filter(|(_, waiter)| waiter.ask_at <= now).take(MOST_ASKED);
        due.map(|(id, waiter)| {
            waiter.pause = (waiter.pause * 2).min(LAST_ASKED);
            waiter.ask_at = now + waiter.pause;
            *id
        })
        .collect()
    }

    pub(super) fn find(&self, user: UserId, id: ClaimId) -> Option<Arc<Claim>> {
        let waiters = self.waiters.lock();
        waiters.get(&id)?.claim.get().filter(|claim| claim.user == user).cloned()
    }

    pub(super) fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        let waiters = self.waiters.lock();
        let theirs = waiters.values().filter_map(|waiter| waiter.claim.get());
        theirs
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: claim.clone(), durable: false })
            .collect()
    }

    pub(super) fn waits_for(&self, campaign: CampaignId, since: Duration) -> bool {
        let waiters = self.waiters.lock();
        let mut old = waiters.values().filter(|waiter| waiter.since.elapsed() > since);
        old.any(|waiter| waiter.claim.get().is_some_and(|claim| claim.campaign == campaign))
    }

    /// Claims of earlier epochs.
    pub(super) fn before(&self, campaign: CampaignId, epoch: u32) -> Vec<Arc<Claim>> {
        let waiters = self.waiters.lock();
        let theirs = waiters.values().filter_map(|waiter| waiter.claim.get());
        theirs
            .filter(|claim| claim.campaign == campaign && claim.epoch < epoch)
            .take(MOST_ASKED)
            .cloned()
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.lock().is_empty()
    }
}
