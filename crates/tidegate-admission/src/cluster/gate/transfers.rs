//! Transfers between shards: units leave one shard, arrive at another, and are acknowledged.
//!
//! Any node can repeat any step of a transfer, also one that another node began. "Sold out" is reported only if all
//! shards together have too few units and nothing is in transit between them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tidegate_core::{CampaignId, Rejection};

use super::encoding::arg;
use super::replies::{ShardFigures, Transfer};
use super::script::Operation;
use super::{PoolHandle, RedisGate};

/// The number of the next transfer. Rising in this process, whatever pool it is for.
static NEXT_TRANSFER: AtomicU64 = AtomicU64::new(0);

/// The last attempt to move units, shared by all claims that wait for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferAttempt {
    started: Instant,
    needed: u32,
    result: Result<(), Rejection>,
}

impl TransferAttempt {
    /// Whether the attempt also answers a request made at `requested` for `needed` units. A failure to find many
    /// units does not answer a request for fewer.
    fn answers(&self, requested: Instant, needed: u32) -> bool {
        self.started > requested && (self.result.is_ok() || self.needed <= needed)
    }
}

impl RedisGate {
    /// Moves units to a shard that has fewer than `needed`: completes transfers that are in transit, else takes half
    /// of the units of the fullest shard, or more if needed. `Err(SoldOut)` only if all shards together have too few
    /// and nothing is in transit.
    pub(super) async fn transfer_to(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
        target: usize,
        needed: u32,
    ) -> Result<(), Rejection> {
        let requested = Instant::now();
        let mut last = pool.last_transfer.lock().await;
        if let Some(attempt) = last.filter(|attempt| attempt.answers(requested, needed)) {
            return attempt.result;
        }
        let started = Instant::now();
        let result = self.find_units(campaign, pool, target, needed).await;
        *last = Some(TransferAttempt { started, needed, result });
        result
    }

    async fn find_units(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
        target: usize,
        needed: u32,
    ) -> Result<(), Rejection> {
        let shards = self.figures_or_not_ready(campaign, pool).await?;
        let here = shards[target].pool.free;
        if here >= needed {
            return Ok(());
        }
        let mut completed = false;
        for (source, _) in shards.iter().enumerate().filter(|(_, shard)| shard.outgoing > 0) {
            completed |= self.complete_transfers(campaign, source).await;
        }
        if completed {
            return Ok(());
        }
        if shards.iter().any(|shard| shard.outgoing > 0) {
            return Err(Rejection::Busy);
        }
        if shards.iter().map(|shard| shard.pool.free).sum::<u32>() < needed {
            return Err(self.confirm_sold_out(campaign, pool, &shards).await?);
        }
        let others = shards.iter().enumerate().filter(|(shard, _)| *shard != target);
        let (source, fullest) = others.max_by_key(|(_, shard)| shard.pool.free).ok_or(Rejection::NotReady)?;
        let units = fullest.pool.free.div_ceil(2).max(needed - here);
        let number = NEXT_TRANSFER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.node);
        let args = [arg(&self.node), arg(number), arg(fullest.pool.epoch), arg(target), arg(units)];
        let left: Result<Option<String>, _> = self.call(campaign, source, Operation::Leave, &args).await;
        let transfer = left.ok().flatten().ok_or(Rejection::NotReady)?;
        if !transfer.is_empty() && !self.complete_transfer(campaign, source, &id, &transfer).await {
            return Err(Rejection::Busy);
        }
        Ok(())
    }

    /// Reads the figures again: a unit may have moved from a shard that was not read yet to one that was read before.
    /// Only if nothing has changed is it certain that there are too few.
    async fn confirm_sold_out(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
        shards: &[ShardFigures],
    ) -> Result<Rejection, Rejection> {
        if self.figures_or_not_ready(campaign, pool).await? != shards {
            return Ok(Rejection::Busy);
        }
        let is_empty = shards.iter().all(|shard| shard.pool.free == 0);
        pool.sold_out.store(is_empty, Ordering::Release);
        Ok(Rejection::SoldOut)
    }

    async fn figures_or_not_ready(
        &self,
        campaign: CampaignId,
        pool: &PoolHandle,
    ) -> Result<Vec<ShardFigures>, Rejection> {
        self.shard_figures(campaign, pool).await.ok().flatten().ok_or(Rejection::NotReady)
    }

    /// The second and third step: arrive at the target, acknowledge at the source.
    async fn complete_transfer(&self, campaign: CampaignId, source: usize, id: &str, transfer: &str) -> bool {
        let Some(Transfer { epoch, target, slots }) = Transfer::parse(transfer) else { return false };
        let args = [arg(id), arg(epoch), arg(slots)];
        let reply = self.call::<u32>(campaign, target, Operation::Arrive, &args).await;
        let has_arrived = reply.is_ok_and(|arrived| arrived == 1);
        if has_arrived {
            // If this fails, the next node that looks for units acknowledges it.
            let _ = self.call::<u32>(campaign, source, Operation::Acknowledge, &[arg(id)]).await;
        }
        has_arrived
    }

    async fn complete_transfers(&self, campaign: CampaignId, source: usize) -> bool {
        let outgoing = self.call(campaign, source, Operation::Outgoing, &[]).await;
        let outgoing: std::collections::HashMap<String, String> = outgoing.unwrap_or_default();
        let mut completed = false;
        for (id, transfer) in outgoing {
            completed |= self.complete_transfer(campaign, source, &id, &transfer).await;
        }
        completed
    }
}
