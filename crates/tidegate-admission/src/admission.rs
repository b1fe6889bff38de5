//! `Admission`: the closed set of the two deployments, behind the operations that the use cases need.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::pool::{GateState, Withdrawal};
use tidegate_core::{
    Campaign, CampaignId, Claim, ClaimId, ClaimRequest, IdempotencyKey, Moment, Pass, PassRules, Rejection,
    Seed, StockEntry, UserId,
};
use tidegate_ledger::SqlLedger;
use tokio::sync::oneshot;

use crate::cluster::{Cluster, News};
use crate::embedded::Embedded;
use crate::embedded::buyer_locks::BuyerLock;
use crate::embedded::gate::MemoryGate;
use crate::embedded::journal::Journal;
use crate::gate::{Gate, GateError, PoolFigures};
use crate::intake::{AppendError, Unrecorded};
use crate::once_only::OnceOnly;
use crate::recorder::Listener;
use crate::waiting_room::WaitingRooms;

/// A claim that was granted and is in the intake. `durability` is `None` if requests do not wait for it.
#[derive(Debug)]
pub struct AcceptedClaim {
    pub claim: Arc<Claim>,
    pub durability: Option<Durability>,
}

/// Resolves once a claim is durable, or late.
#[derive(Debug)]
pub struct Durability {
    outcome: oneshot::Receiver<Result<(), AppendError>>,
    /// After this the claim is late. It stays in the intake.
    timeout: Duration,
}

impl Durability {
    pub fn new(outcome: oneshot::Receiver<Result<(), AppendError>>, timeout: Duration) -> Self {
        Self { outcome, timeout }
    }

    pub async fn wait(self) -> Result<(), AppendError> {
        let outcome =
            tokio::time::timeout(self.timeout, self.outcome).await.unwrap_or(Ok(Err(AppendError::Late)));
        outcome.map_err(|_| AppendError::Failed("the intake was closed".into()))?
    }
}

/// Why a claim was not accepted.
#[derive(Clone, Debug)]
pub enum ClaimError {
    Rejected(Rejection),
    /// A claim with the same idempotency key was accepted and is not durable yet.
    InFlight,
    /// The idempotency key was used before: the ledger has its result.
    Repeated,
    /// The buyer exceeds the rate limit, counted over all nodes.
    RateLimited,
    NotAppended(AppendError),
}

impl From<Rejection> for ClaimError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// Gate and intake at one moment, for a comparison with the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionState {
    pub figures: Option<PoolFigures>,
    /// Units in claims that are not recorded.
    pub queued: u32,
    /// The newest position of the journal; 0 without one.
    pub end: u64,
}

/// Where a claim was found.
#[derive(Clone, Debug)]
pub enum Located<T> {
    InIntake(Unrecorded),
    InLedger(T),
    Nowhere,
}

/// The clock of the recorder.
pub type Now = Arc<dyn Fn() -> Moment + Send + Sync>;

#[derive(Debug)]
pub enum Admission {
    Embedded(Embedded),
    Cluster(Cluster),
}

/// The same expression for both deployments.
macro_rules! either {
    ($admission:expr, $each:ident => $call:expr) => {
        match $admission {
            Admission::Embedded($each) => $call,
            Admission::Cluster($each) => $call,
        }
    };
}

impl Admission {
    /// `first_time_buyers` says whether buyers who have never claimed anything are remembered.
    pub fn embedded(gate: Arc<MemoryGate>, journal: Arc<Journal>, first_time_buyers: bool) -> Self {
        Self::Embedded(Embedded::new(gate, journal, first_time_buyers))
    }

    /// The operations that only a cluster has. For wiring: a use case asks for the operation it needs instead.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Embedded(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }

    /// The waiting rooms of its campaigns.
    pub fn waiting_rooms(&self) -> WaitingRooms {
        match self {
            Self::Embedded(embedded) => WaitingRooms::memory(embedded.rooms().clone()),
            Self::Cluster(cluster) => WaitingRooms::shared(cluster.clone()),
        }
    }

