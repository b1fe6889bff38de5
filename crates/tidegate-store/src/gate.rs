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

/// The gate did not answer; whether it did what it was asked is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the gate does not answer: {0}")]
pub struct GateError(pub String);

/// What a pool looks like from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFigures {
    pub epoch: u32,
    pub version: u64,
    pub free: u32,
    /// Units on their way from one part of the pool to another.
    pub moving: u32,
    pub applied: u64,
    /// `None` where parts of the pool have different ones.
    pub door: Option<Door>,
}

/// Decides claims. A pool that was never installed answers `not_ready`.
pub trait Gate: Send + Sync + 'static {
    /// Installs a pool, replacing what was there of an earlier epoch: publishing and reseeding.
    fn install(&self, campaign: CampaignId, seed: Seed)
    -> impl Future<Output = Result<(), GateError>> + Send;

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

    /// Takes in log entries, in order; skips those it has. Returns the last it has afterwards.
    fn follow(
        &self,
        campaign: CampaignId,
        entries: &[StockEntry],
    ) -> impl Future<Output = Result<Option<u64>, GateError>> + Send;

    /// Takes up to `units` free units out of sale; the ledger records it, or `put_back` undoes it.
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

    /// After this returned `Ok` no claim gets through a door that is not open. What held earlier than what was said last is
    /// not listened to: `as_of` is when it did.
    fn set_door(
        &self,
        campaign: CampaignId,
        door: Door,
        as_of: Moment,
    ) -> impl Future<Output = Result<(), GateError>> + Send;

    /// `None` where no pool is installed, or the gate has forgotten it.
    fn figures(
        &self,
        campaign: CampaignId,
    ) -> impl Future<Output = Result<Option<PoolFigures>, GateError>> + Send;

    /// Units the user holds; `None` if the user never claimed there.
    fn units_of(
        &self,
        campaign: CampaignId,
        user: UserId,
    ) -> impl Future<Output = Result<Option<u32>, GateError>> + Send;
}
