//! The embedded gate: the core's pools, each behind its own lock.
//!
//! What always holds: a pool's lock is never held across I/O, and `left` follows every change, so that a
//! sold-out sale is refused without taking the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::pool::{Door, Followed, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Pool, Rejection, Seed, StockEntry, UserId,
};

use super::{Gate, GateError, PoolFigures};

#[derive(Debug)]
struct Cell {
    pool: Mutex<Pool>,
    left: AtomicU32,
}

#[derive(Debug, Default)]
pub struct MemoryGate {
    /// Read by every claim, changed by few: readers write nothing that another core has to fetch.
    pools: ArcSwap<HashMap<CampaignId, Arc<Cell>>>,
}

impl MemoryGate {
    /// Decides one claim and hands it to `append`, in one step: claims of a pool are appended in the order in which they
    /// were decided, and one that cannot be appended was never decided. Waits for nothing but the pool's lock.
    pub fn decide<T, E: From<Rejection>>(
        &self,
        request: ClaimRequest,
        append: impl FnOnce(&Arc<Claim>) -> Result<T, E>,
    ) -> Result<(Arc<Claim>, T), E> {
        let decided = self.change(request.campaign, |pool| {
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

    /// What is left of each of a draw's prizes.
    pub fn prizes_left(&self, campaign: CampaignId) -> Option<Vec<u32>> {
        self.change(campaign, |pool| pool.prizes_left().to_vec())
    }

    /// Issues a pass, or gives the one the user has; and the epoch it belongs to.
    pub fn pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        self.change(campaign, |pool| Ok((pool.issue_pass(user, rules, now, expires_at)?, pool.epoch())))
            .unwrap_or(Err(Rejection::NotReady))
    }

    /// Gives back a claim that the intake could not keep.
    pub fn forget(&self, claim: &Claim) {
        self.change(claim.campaign, |pool| {
            // A pool installed since then has never heard of the claim.
            if pool.epoch() == claim.epoch {
                pool.undo(claim);
            }
        });
    }

    /// Units left, as of a moment ago; `None` where no pool is installed.
    pub fn left(&self, campaign: CampaignId) -> Option<u32> {
        self.pools.load().get(&campaign).map(|cell| cell.left.load(Ordering::Acquire))
    }

    /// Units the user holds; `None` if the user never claimed there.
    pub fn held_by(&self, campaign: CampaignId, user: UserId) -> Option<u32> {
        self.change(campaign, |pool| pool.units_of(user)).flatten()
    }

    pub fn remove(&self, campaign: CampaignId) {
        self.pools.rcu(|pools| {
            let mut pools = HashMap::clone(pools);
            pools.remove(&campaign);
            pools
        });
    }

    fn change<T>(&self, campaign: CampaignId, act: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let pools = self.pools.load();
        let cell = pools.get(&campaign)?;
        let mut pool = cell.pool.lock();
        let answer = act(&mut pool);
        cell.left.store(pool.free(), Ordering::Release);
        Some(answer)
    }
}

impl Gate for MemoryGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        // A large deck takes a while to shuffle.
        let built = tokio::task::spawn_blocking(|| Pool::from_seed(seed)).await;
        let pool = built.map_err(|panic| GateError(panic.to_string()))?;
        let left = AtomicU32::new(pool.free());
        let cell = Arc::new(Cell { pool: Mutex::new(pool), left });
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
        self.pass(campaign, user, rules, now, expires_at)
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Result<Option<u64>, GateError> {
        Ok(self.change(campaign, |pool| {
            for entry in entries {
                if pool.follow(entry) == Followed::Gap {
                    break;
                }
            }
            pool.applied()
        }))
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Result<Option<Withdrawal>, GateError> {
        Ok(self.change(campaign, |pool| pool.withdraw(units)))
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> Result<(), GateError> {
        self.change(campaign, |pool| {
            // A pool installed since then counts them as free already.
            if pool.epoch() == withdrawal.epoch {
                pool.put_back(withdrawal);
            }
        });
        Ok(())
    }

    /// Whoever sets it here does so in the order of what happened.
    async fn set_door(&self, campaign: CampaignId, door: Door, _: Moment) -> Result<(), GateError> {
        self.change(campaign, |pool| pool.set_door(door));
        Ok(())
    }

    async fn figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        Ok(self.change(campaign, |pool| PoolFigures {
            epoch: pool.epoch(),
            version: pool.version(),
            free: pool.free(),
            moving: 0,
            applied: pool.applied(),
            door: Some(pool.door()),
        }))
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        Ok(self.held_by(campaign, user))
    }
}
