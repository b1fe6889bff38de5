//! The port of the gate: decides claims. Fast and rebuildable; the ledger is the authority.
//!
//! Every gate guarantees: the rules are applied atomically per pool, a rejection changes nothing, and applying the same
//! stock log entries twice changes nothing. The suite `conformance::gate` checks every implementation.

use std::future::Future;

use tidegate_core::pool::{GateState, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Slot, StockEntry, UserId,
};

/// The gate did not answer; whether it carried out the operation is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the gate does not answer: {0}")]
pub struct GateError(pub String);

/// A pool's figures at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    pub epoch: u32,
    pub version: u64,
    pub free: u32,
    /// Units in transit from one shard to another.
    pub in_transit: u32,
    /// The last stock log entry applied.
    pub applied: u64,
    /// `None` if the shards have different states.
    pub gate_state: Option<GateState>,
}

/// The units of a pool that are not in the ledger: free, in transit, or in claims that are not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCount {
    pub epoch: u32,
    /// The last stock log entry that the gate has applied for certain.
    pub applied: u64,
    pub units: u64,
}

/// The slots of these units; some may be listed twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsoldSlots {
    pub epoch: u32,
    pub applied: u64,
    pub slots: Vec<Slot>,
}

/// Decides claims. A pool that was never installed answers `not_ready`.
pub trait Gate: Send + Sync + 'static {
    /// Installs a pool and replaces one of an earlier epoch: used for publishing and reseeding.
    fn install(&self, campaign: CampaignId, seed: Seed)
    -> impl Future<Output = Result<(), GateError>> + Send;

    fn claim(&self, request: ClaimRequest) -> impl Future<Output = Result<Claim, Rejection>> + Send;

    /// Issues a pass, or returns the one the user has, with the epoch it belongs to.
    fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> impl Future<Output = Result<(Pass, u32), Rejection>> + Send;

    /// Applies stock log entries in order and skips those already applied. Returns the last entry applied.
    fn follow(
        &self,
        campaign: CampaignId,
        entries: &[StockEntry],
    ) -> impl Future<Output = Result<Option<u64>, GateError>> + Send;

    /// Takes up to `units` free units out of sale. The ledger records it, or `put_back` undoes it.
    fn withdraw(
        &self,
        campaign: CampaignId,
        units: u32,
    ) -> impl Future<Output = Result<Option<Withdrawal>, GateError>> + Send;

    fn put_back(
        &self,
        campaign: CampaignId,
        withdrawal: Withdrawal,
    ) -> impl Future<Output = Result<(), GateError>> + Send;

    /// Opens, pauses or closes the gate. Once it returns `Ok`, no claim is granted unless the gate is open. `as_of`
    /// is when the state was decided: a state older than the current one is ignored.
    fn set_gate_state(
        &self,
        campaign: CampaignId,
        state: GateState,
        as_of: Moment,
    ) -> impl Future<Output = Result<(), GateError>> + Send;

    /// `None` if no pool is installed, or the gate has lost it.
    fn figures(
        &self,
        campaign: CampaignId,
    ) -> impl Future<Output = Result<Option<PoolFigures>, GateError>> + Send;

    /// Units that the user holds; `None` if the user never claimed.
    fn units_of(
        &self,
        campaign: CampaignId,
        user: UserId,
    ) -> impl Future<Output = Result<Option<u32>, GateError>> + Send;
}
