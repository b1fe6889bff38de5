//! The gate: hot admission. Decides claims; fast, rebuildable, never the authority.
//!
//! What every gate guarantees: a batch of rules applied atomically per pool, rejections that change nothing,
//! and that following the same stock log twice changes nothing. `conformance::gate` holds them to it.

pub mod memory;
pub mod redis;

use std::future::Future;

use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, StockEntry, UserId,
};

/// What a pool looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    pub epoch: u32,
    pub version: u64,
    pub free: u32,
    pub applied: u64,
}

/// Decides claims. A pool that was never installed answers `not_ready`.
pub trait Gate: Send + Sync + 'static {
    /// Installs a pool, replacing what was there of an earlier epoch: publishing and reseeding.
    fn install(&self, campaign: CampaignId, seed: Seed) -> impl Future<Output = ()> + Send;

    fn claim(&self, request: ClaimRequest) -> impl Future<Output = Result<Claim, Rejection>> + Send;

    /// Issues a pass, or gives the one the user has; and the epoch it belongs to.
    fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> impl Future<Output = Result<(Pass, u32), Rejection>> + Send;

    /// Gives back a claim that reached no intake.
    fn undo(&self, claim: &Claim) -> impl Future<Output = ()> + Send;

    /// Takes in log entries, in order; skips those it has. Returns the last it has afterwards.
    fn follow(
        &self,
        campaign: CampaignId,
        entries: &[StockEntry],
    ) -> impl Future<Output = Option<u64>> + Send;

    /// Takes up to `units` free units out of sale; the ledger records it, or `put_back` undoes it.
    fn withdraw(&self, campaign: CampaignId, units: u32) -> impl Future<Output = Option<Withdrawal>> + Send;

    fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> impl Future<Output = ()> + Send;

    /// After this returns no claim gets through a door that is not open.
    fn set_door(&self, campaign: CampaignId, door: Door) -> impl Future<Output = ()> + Send;

    fn figures(&self, campaign: CampaignId) -> impl Future<Output = Option<PoolFigures>> + Send;

    /// Units the user holds; `None` if the user never claimed there.
    fn units_of(&self, campaign: CampaignId, user: UserId) -> impl Future<Output = Option<u32>> + Send;
}
