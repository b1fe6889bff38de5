//! This node's claims whose outcome is not known yet, and the requests that wait for them.
//!
//! Outcomes arrive from this node's recorders or by messages of other nodes. Messages can be lost, so claims that stay
//! silent are looked up in the ledger, less and less often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{CampaignId, Claim, ClaimId, Rejection, UserId};
use tokio::sync::oneshot;

use crate::cluster::claim_counts::ClaimCounts;
use crate::cluster::gate::OutcomeReceiver;
use crate::intake::{AppendError, Unrecorded};

/// Claims in one lookup.
const MAX_LOOKUP: usize = 2000;
/// How long a claim stays silent before its first lookup. Longer if no request waits for outcomes, because recording
/// may be deferred then.
const FIRST_LOOKUP: Duration = Duration::from_millis(250);
const FIRST_LOOKUP_UNAWAITED: Duration = Duration::from_secs(2);
/// The interval doubles up to this.
const MAX_LOOKUP_INTERVAL: Duration = Duration::from_secs(8);

/// The outcome of a claim: an order, or a rejection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimOutcome {
    pub(super) id: ClaimId,
    pub(super) rejection: Option<Rejection>,
}

#[derive(Debug)]
struct PendingClaim {
    /// `None` if no request waits.
    waiter: Option<oneshot::Sender<Result<(), AppendError>>>,
    /// `None` until the gate has granted it.
    claim: Option<Arc<Claim>>,
    since: Instant,
    lookup_at: Instant,
    lookup_interval: Duration,
}

#[derive(Debug)]
pub(super) struct Pending {
    claims: Mutex<HashMap<ClaimId, PendingClaim>>,
    /// Whether requests wait for the outcomes of their claims.
    is_awaited: bool,
    counts: Arc<ClaimCounts>,
}

impl Pending {
    pub(super) fn new(max: usize, is_awaited: bool) -> Self {
        Self { claims: Mutex::default(), is_awaited, counts: Arc::new(ClaimCounts::new(max)) }
    }

    pub(super) fn counts(&self) -> &Arc<ClaimCounts> {
        &self.counts
    }

