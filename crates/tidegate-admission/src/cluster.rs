//! Admission on many nodes: the gate and its streams are on Redis or Valkey and shared by all nodes.
//!
//! Any node may record a claim, so a node keeps its own claims until it knows their outcome: from its own recorder,
//! by a message of the node that recorded them, or from the ledger, since messages can be lost. Invariants: an order
//! is reported only after the ledger has committed it; a claim that the gate's server has lost is reported as lost.

pub mod claim_counts;
pub mod gate;
pub mod newest_event;
mod news;
mod outcomes;
mod pending;
mod recorders;
pub mod redis_link;
mod shared_values;
pub mod stream;
pub mod waiting_room;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Campaign, CampaignId, Claim, ClaimId, ClaimRequest, Rejection, UserId, Wanted};
use tidegate_ledger::{LedgerError, SqlLedger};
use tokio::sync::{Notify, OnceCell, mpsc};

pub use self::news::News;
use self::outcomes::{OutcomeListener, look_up_outcomes};
use self::pending::Pending;
use self::recorders::Recorders;
use crate::cluster::gate::{
    DecideError, DecisionObserver, FailedClaim, GrantedClaim, OutcomeReceiver, RedisGate, SubmitOptions,
};
use crate::cluster::redis_link::Link;
use crate::cluster::stream::Deferral;
use crate::cluster::waiting_room::RedisWaitingRoom;
use crate::gate::{GateError, UnitCount, UnsoldSlots};
use crate::intake::{AppendError, Unrecorded};
use crate::recorder::Listener;
use crate::{AcceptedClaim, ClaimError, Durability, Now};

/// A claim that is pending for longer than this is overdue: its outcome would have been reported long before.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);
/// How often it is checked whether all claims are recorded.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The URLs that the link was opened with; publish/subscribe opens a connection of its own.
    pub urls: String,
    /// Prepended to every key and channel.
    pub prefix: String,
    /// Unique among all processes there ever were.
    pub node: String,
    /// Part of the ids that this node creates; unique among the running nodes.
    pub number: u16,
    /// Claims with an unknown outcome; beyond that, claims are refused.
    pub max_pending: usize,
    /// Whether queued claims are sent to the gate together.
    pub batches: bool,
    /// How long a request waits for its claim to be recorded; zero if requests do not wait.
    pub answer_timeout: Duration,
    /// How long a burst may defer recording, if requests do not wait for it.
    pub max_deferral: Duration,
}

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gate: Arc<RedisGate>,
    options: ClusterOptions,
    claims: Arc<NodeClaims>,
    /// Pools whose grants the ledger has contradicted, with the epoch: they must be reseeded.
    suspects: Mutex<HashMap<CampaignId, u32>>,
    /// Notified when the gate should be reconciled with the ledger without waiting for the next poll.
    reconcile: Arc<Notify>,
    ledger: OnceCell<Arc<SqlLedger>>,
}

/// The claims that this node has submitted, and its recorders.
#[derive(Debug)]
struct NodeClaims {
    pending: Pending,
    recorders: Recorders,
}

