//! The claims of this node whose outcome is not known yet, and who waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{CampaignId, Claim, ClaimId, Rejection, UserId};
use tokio::sync::oneshot;

use crate::gate::redis;
use crate::intake::stream::Rush;
use crate::intake::{AppendError, Unrecorded};

/// Asked about at once.
const MOST_ASKED: usize = 2000;
/// How long nobody has to have said anything about a claim before the ledger is asked, at first and in the end; where nobody
/// waits for it, recording may wait itself.
const FIRST_ASKED: Duration = Duration::from_millis(250);
const FIRST_ASKED_LATER: Duration = Duration::from_secs(2);
const LAST_ASKED: Duration = Duration::from_secs(8);

/// What became of a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) id: ClaimId,
    pub(super) rejection: Option<Rejection>,
}

#[derive(Debug)]
struct Waiter {
    /// None where nobody waits.
    done: Option<oneshot::Sender<Result<(), AppendError>>>,
    /// Once it is taken.
    claim: Option<Arc<Claim>>,
    since: Instant,
    /// When the ledger is asked about it, and how long it was left alone before.
    ask_at: Instant,
    pause: Duration,
}

#[derive(Debug)]
pub(super) struct Pending {
    waiters: Mutex<HashMap<ClaimId, Waiter>>,
    /// Beyond these nothing more is asked for; what is on its way to the gate by then still comes.
    most: usize,
    /// Whether buyers wait for what becomes of their claims.
    waits: bool,
    rush: Arc<Rush>,
}

impl Pending {
    pub(super) fn new(most: usize, waits: bool) -> Self {
        Self { waiters: Mutex::default(), most, waits, rush: Arc::new(Rush::new(most / 2)) }
    }

    pub(super) fn rush(&self) -> &Arc<Rush> {
        &self.rush
    }

    /// How many there are, as of a moment ago.
    pub(super) fn count(&self) -> usize {
        self.rush.unrecorded()
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.most
    }