    /// Remembers values of this kind that may be used once.
    pub fn once_only(&self, kind: &'static str) -> OnceOnly {
        match self {
            Self::Embedded(_) => OnceOnly::memory(kind),
            Self::Cluster(cluster) => OnceOnly::shared(kind, cluster.clone()),
        }
    }

    /// Publishes news to all nodes; a single process has no other node.
    pub async fn publish(&self, news: News) {
        if let Self::Cluster(cluster) = self {
            cluster.publish(&news).await;
        }
    }

    /// Serialises the claims of one buyer. `None` in a cluster, where the gate and the ledger refuse a key that was
    /// used before.
    pub async fn lock_buyer(&self, user: UserId) -> Option<BuyerLock<'_>> {
        match self {
            Self::Embedded(embedded) => Some(embedded.lock_buyer(user).await),
            Self::Cluster(_) => None,
        }
    }

    /// Whether this process records every claim it accepts, so that a queued one can be waited for.
    pub fn records_locally(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// Resolves when a pool should be checked against the ledger at once.
    pub async fn reconcile_signal(&self) {
        match self {
            Self::Embedded(_) => std::future::pending().await,
            Self::Cluster(cluster) => cluster.reconcile_signal().notified().await,
        }
    }

    /// Starts recording. Embedded, it resolves once the claims of an earlier run are recorded.
    pub async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        either!(self, each => each.start(ledger, listener, now).await);
    }

    /// Records what it can within `timeout`, then accepts no more claims.
    pub async fn stop(&self, timeout: Duration) {
        either!(self, each => each.stop(timeout).await);
    }

    /// Decides a claim and appends it to the intake in one step. In a cluster the gate also limits the buyer's
    /// attempts on all nodes to `rate_per_s`; 0 for no limit.
    pub async fn claim(&self, request: ClaimRequest, rate_per_s: u32) -> Result<AcceptedClaim, ClaimError> {
        match self {
            Self::Embedded(embedded) => embedded.claim(request),
            Self::Cluster(cluster) => cluster.claim(request, rate_per_s).await,
        }
    }

    /// Claims that wait to be recorded, as last seen.
    pub fn depth(&self) -> usize {
        either!(self, each => each.depth())
    }

    /// Units left, as last seen; `None` if the pool is not known.
    pub fn units_left(&self, campaign: CampaignId) -> Option<u32> {
        either!(self, each => each.gate().units_left(campaign))
    }

    /// Units that the user holds; `None` if the user never claimed.
    pub async fn held_by(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        either!(self, each => each.gate().units_of(campaign, user).await)
    }

    /// Whether another node has accepted a claim with this key that is not recorded yet.
    pub async fn is_in_flight(
        &self,
        campaign: CampaignId,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<bool, GateError> {
        match self {
            Self::Embedded(_) => Ok(false),
            Self::Cluster(cluster) => cluster.gate().is_in_flight(campaign, user, key).await,
        }
    }

    /// The stock left of each of a draw's prizes.
    pub async fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        match self {
            Self::Embedded(embedded) => embedded.gate().prizes_left(campaign),
            Self::Cluster(cluster) => cluster.prizes_left(campaign).await,
        }
    }

    /// Issues a pass, or returns the one the user has, with the epoch it belongs to.
    pub async fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        either!(self, each => each.gate().issue_pass(campaign, user, rules, now, expires_at).await)
    }

    /// The claims of this user that are not recorded, as far as this process knows.
    pub fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        either!(self, each => each.unrecorded_of(user))
    }

    /// One claim of this user that is not recorded.
    pub async fn find(&self, user: UserId, claim: ClaimId) -> Result<Option<Unrecorded>, GateError> {
        match self {
            Self::Embedded(embedded) => {
                Ok(embedded.unrecorded_of(user).into_iter().find(|found| found.claim.id == claim))
            }
            Self::Cluster(cluster) => cluster.find(user, claim).await,
        }
    }

    /// A claim of this buyer in the intake or, by `recorded`, in the ledger. A claim that moves from one to the other
    /// meanwhile is not missed.
    pub async fn locate<T, E: From<GateError>, F>(
        &self,
        user: UserId,
        claim: ClaimId,
        recorded: impl Fn() -> F + Send,
    ) -> Result<Located<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>> + Send,
    {
        // In a cluster most claims are recorded, and the intake is asked over the network.
        if let Self::Cluster(_) = self
            && let Some(found) = recorded().await?
        {
            return Ok(Located::InLedger(found));
        }
        // The intake before the ledger: a claim that has left the intake is in the ledger.
        if let Some(found) = self.find(user, claim).await? {
            return Ok(Located::InIntake(found));
        }
        Ok(recorded().await?.map_or(Located::Nowhere, Located::InLedger))
    }

    /// Units in claims that are not recorded. A cluster is not asked about a campaign that does not run.
    pub async fn unrecorded_units(&self, campaign: &Campaign) -> u32 {
        match self {
            Self::Cluster(_) if !campaign.runs() => 0,
            _ => self.queued_units(campaign.id).await,
        }
    }

    /// Units in claims that are not recorded.
    pub async fn queued_units(&self, campaign: CampaignId) -> u32 {
        match self {
            Self::Embedded(embedded) => embedded.journal().queued_units(campaign),
            Self::Cluster(cluster) => cluster.gate().queued_units(campaign).await.unwrap_or(0),
        }
    }

    /// Waits until every claim that is durable now is recorded; `false` after `timeout`.
    pub async fn wait_until_recorded(&self, timeout: Duration) -> bool {
        match self {
            Self::Embedded(embedded) => {
                embedded.wait_until_recorded(embedded.journal().durable_end(), timeout).await
            }
            // In a cluster a claim is durable by being recorded.
            Self::Cluster(_) => true,
        }
    }

    /// Waits until every claim on this campaign that was accepted until now is recorded; `false` after `timeout`.
    pub async fn wait_until_drained(&self, campaign: CampaignId, timeout: Duration) -> bool {
        match self {
            Self::Embedded(embedded) => embedded.wait_until_drained(timeout).await,
            Self::Cluster(cluster) => cluster.wait_until_drained(campaign, timeout).await,
        }
    }

    pub async fn state(&self, campaign: CampaignId) -> Result<AdmissionState, GateError> {
        let figures = self.figures(campaign).await?;
        let end = match self {
            Self::Embedded(embedded) => embedded.journal().end(),
            Self::Cluster(_) => 0,
        };
        Ok(AdmissionState { figures, queued: self.queued_units(campaign).await, end })
    }

    pub async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        either!(self, each => each.gate().install(campaign, seed).await)
    }

    pub async fn set_gate_state(
        &self,
        campaign: CampaignId,
        state: GateState,
        as_of: Moment,
    ) -> Result<(), GateError> {
        either!(self, each => each.gate().set_gate_state(campaign, state, as_of).await)
    }

    pub async fn follow(
        &self,
        campaign: CampaignId,
        entries: &[StockEntry],
    ) -> Result<Option<u64>, GateError> {
        either!(self, each => each.gate().follow(campaign, entries).await)
    }

    pub async fn figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        either!(self, each => each.gate().figures(campaign).await)
    }

    pub async fn withdraw(&self, campaign: CampaignId, units: u32) -> Result<Option<Withdrawal>, GateError> {
        either!(self, each => each.gate().withdraw(campaign, units).await)
    }

    pub async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> Result<(), GateError> {
        either!(self, each => each.gate().put_back(campaign, withdrawal).await)
    }

    /// Drops the pool of a campaign that has ended.
    pub fn remove(&self, campaign: CampaignId) {
        match self {
            Self::Embedded(embedded) => {
                embedded.gate().remove(campaign);
                embedded.rooms().forget(campaign);
            }
            Self::Cluster(cluster) => cluster.gate().close(campaign),
        }
    }
}
