//! The embedded gate: the core's pools, each behind its own lock.
//!
//! What always holds: a pool's lock is never held across I/O, and `left` follows every change, so that a
//! sold-out sale is refused without taking the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use tidegate_core::pool::{Door, Followed, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Pool, Rejection, Seed, StockEntry, UserId,
};

use super::{Gate, PoolFigures};

#[derive(Debug)]
struct Cell {
    pool: Mutex<Pool>,
    left: AtomicU32,
}

#[derive(Debug, Default)]
pub struct MemoryGate {
    pools: RwLock<HashMap<CampaignId, Arc<Cell>>>,
}

impl MemoryGate {
    /// Decides one claim, without waiting for anything but the pool's lock.
    pub fn decide(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        self.change(request.campaign, |pool| {
            let slots = pool.claim(request.user, request.quantity, request.limit, request.shown)?;
            Ok(request.granted(slots, pool.epoch(), pool.version()))
        })
        .unwrap_or(Err(Rejection::NotReady))
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

    /// Gives back a claim that reached no intake.
    pub fn forget(&self, claim: &Claim) {
        self.change(claim.campaign, |pool| {
            // A pool installed since then has never heard of the claim.
            if pool.epoch() == claim.epoch {
                pool.undo(claim.user, &claim.slots);
            }
        });
    }

    /// Units left, as of a moment ago; `None` where no pool is installed.
    pub fn left(&self, campaign: CampaignId) -> Option<u32> {
        self.pools.read().get(&campaign).map(|cell| cell.left.load(Ordering::Acquire))
    }

    /// Units the user holds; `None` if the user never claimed there.
    pub fn held_by(&self, campaign: CampaignId, user: UserId) -> Option<u32> {
        self.change(campaign, |pool| pool.units_of(user)).flatten()
    }

    pub fn remove(&self, campaign: CampaignId) {
        self.pools.write().remove(&campaign);
    }

    fn change<T>(&self, campaign: CampaignId, act: impl FnOnce(&mut Pool) -> T) -> Option<T> {
        let cell = self.pools.read().get(&campaign).cloned()?;
        let mut pool = cell.pool.lock();
        let answer = act(&mut pool);
        cell.left.store(pool.free(), Ordering::Release);
        Some(answer)
    }
}

impl Gate for MemoryGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) {
        let pool = Pool::from_seed(seed);
        let left = AtomicU32::new(pool.free());
        self.pools.write().insert(campaign, Arc::new(Cell { pool: Mutex::new(pool), left }));
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        self.decide(request)
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

    async fn undo(&self, claim: &Claim) {
        self.forget(claim);
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Option<u64> {
        self.change(campaign, |pool| {
            for entry in entries {
                if pool.follow(entry) == Followed::Gap {
                    break;
                }
            }
            pool.applied()
        })
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Option<Withdrawal> {
        self.change(campaign, |pool| pool.withdraw(units))
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) {
        self.change(campaign, |pool| pool.put_back(withdrawal));
    }

    async fn set_door(&self, campaign: CampaignId, door: Door) {
        self.change(campaign, |pool| pool.set_door(door));
    }

    async fn figures(&self, campaign: CampaignId) -> Option<PoolFigures> {
        self.change(campaign, |pool| PoolFigures {
            epoch: pool.epoch(),
            version: pool.version(),
            free: pool.free(),
            applied: pool.applied(),
        })
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Option<u32> {
        self.held_by(campaign, user)
    }
}