    /// Listens for the outcomes of claims that are about to be made.
    pub(super) fn expect(&self, claims: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<redis::Outcome> {
        let (mut outcomes, since) = (Vec::new(), Instant::now());
        let pause = if self.waits { FIRST_ASKED } else { FIRST_ASKED_LATER };
        let mut waiters = self.waiters.lock();
        waiters.reserve(claims.len());
        for id in claims {
            let done = self.waits.then(|| {
                let (done, outcome) = oneshot::channel();
                outcomes.push(outcome);
                done
            });
            waiters.insert(id, Waiter { done, claim: None, since, ask_at: since + pause, pause });
        }
        self.rush.waits(waiters.len());
        outcomes
    }

    /// What was granted is taken; the rest is forgotten. Gives whether anything was taken.
    pub(super) fn decided(&self, claims: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>) -> bool {
        let mut taken = 0;
        let mut waiters = self.waiters.lock();
        for (id, claim) in claims {
            match claim {
                Some(claim) => {
                    taken += 1;
                    // What the ledger has by now nobody waits for.
                    if let Some(waiter) = waiters.get_mut(&id) {
                        waiter.claim = Some(claim.clone());
                    }
                }
                None => drop(waiters.remove(&id)),
            }
        }
        self.rush.waits(waiters.len());
        self.rush.took(taken);
        taken > 0
    }

    /// Nobody has to wait for them any longer.
    pub(super) fn settle(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        let mut told = Vec::new();
        let mut waiters = self.waiters.lock();
        for Outcome { id, rejection } in outcomes {
            if let Some(Waiter { done: Some(done), .. }) = waiters.remove(&id) {
                told.push((done, rejection));
            }
        }
        self.rush.waits(waiters.len());
        drop(waiters);
        for (done, rejection) in told {
            // Whoever asked may be gone.
            let _ = done.send(rejection.map_or(Ok(()), |why| Err(AppendError::Rejected(why))));
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
        waiters.get(&id)?.claim.as_ref().filter(|claim| claim.user == user).cloned()
    }

    pub(super) fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        let waiters = self.waiters.lock();
        let theirs = waiters.values().filter_map(|waiter| waiter.claim.as_ref());
        theirs
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: claim.clone(), durable: false })
            .collect()
    }

    pub(super) fn waits_for(&self, campaign: CampaignId, since: Duration) -> bool {
        let waiters = self.waiters.lock();
        let mut old = waiters.values().filter(|waiter| waiter.since.elapsed() > since);
        old.any(|waiter| waiter.claim.as_ref().is_some_and(|claim| claim.campaign == campaign))
    }

    /// Claims of earlier epochs.
    pub(super) fn before(&self, campaign: CampaignId, epoch: u32) -> Vec<Arc<Claim>> {
        let waiters = self.waiters.lock();
        let theirs = waiters.values().filter_map(|waiter| waiter.claim.as_ref());
        theirs
            .filter(|claim| claim.campaign == campaign && claim.epoch < epoch)
            .take(MOST_ASKED)
            .cloned()
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{request, user};

    fn ids(numbers: &[u64]) -> std::vec::IntoIter<ClaimId> {
        numbers.iter().map(|number| ClaimId::from_raw(*number)).collect::<Vec<_>>().into_iter()
    }

    /// What the gate made of number 1 to 3: the second was refused.
    fn decide(pending: &Pending) -> bool {
        let claim =
            |number| Arc::new(request(number, number, 1, 1).granted([1].into_iter().collect(), None, 1, 1));
        let (one, three) = (claim(1), claim(3));
        let decided = [(one.id, Some(&one)), (ClaimId::from_raw(2), None), (three.id, Some(&three))];
        pending.decided(&mut decided.into_iter())
    }

    fn outcome(number: u64, rejection: Option<Rejection>) -> Outcome {
        Outcome { id: ClaimId::from_raw(number), rejection }
    }

    #[tokio::test]
    async fn each_hears_what_became_of_theirs_even_before_the_gate_has_answered() {
        let pending = Pending::new(10, true);
        let mut outcomes = pending.expect(&mut ids(&[1, 2, 3])).into_iter();
        pending.settle([outcome(1, None)]);
        assert!(decide(&pending));
        assert_eq!(pending.count(), 1, "the first is an order, the second was refused");
        pending.settle([outcome(3, Some(Rejection::NotReady)), outcome(99, None)]);
        assert!(pending.is_empty());
        assert!(matches!(outcomes.next().unwrap().await, Ok(Ok(()))));
        assert!(outcomes.next().unwrap().await.is_err(), "nothing became of it");
        assert!(matches!(
            outcomes.next().unwrap().await,
            Ok(Err(AppendError::Rejected(Rejection::NotReady)))
        ));
    }

    #[test]
    fn where_nobody_waits_claims_are_counted_and_found_until_they_are_settled() {
        let pending = Pending::new(3, false);
        assert!(pending.expect(&mut ids(&[1, 2, 3])).is_empty());
        assert!(pending.is_full(), "as soon as they are asked for");
        assert!(pending.of_buyer(user(1)).is_empty(), "it may be refused");
        decide(&pending);
        assert_eq!((pending.count(), pending.is_full()), (2, false));
        assert_eq!(pending.of_buyer(user(1)).len(), 1);
        assert!(pending.find(user(3), ClaimId::from_raw(3)).is_some());
        assert!(pending.find(user(1), ClaimId::from_raw(3)).is_none(), "it is somebody else's");
        assert_eq!(pending.before(crate::conformance::CAMPAIGN, 2).len(), 2, "of an earlier epoch");
        assert!(pending.overdue().is_empty());
        pending.ask_about(ClaimId::from_raw(3));
        assert_eq!(pending.overdue(), [ClaimId::from_raw(3)]);
        pending.settle([outcome(1, None), outcome(3, None)]);
        assert!(pending.is_empty() && pending.find(user(3), ClaimId::from_raw(3)).is_none());
    }
}
