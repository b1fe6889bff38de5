//! Admission: the gate and its intake as one. Decides claims, and keeps them until the ledger has them.
//!
//! The same for one process and for many nodes: `embedded` has its gate in memory and a journal on disk, `cluster` both on
//! Redis. What always holds: a claim that was taken is in the intake in the same step; what `kept` says is for ever.

pub mod cluster;
pub mod embedded;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimId, ClaimRequest, IdempotencyKey, Moment, Pass, PassRules, Rejection, Seed,
    StockEntry, UserId,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use self::cluster::{Cluster, News};
pub use self::embedded::Embedded;
use crate::gate::memory::MemoryGate;
use crate::gate::{Gate, GateError, PoolFigures};
use crate::intake::journal::Journal;
use crate::intake::{AppendError, Unrecorded};
use crate::ledger::sql::SqlLedger;
use crate::recorder::Listener;

/// A claim that was taken, and the news of it; none where nobody waits for that.
#[derive(Debug)]
pub struct Taken {
    pub claim: Arc<Claim>,
    pub kept: Option<Kept>,
}

/// Resolves once a claim is durable, or late.
#[derive(Debug)]
pub struct Kept {
    told: oneshot::Receiver<Result<(), AppendError>>,
    /// When it is late; none where the intake says so.
    within: Option<Duration>,
}

impl Kept {
    pub async fn wait(self) -> Result<(), AppendError> {
        let told = match self.within {
            None => self.told.await,
            Some(within) => timeout(within, self.told).await.unwrap_or(Ok(Err(AppendError::Late))),
        };
        told.map_err(|_| AppendError::Failed("the intake was closed".into()))?
    }
}

/// Why a claim was not taken.
#[derive(Clone, Debug)]
pub enum NotTaken {
    Rejected(Rejection),
    /// A claim with its key was taken and is not durable yet.
    InFlight,
    /// Its key has made something before.
    Repeated,
    /// Its buyer has asked too often, at all nodes together.
    TooOften,
    NotKept(AppendError),
}

impl From<Rejection> for NotTaken {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// How gate and intake stand, for whoever compares them with the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub figures: Option<PoolFigures>,
    /// Units in claims that are not recorded.
    pub queued: u32,
    /// The newest position of a journal.
    pub end: u64,
}

/// The time, for whoever records.
pub type Now = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A closed set of backends.
#[derive(Debug)]
pub enum Admission {
    Embedded(Embedded),
    Cluster(Cluster),
}

/// Asks whichever it is.
macro_rules! either {
    ($admission:expr, $each:ident => $ask:expr) => {
        match $admission {
            Admission::Embedded($each) => $ask,
            Admission::Cluster($each) => $ask,
        }
    };
}

impl Admission {
    pub fn embedded(gate: Arc<MemoryGate>, journal: Arc<Journal>) -> Self {
        Self::Embedded(Embedded::new(gate, journal))
    }

    pub fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    /// What only many nodes need.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Embedded(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }

    /// Starts recording; resolves once what was left from before is recorded, where only this process can do it.
    pub async fn start(&self, ledger: Arc<SqlLedger>, listener: Arc<dyn Listener>, now: Now) {
        either!(self, each => each.start(ledger, listener, now).await);
    }

    /// Records what it can, then takes nothing more.
    pub async fn stop(&self, within: Duration) {
        either!(self, each => each.stop(within).await);
    }

    /// Decides at the gate and takes the claim into the intake, in one step. Where there are many nodes the gate counts how
    /// often its buyer asks, and refuses more than `per_s` a second; 0 for as often as they like.
    pub async fn claim(&self, request: ClaimRequest, per_s: u32) -> Result<Taken, NotTaken> {
        match self {
            Self::Embedded(embedded) => embedded.claim(request),
            Self::Cluster(cluster) => cluster.claim(request, per_s).await,
        }
    }

    /// Claims that wait to be recorded, as of a moment ago.
    pub fn depth(&self) -> usize {
        either!(self, each => each.depth())
    }

    /// Units left, as of a moment ago; `None` where no pool is known.
    pub fn left(&self, campaign: CampaignId) -> Option<u32> {
        either!(self, each => each.gate().left(campaign))
    }

    /// Units the user holds; `None` if the user never claimed there.
    pub async fn held_by(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        either!(self, each => each.gate().units_of(campaign, user).await)
    }

    /// Whether another node has taken a claim with this key that is not recorded yet.
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

    /// What is left of each of a draw's prizes.
    pub async fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        match self {
            Self::Embedded(embedded) => embedded.gate().prizes_left(campaign),
            Self::Cluster(cluster) => cluster.prizes_left(campaign).await,
        }
    }

    /// Issues a pass, or gives the one the user has; and the epoch it belongs to.
    pub async fn pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        either!(self, each => each.gate().issue_pass(campaign, user, rules, now, expires_at).await)
    }

    /// What this buyer has in the intake, as far as this process knows.
    pub fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        either!(self, each => each.of_buyer(user))
    }

    /// One claim of this buyer that is not recorded.
    pub async fn find(&self, user: UserId, claim: ClaimId) -> Result<Option<Unrecorded>, GateError> {
        match self {
            Self::Embedded(embedded) => {
                Ok(embedded.of_buyer(user).into_iter().find(|found| found.claim.id == claim))
            }
            Self::Cluster(cluster) => cluster.find(user, claim).await,
        }
    }

    /// Units in claims that are not recorded.
    pub async fn queued_units(&self, campaign: CampaignId) -> u32 {
        match self {
            Self::Embedded(embedded) => embedded.journal().queued_units(campaign),
            Self::Cluster(cluster) => cluster.gate().queued_units(campaign).await.unwrap_or(0),
        }
    }

    /// Waits, within a bound, until everything that is durable now is recorded.
    pub async fn caught_up(&self, within: Duration) -> bool {
        match self {
            Self::Embedded(embedded) => embedded.caught_up(embedded.journal().durable_end(), within).await,
            // What was told to be an order is one.
            Self::Cluster(_) => true,
        }
    }

    /// Waits, within a bound, until every claim on this campaign that was accepted until now is recorded.
    pub async fn drained(&self, campaign: CampaignId, within: Duration) -> bool {
        match self {
            Self::Embedded(embedded) => embedded.caught_up(embedded.journal().end(), within).await,
            Self::Cluster(cluster) => cluster.drained(campaign, within).await,
        }
    }

    pub async fn standing(&self, campaign: CampaignId) -> Result<Standing, GateError> {
        let figures = self.figures(campaign).await?;
        let end = match self {
            Self::Embedded(embedded) => embedded.journal().end(),
            Self::Cluster(_) => 0,
        };
        Ok(Standing { figures, queued: self.queued_units(campaign).await, end })
    }

    pub async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        either!(self, each => each.gate().install(campaign, seed).await)
    }

    pub async fn set_door(&self, campaign: CampaignId, door: Door, as_of: Moment) -> Result<(), GateError> {
        either!(self, each => each.gate().set_door(campaign, door, as_of).await)
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

    /// The campaign does not run any more: its pool is let go.
    pub fn remove(&self, campaign: CampaignId) {
        match self {
            Self::Embedded(embedded) => embedded.gate().remove(campaign),
            Self::Cluster(cluster) => cluster.gate().forget(campaign),
        }
    }
}