impl DecisionObserver for NodeClaims {
    fn register(&self, claims: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<OutcomeReceiver> {
        self.pending.register(claims)
    }

    fn decided(
        &self,
        campaign: CampaignId,
        claims: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>,
    ) {
        if self.pending.decided(claims) {
            self.recorders.wake(campaign);
        }
    }
}

impl Cluster {
    /// Also returns the news from all nodes, this one included.
    pub fn new(link: Link, options: ClusterOptions) -> (Self, mpsc::UnboundedReceiver<News>) {
        let pending = Pending::new(options.max_pending, !options.answer_timeout.is_zero());
        let claims = Arc::new(NodeClaims { pending, recorders: Recorders::default() });
        let observer: Weak<dyn DecisionObserver> = Arc::downgrade(&claims) as _;
        let gate = RedisGate::new(link, options.prefix.clone(), options.node.clone()).with_observer(observer);
        let gate = Arc::new(if options.batches { gate } else { gate.without_batches() });
        let (sender, news) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            gate,
            claims,
            suspects: Mutex::default(),
            reconcile: Arc::new(Notify::new()),
            ledger: OnceCell::new(),
            options,
        });
        tokio::spawn(news::listen(Arc::downgrade(&shared), sender));
        (Self(shared), news)
    }

    pub(super) fn gate(&self) -> &RedisGate {
        &self.0.gate
    }

    pub(super) async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        if self.0.ledger.set(ledger.clone()).is_err() {
            return;
        }
        let listener = Arc::new(OutcomeListener { shared: Arc::downgrade(&self.0), next: listener });
        let deferral = self.0.options.answer_timeout.is_zero().then(|| Deferral {
            counts: self.0.claims.pending.counts().clone(),
            max: self.0.options.max_deferral,
        });
        self.0.claims.recorders.start(ledger, listener, now, deferral).await;
        tokio::spawn(look_up_outcomes(Arc::downgrade(&self.0)));
    }

    pub(super) async fn stop(&self, timeout: Duration) {
        let started = Instant::now();
        while !self.0.claims.pending.is_empty() && started.elapsed() < timeout {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        if !self.0.claims.pending.is_empty() {
            tracing::warn!("stopped with unrecorded claims; other nodes record them");
        }
        self.0.claims.recorders.stop();
    }

    /// Sets the campaigns that may have claims: each gets its recorders, those of other campaigns stop.
    pub async fn set_campaigns(&self, campaigns: &[Campaign]) -> Result<(), LedgerError> {
        for poisoned in self.0.claims.recorders.take_poisoned() {
            // The units of a claim that cannot be decoded become free with a reseed only.
            if let Some(campaign) = campaigns.iter().find(|campaign| campaign.id == poisoned) {
                self.mark_suspect(poisoned, campaign.epoch);
            }
        }
        self.0.claims.recorders.set_campaigns(&self.0.gate, &self.0.options.node, campaigns).await
    }

    pub(super) async fn claim(
        &self,
        request: ClaimRequest,
        rate_per_s: u32,
    ) -> Result<AcceptedClaim, ClaimError> {
        if self.0.claims.pending.is_full() {
            return Err(ClaimError::NotAppended(AppendError::Full));
        }
        let options = SubmitOptions { key_checked: false, rate_per_s };
        let decided = match self.gate().submit(request, options).await {
            // Boxed because it is rare: the future of every claim would be as large as this one.
            Err(FailedClaim { error: DecideError::KeyUnchecked, request: Some(request) }) => {
                Box::pin(self.check_key_and_submit(*request)).await
            }
            decided => decided.map_err(|failed| failed.error.into()),
        };
        if matches!(decided, Err(ClaimError::Rejected(Rejection::NotReady) | ClaimError::NotAppended(_))) {
            self.0.reconcile.notify_one();
        }
        let timeout = self.0.options.answer_timeout;
        decided.map(|GrantedClaim { claim, outcome }| AcceptedClaim {
            claim,
            durability: outcome.map(|outcome| Durability::new(outcome, timeout)),
        })
    }

    /// Looks the idempotency key up in the ledger, then submits again if the ledger does not know it.
    async fn check_key_and_submit(&self, request: ClaimRequest) -> Result<GrantedClaim, ClaimError> {
        let ledger = self.0.ledger.get().ok_or(Rejection::NotReady)?;
        let known = match (&request.wanted, request.key) {
            (_, None) => Ok(false),
            (Wanted::Order { .. }, Some(key)) => {
                ledger.orders.by_key(request.user, key).await.map(|found| found.is_some())
            }
            (Wanted::Play { .. }, Some(key)) => {
                ledger.plays.by_key(request.user, key).await.map(|found| found.is_some())
            }
        };
        if known.map_err(|_| Rejection::NotReady)? {
            return Err(ClaimError::Repeated);
        }
        let options = SubmitOptions { key_checked: true, rate_per_s: 0 };
        self.gate().submit(request, options).await.map_err(|failed| failed.error.into())
    }

    /// Claims that wait to be recorded: those in the streams when they were last read, or this node's own if those
    /// are more.
    pub(super) fn depth(&self) -> usize {
        self.0.claims.recorders.depth().max(self.0.claims.pending.count())
    }

    pub(super) fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        self.0.claims.pending.unrecorded_of(user)
    }

    /// An unrecorded claim of this user: this node's, or one in a stream.
    pub(super) async fn find(&self, user: UserId, id: ClaimId) -> Result<Option<Unrecorded>, GateError> {
        if let Some(claim) = self.0.claims.pending.find(user, id) {
            return Ok(Some(Unrecorded { claim, durable: false }));
        }
        for campaign in self.0.claims.recorders.campaigns() {
            if let Some(claim) = self.gate().find_queued(campaign, user, id).await? {
                return Ok(Some(Unrecorded { claim: Arc::new(claim), durable: false }));
            }
        }
        Ok(None)
    }

    pub(super) async fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        self.gate().prizes_left(campaign).await.ok().filter(|left| !left.is_empty())
    }

    pub(super) async fn wait_until_drained(&self, campaign: CampaignId, timeout: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < timeout {
            if matches!(self.gate().queued_units(campaign).await, Ok(0)) {
                return true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    }

    /// Whether this node has claims on this campaign whose outcome is overdue.
    pub fn has_overdue_claims(&self, campaign: CampaignId) -> bool {
        self.0.claims.pending.has_older_than(campaign, OVERDUE_AFTER)
    }

    /// The units that are not in the ledger; `None` if they could not be counted consistently.
    pub async fn count_units(&self, campaign: CampaignId) -> Result<Option<UnitCount>, GateError> {
        self.gate().count_units(campaign).await
    }

    pub async fn unsold_slots(&self, campaign: CampaignId) -> Result<Option<UnsoldSlots>, GateError> {
        self.gate().unsold_slots(campaign).await
    }

    /// Whether no claim on this campaign waits in a stream.
    pub async fn has_empty_streams(&self, campaign: &Campaign) -> Result<bool, GateError> {
        for shard in 0..campaign.shards.max(1) as usize {
            if self.gate().stream_length(campaign.id, shard).await? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The pool of this epoch must be reseeded: its grants contradict the ledger.
    pub fn mark_suspect(&self, campaign: CampaignId, epoch: u32) {
        self.0.mark_suspect(campaign, epoch);
    }

    /// The newest epoch in which the pool was marked as suspect since the last call.
    pub fn take_suspect_epoch(&self, campaign: CampaignId) -> Option<u32> {
        self.0.suspects.lock().remove(&campaign)
    }

    /// Notified when the gate should be reconciled with the ledger at once.
    pub fn reconcile_signal(&self) -> Arc<Notify> {
        self.0.reconcile.clone()
    }

    /// A new epoch has begun: this node's pending claims of earlier epochs are recorded as lost, unless they are orders
    /// already.
    pub async fn reject_claims_before(&self, campaign: CampaignId, epoch: u32) -> Result<(), LedgerError> {
        let Some(ledger) = self.0.ledger.get() else { return Ok(()) };
        let old = self.0.claims.pending.before_epoch(campaign, epoch);
        if old.is_empty() {
            return Ok(());
        }
        let now = old.iter().map(|claim| claim.created_at).max().unwrap_or_default();
        let outcomes = ledger.claims.record_from_stream(old.clone(), now).await?;
        self.0.settle(old.iter().zip(outcomes).map(|(claim, outcome)| (claim.id, outcome)));
        Ok(())
    }

    /// Announces news to all nodes, this one included.
    pub async fn publish(&self, news: &News) {
        if let Err(error) = news::publish(&self.0, news).await {
            // Every node also polls, twice a second.
            tracing::debug!(%error, "news could not be published");
        }
    }

    pub fn waiting_room(&self, campaign: CampaignId) -> RedisWaitingRoom {
        RedisWaitingRoom::new(self.link(), &self.0.options.prefix, campaign)
    }

    /// Answers the requests that wait for outcomes: they are late. Their claims stay pending.
    pub fn answer_as_late(&self) {
        self.0.claims.pending.answer_as_late();
    }

    /// Whether Redis answers within a second.
    pub async fn ping(&self) -> Result<(), GateError> {
        Ok(self.gate().link().ping().await?)
    }

    fn link(&self) -> Link {
        self.gate().link().clone()
    }
}

impl From<DecideError> for ClaimError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Rejected(rejection) => rejection.into(),
            DecideError::InFlight | DecideError::KeyUnchecked => Self::InFlight,
            DecideError::RateLimited => Self::RateLimited,
            DecideError::Unknown(reason) => Self::NotAppended(AppendError::Failed(reason)),
        }
    }
}

impl Shared {
    fn mark_suspect(&self, campaign: CampaignId, epoch: u32) {
        let mut suspects = self.suspects.lock();
        let newest = suspects.entry(campaign).or_insert(epoch);
        *newest = epoch.max(*newest);
    }
}
