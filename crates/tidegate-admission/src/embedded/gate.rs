//! The embedded gate: the core's pools, each behind its own lock.
//!
//! Invariants: a pool's lock is never held across I/O; `left` is updated with every change, so that a claim on a
//! sold-out sale is rejected without taking the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::pool::{Followed, GateState, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Pool, Rejection, Seed, StockEntry, UserId,
};

use crate::gate::{Gate, GateError, PoolFigures};

#[derive(Debug)]
struct PoolCell {
    pool: Mutex<Pool>,
    left: AtomicU32,
}

#[derive(Debug, Default)]
pub struct MemoryGate {
    /// Read by every claim and rarely changed: a read writes no memory that other cores share.
    pools: ArcSwap<HashMap<CampaignId, Arc<PoolCell>>>,
}

impl MemoryGate {
    /// Decides a claim and calls `append` under the pool's lock, so that claims are appended in the order of
    /// decision. If `append` fails, the decision is undone.
    pub fn decide<T, E: From<Rejection>>(
        &self,
        request: ClaimRequest,
        append: impl FnOnce(&Arc<Claim>) -> Result<T, E>,
    ) -> Result<(Arc<Claim>, T), E> {
        let decided = self.with_pool(request.campaign, |pool| {
            let claim = Arc::new(pool.decide(request)?);
            match append(&claim) {
                Ok(appended) => Ok((claim, appended)),
                Err(error) => {
                    pool.undo(&claim);
                    Err(error)
                }
            }
        });
        decided.unwrap_or_else(|| Err(Rejection::NotReady.into()))
    }

    /// The stock left of each of a draw's prizes.
    pub fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        self.with_pool(campaign, |pool| pool.prizes_left().to_vec())
    }

    /// Undoes a claim that the intake could not keep.
    pub fn undo(&self, claim: &Claim) {
        self.with_pool(claim.campaign, |pool| {
            // A pool installed since then does not contain the claim.
            if pool.epoch() == claim.epoch {
                pool.undo(claim);
            }
        });
    }

    /// Units left; `None` if no pool is installed.
    pub fn units_left(&self, campaign: CampaignId) -> Option<u32> {
        self.pools.load().get(&campaign).map(|cell| cell.left.load(Ordering::Acquire))
    }

    pub fn remove(&self, campaign: CampaignId) {
        self.pools.rcu(|pools| {
            let mut pools = HashMap::clone(pools);
            pools.remove(&campaign);
            pools
        });
    }

    /// Runs `act` on the pool under its lock; `None` if no pool is installed.
    fn with_pool<T>(&self, campaign: CampaignId, act: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let pools = self.pools.load();
        let cell = pools.get(&campaign)?;
        let mut pool = cell.pool.lock();
        let result = act(&mut pool);
        cell.left.store(pool.free(), Ordering::Release);
        Some(result)
    }
}

impl Gate for MemoryGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        // Shuffling a large deck takes long.
        let built = tokio::task::spawn_blocking(|| Pool::from_seed(seed)).await;
        let pool = built.map_err(|panic| GateError(panic.to_string()))?;
        let left = AtomicU32::new(pool.free());
        let cell = Arc::new(PoolCell { pool: Mutex::new(pool), left });
        self.pools.rcu(|pools| {
            let mut pools = HashMap::clone(pools);
            pools.insert(campaign, cell.clone());
            pools
        });
        Ok(())
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        self.decide(request, |_| Ok::<(), Rejection>(())).map(|(claim, ())| Arc::unwrap_or_clone(claim))
    }

    async fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        let issue = |pool: &mut Pool| Ok((pool.issue_pass(user, rules, now, expires_at)?, pool.epoch()));
        self.with_pool(campaign, issue).unwrap_or(Err(Rejection::NotReady))
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Result<Option<u64>, GateError> {
        Ok(self.with_pool(campaign, |pool| {
            for entry in entries {
                if pool.follow(entry) == Followed::Gap {
                    break;
                }
            }
            pool.applied()
        }))
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Result<Option<Withdrawal>, GateError> {
        Ok(self.with_pool(campaign, |pool| pool.withdraw(units)))
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> Result<(), GateError> {
        self.with_pool(campaign, |pool| {
            // A pool installed since then counts these units as free already.
            if pool.epoch() == withdrawal.epoch {
                pool.put_back(withdrawal);
            }
        });
        Ok(())
    }

    /// `as_of` is ignored: in one process the states are set in the order in which they were decided.
    async fn set_gate_state(
        &self,
        campaign: CampaignId,
        state: GateState,
        _: Moment,
    ) -> Result<(), GateError> {
        self.with_pool(campaign, |pool| pool.set_gate_state(state));
        Ok(())
    }

    async fn figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        Ok(self.with_pool(campaign, |pool| PoolFigures {
            epoch: pool.epoch(),
            version: pool.version(),
            free: pool.free(),
            in_transit: 0,
            applied: pool.applied(),
            gate_state: Some(pool.gate_state()),
        }))
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        Ok(self.with_pool(campaign, |pool| pool.units_of(user)).flatten())
    }
}
