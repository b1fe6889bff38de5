//! Accounts for the units of a pool, while it sells, so that units that nobody has can be found.
//!
//! Every unit is free at a shard, in transit between shards, in a claim in a stream, or held in the ledger. Each shard
//! is read in one step, and the ledger after all shards. A claim that is recorded in between is then counted twice and
//! never missed: what is still missing is truly lost.

use tidegate_core::{CampaignId, Slot};

use super::replies::{ShardFigures, UnsoldReply};
use super::script::Operation;
use super::{PoolHandle, RedisGate};
use crate::cluster::stream::Entries;
use crate::gate::{GateError, UnitCount, UnsoldSlots};

/// Entries of a stream in one call.
const PAGE: usize = 500;

fn transfers(shards: &[ShardFigures]) -> Vec<(u32, u32)> {
    shards.iter().map(|shard| (shard.outgoing, shard.arrived)).collect()
}

impl RedisGate {
    /// `None` if the pool is not installed, or units moved between shards meanwhile.
    pub(crate) async fn count_units(&self, campaign: CampaignId) -> Result<Option<UnitCount>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let Some(shards) = self.shard_figures(campaign, &pool).await? else { return Ok(None) };
        let count = shards.iter().map(|shard| UnitCount {
            epoch: shard.pool.epoch,
            applied: shard.pool.applied,
            units: u64::from(shard.unsold()) + u64::from(shard.queued_units),
        });
        let count = count.reduce(|one, other| UnitCount {
            epoch: one.epoch.min(other.epoch),
            applied: one.applied.min(other.applied),
            units: one.units + other.units,
        });
        Ok(if self.has_moved(campaign, &pool, &shards).await? { None } else { count })
    }

    /// Whether units have moved between shards since `before`: some may have been missed.
    async fn has_moved(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
        before: &[ShardFigures],
    ) -> Result<bool, GateError> {
        if before.len() == 1 {
            return Ok(false);
        }
        let after = self.shard_figures(campaign, pool).await?;
        Ok(after.is_none_or(|after| transfers(&after) != transfers(before)))
    }

    /// The slots that the gate can sell, or has sold to claims that are not recorded. `None` as for `count_units`.
    pub(crate) async fn unsold_slots(&self, campaign: CampaignId) -> Result<Option<UnsoldSlots>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let Some(before) = self.shard_figures(campaign, &pool).await? else { return Ok(None) };
        let mut found: Option<UnsoldSlots> = None;
        for shard in 0..pool.shards.len() {
            let reply: Option<UnsoldReply> = self.call(campaign, shard, Operation::UnsoldSlots, &[]).await?;
            let Some(reply) = reply else { return Ok(None) };
            let UnsoldReply { epoch, applied, next, top, shards, slots } = reply;
            let found = found.get_or_insert(UnsoldSlots { epoch, applied, slots: Vec::new() });
            if found.epoch != epoch {
                return Ok(None);
            }
            found.applied = found.applied.min(applied);
            found.slots.extend(slots);
            found.slots.extend((next..=top).step_by(shards.max(1) as usize));
            // After the free slots: a slot that is taken in between is in both, never in neither.
            found.slots.extend(self.queued_slots(campaign, shard).await?);
        }
        Ok(if self.has_moved(campaign, &pool, &before).await? { None } else { found })
    }

    async fn queued_slots(&self, campaign: CampaignId, shard: usize) -> Result<Vec<Slot>, GateError> {
        let (key, mut after, mut slots) = (self.intake_key(campaign, shard), "-".to_owned(), Vec::new());
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&key).arg(&after).arg("+").arg("COUNT").arg(PAGE);
            let page: Entries = command.query_async(&mut self.link.clone()).await?;
            let Some(last) = page.0.last().map(|entry| entry.id().to_owned()) else { return Ok(slots) };
            for entry in page.0 {
                let claims = entry.decode().claims;
                slots.extend(claims.iter().flat_map(|claim| claim.slots.iter()));
            }
            after = format!("({last}");
        }
    }
}