    /// The number of claims, without taking the lock.
    pub(super) fn count(&self) -> usize {
        self.counts.unrecorded()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Whether no further claims are submitted. Claims already on their way to the gate are still added.
    pub(super) fn is_full(&self) -> bool {
        self.counts.is_full()
    }

    /// Adds claims that are about to be decided. Returns a receiver for each outcome; none if nobody waits.
    pub(super) fn register(&self, ids: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<OutcomeReceiver> {
        let (mut receivers, since) = (Vec::new(), Instant::now());
        let lookup_interval = if self.is_awaited { FIRST_LOOKUP } else { FIRST_LOOKUP_UNAWAITED };
        let mut claims = self.claims.lock();
        claims.reserve(ids.len());
        for id in ids {
            let waiter = self.is_awaited.then(|| {
                let (waiter, receiver) = oneshot::channel();
                receivers.push(receiver);
                waiter
            });
            let lookup_at = since + lookup_interval;
            claims.insert(id, PendingClaim { waiter, claim: None, since, lookup_at, lookup_interval });
        }
        self.counts.set_unrecorded(claims.len());
        receivers
    }

    /// Keeps the granted claims and removes the others. Returns whether any was granted.
    pub(super) fn decided(&self, decided: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>) -> bool {
        let mut granted = 0;
        let mut claims = self.claims.lock();
        for (id, claim) in decided {
            match claim {
                Some(claim) => {
                    granted += 1;
                    // It is missing here if the ledger has recorded it already.
                    if let Some(pending) = claims.get_mut(&id) {
                        pending.claim = Some(claim.clone());
                    }
                }
                None => drop(claims.remove(&id)),
            }
        }
        self.counts.set_unrecorded(claims.len());
        self.counts.add_granted(granted);
        granted > 0
    }

    /// Removes claims whose outcome is known, and answers the requests that wait for them.
    pub(super) fn settle(&self, outcomes: impl IntoIterator<Item = ClaimOutcome>) {
        let mut answers = Vec::new();
        let mut claims = self.claims.lock();
        for ClaimOutcome { id, rejection } in outcomes {
            if let Some(PendingClaim { waiter: Some(waiter), .. }) = claims.remove(&id) {
                answers.push((waiter, rejection));
            }
        }
        self.counts.set_unrecorded(claims.len());
        drop(claims);
        for (waiter, rejection) in answers {
            // The request may have been cancelled.
            let _ = waiter.send(rejection.map_or(Ok(()), |reason| Err(AppendError::Rejected(reason))));
        }
    }

    /// Tells the requests that wait for granted claims that they are late.
    pub(super) fn answer_as_late(&self) {
        let mut claims = self.claims.lock();
        for pending in claims.values_mut().filter(|pending| pending.claim.is_some()) {
            if let Some(waiter) = pending.waiter.take() {
                // The request may have been cancelled.
                let _ = waiter.send(Err(AppendError::Late));
            }
        }
    }

    /// The ledger has this claim, with an outcome that is not known here: it is looked up next.
    pub(super) fn look_up_soon(&self, id: ClaimId) {
        if let Some(pending) = self.claims.lock().get_mut(&id) {
            (pending.lookup_at, pending.lookup_interval) = (pending.since, FIRST_LOOKUP);
        }
    }

    /// Claims whose lookup is due; their next one is scheduled.
    pub(super) fn take_due_lookups(&self) -> Vec<ClaimId> {
        let mut claims = self.claims.lock();
        let now = Instant::now();
        let due = claims.iter_mut().filter(|(_, pending)| pending.lookup_at <= now).take(MAX_LOOKUP);
        due.map(|(id, pending)| {
            pending.lookup_interval = (pending.lookup_interval * 2).min(MAX_LOOKUP_INTERVAL);
            pending.lookup_at = now + pending.lookup_interval;
            *id
        })
        .collect()
    }

    pub(super) fn find(&self, user: UserId, id: ClaimId) -> Option<Arc<Claim>> {
        let claims = self.claims.lock();
        claims.get(&id)?.claim.as_ref().filter(|claim| claim.user == user).cloned()
    }

    pub(super) fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        let claims = self.claims.lock();
        let granted = claims.values().filter_map(|pending| pending.claim.as_ref());
        granted
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: claim.clone(), durable: false })
            .collect()
    }

    /// Whether a claim on this campaign has been pending for longer than `age`.
    pub(super) fn has_older_than(&self, campaign: CampaignId, age: Duration) -> bool {
        let claims = self.claims.lock();
        let mut old = claims.values().filter(|pending| pending.since.elapsed() > age);
        old.any(|pending| pending.claim.as_ref().is_some_and(|claim| claim.campaign == campaign))
    }

    /// Claims of epochs before this one.
    pub(super) fn before_epoch(&self, campaign: CampaignId, epoch: u32) -> Vec<Arc<Claim>> {
        let claims = self.claims.lock();
        let granted = claims.values().filter_map(|pending| pending.claim.as_ref());
        granted
            .filter(|claim| claim.campaign == campaign && claim.epoch < epoch)
            .take(MAX_LOOKUP)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_testing::conformance::{CAMPAIGN, request, user};

    fn ids(numbers: &[u64]) -> std::vec::IntoIter<ClaimId> {
        numbers.iter().map(|number| ClaimId::from_raw(*number)).collect::<Vec<_>>().into_iter()
    }

    /// The gate grants claims 1 and 3, and rejects claim 2.
    fn decide(pending: &Pending) -> bool {
        let claim =
            |number| Arc::new(request(number, number, 1, 1).granted([1].into_iter().collect(), None, 1, 1));
        let (one, three) = (claim(1), claim(3));
        let decided = [(one.id, Some(&one)), (ClaimId::from_raw(2), None), (three.id, Some(&three))];
        pending.decided(&mut decided.into_iter())
    }

    fn outcome(number: u64, rejection: Option<Rejection>) -> ClaimOutcome {
        ClaimOutcome { id: ClaimId::from_raw(number), rejection }
    }

    #[tokio::test]
    async fn outcomes_are_delivered_even_before_the_gate_has_replied() {
        let pending = Pending::new(10, true);
        let mut outcomes = pending.register(&mut ids(&[1, 2, 3])).into_iter();
        pending.settle([outcome(1, None)]);
        assert!(decide(&pending));
        assert_eq!(pending.count(), 1, "the first is an order, the second was rejected");
        pending.settle([outcome(3, Some(Rejection::NotReady)), outcome(99, None)]);
        assert!(pending.is_empty());
        assert!(matches!(outcomes.next().unwrap().await, Ok(Ok(()))));
        assert!(outcomes.next().unwrap().await.is_err(), "it was never granted");
        assert!(matches!(
            outcomes.next().unwrap().await,
            Ok(Err(AppendError::Rejected(Rejection::NotReady)))
        ));
    }

    #[test]
    fn claims_without_waiters_are_counted_and_found_until_they_are_settled() {
        let pending = Pending::new(3, false);
        assert!(pending.register(&mut ids(&[1, 2, 3])).is_empty());
        assert!(pending.is_full(), "claims count as soon as they are submitted");
        assert!(pending.unrecorded_of(user(1)).is_empty(), "it may be rejected");
        decide(&pending);
        assert_eq!((pending.count(), pending.is_full()), (2, false));
        assert_eq!(pending.unrecorded_of(user(1)).len(), 1);
        assert!(pending.find(user(3), ClaimId::from_raw(3)).is_some());
        assert!(pending.find(user(1), ClaimId::from_raw(3)).is_none(), "it belongs to another user");
        assert_eq!(pending.before_epoch(CAMPAIGN, 2).len(), 2);
        assert!(pending.take_due_lookups().is_empty());
        pending.look_up_soon(ClaimId::from_raw(3));
        assert_eq!(pending.take_due_lookups(), [ClaimId::from_raw(3)]);
        pending.settle([outcome(1, None), outcome(3, None)]);
        assert!(pending.is_empty() && pending.find(user(3), ClaimId::from_raw(3)).is_none());
    }
}
