//! Figures of a pool: read shard by shard, and checked against what this node has seen before.

use std::sync::atomic::Ordering;

use tidegate_core::CampaignId;

use super::replies::ShardFigures;
use super::script::Operation;
use super::{PoolHandle, RedisGate};
use crate::gate::{GateError, PoolFigures};

impl PoolHandle {
    fn update(&self, shards: &[ShardFigures]) {
        for (queue, shard) in self.shards.iter().zip(shards) {
            queue.view.update(shard.version(), shard.unsold());
        }
        if shards.iter().any(|shard| shard.unsold() > 0) {
            self.sold_out.store(false, Ordering::Release);
        }
    }
}

impl RedisGate {
    /// The figures of every shard. `None` if a shard is missing, or has lost writes: its version is below what this
    /// node has seen.
    pub(super) async fn shard_figures(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
    ) -> Result<Option<Vec<ShardFigures>>, GateError> {
        let mut shards = Vec::with_capacity(pool.shards.len());
        for (shard, queue) in pool.shards.iter().enumerate() {
            let seen = queue.view.version();
            let figures: Option<ShardFigures> = self.call(campaign, shard, Operation::Figures, &[]).await?;
            match figures.filter(|figures| figures.version() >= seen) {
                Some(figures) => shards.push(figures),
                None => return Ok(None),
            }
        }
        pool.update(&shards);
        Ok(Some(shards))
    }

    pub(super) async fn pool_figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let Some(shards) = self.shard_figures(campaign, &pool).await? else { return Ok(None) };
        if shards.iter().all(|shard| shard.unsold() == 0) {
            // A unit may have moved from a shard that was not read yet to one that was read before: several shards are
            // empty only if a second reading finds the same.
            let is_certain = shards.len() == 1
                || self.shard_figures(campaign, &pool).await?.is_some_and(|again| again == shards);
            if is_certain {
                pool.sold_out.store(true, Ordering::Release);
            }
        }
        Ok(shards.iter().map(|shard| shard.pool).reduce(|one, other| PoolFigures {
            epoch: one.epoch.min(other.epoch),
            version: one.version + other.version,
            free: one.free + other.free,
            in_transit: one.in_transit + other.in_transit,
            applied: one.applied.min(other.applied),
            gate_state: one.gate_state.filter(|_| one.gate_state == other.gate_state),
        }))
    }
}
