//! Units go where they are wanted: a transfer leaves one shard, arrives at another, is acknowledged. Each step can be taken
//! again by anybody, and "sold out" is said only after all of this.

use std::time::Instant;

use tidegate_core::{CampaignId, Rejection};

use super::encoding::arg;
use super::{PoolFigures, PoolLines, RedisGate};

/// A shard as one look found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardFigures {
    pub(super) pool: PoolFigures,
    /// Transfers that have left it and are not known to have arrived.
    leaving: u32,
}

impl RedisGate {
    async fn figures_of(&self, campaign: CampaignId, shard: usize) -> Option<ShardFigures> {
        let answer: Option<(u32, u64, u32, u64, u32)> =
            self.call_or_log(campaign, shard, &[arg("figures")]).await;
        answer.map(|(epoch, version, free, applied, leaving)| ShardFigures {
            pool: PoolFigures { epoch, version, free, applied },
            leaving,
        })
    }

    pub(super) async fn all_figures(&self, campaign: CampaignId, shards: usize) -> Option<Vec<ShardFigures>> {
        let mut all = Vec::with_capacity(shards);
        for shard in 0..shards {
            all.push(self.figures_of(campaign, shard).await?);
        }
        Some(all)
    }

    /// Brings units to a shard that has fewer than `needed`: finishes transfers that somebody left half-done, or takes half
    /// of what the richest has, more if need be. `Err(SoldOut)` only if all shards together have too few and nothing is on
    /// its way between them.
    pub(super) async fn bring_units(
        &self,
        campaign: CampaignId,
        lines: &PoolLines,
        to: usize,
        needed: u32,
    ) -> Result<(), Rejection> {
        let asked = Instant::now();
        let mut last = lines.moving.lock().await;
        if let Some((_, outcome)) = last.filter(|(begun, _)| *begun > asked) {
            return outcome;
        }
        let begun = Instant::now();
        let outcome = self.look_for_units(campaign, lines, to, needed).await;
        *last = Some((begun, outcome));
        outcome
    }

    async fn look_for_units(
        &self,
        campaign: CampaignId,
        lines: &PoolLines,
        to: usize,
        needed: u32,
    ) -> Result<(), Rejection> {
        let all = self.all_figures(campaign, lines.shards.len()).await.ok_or(Rejection::NotReady)?;
        let here = all[to].pool.free;
        if here >= needed {
            return Ok(());
        }
        let mut finished = false;
        for (from, _) in all.iter().enumerate().filter(|(_, shard)| shard.leaving > 0) {
            finished |= self.finish_transfers(campaign, from).await;
        }
        if finished {
            return Ok(());
        }
        if all.iter().any(|shard| shard.leaving > 0) {
            return Err(Rejection::Busy);
        }
        if all.iter().map(|shard| shard.pool.free).sum::<u32>() < needed {
            // A unit may have moved from a shard not looked at yet to one looked at before: only if nothing has changed is
            // it sure that there is none.
            let again = self.all_figures(campaign, lines.shards.len()).await.ok_or(Rejection::NotReady)?;
            return Err(if again == all { Rejection::SoldOut } else { Rejection::Busy });
        }
        let others = all.iter().enumerate().filter(|(shard, _)| *shard != to);
        let (from, richest) = others.max_by_key(|(_, shard)| shard.pool.free).ok_or(Rejection::NotReady)?;
        let units = richest.pool.free.div_ceil(2).max(needed - here);
        // A transfer raises the version of the shard it leaves, so no other has this name.
        let id = format!("{from}-{}-{}-{}", richest.pool.epoch, richest.pool.version, self.node);
        let args = [arg("leave"), arg(&id), arg(to), arg(units)];
        let left: Option<String> = self.call_or_log(campaign, from, &args).await;
        let transfer = left.ok_or(Rejection::NotReady)?;
        if !transfer.is_empty() && !self.arrive(campaign, from, &id, &transfer).await {
            return Err(Rejection::Busy);
        }
        Ok(())
    }

    /// The second and third step of a transfer, which says "epoch target slots"; each can be taken again by anybody.
    async fn arrive(&self, campaign: CampaignId, from: usize, id: &str, transfer: &str) -> bool {
        let mut words = transfer.splitn(3, ' ');
        let (Some(epoch), Some(to), Some(slots)) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        let Ok(to) = to.parse() else { return false };
        let args = [arg("arrive"), arg(id), arg(epoch), arg(slots)];
        let arrived: u32 = self.call_or_log(campaign, to, &args).await;
        if arrived == 1 {
            self.call_or_log::<u32>(campaign, from, &[arg("left"), arg(id)]).await;
        }
        arrived == 1
    }

    async fn finish_transfers(&self, campaign: CampaignId, from: usize) -> bool {
        let leaving: std::collections::HashMap<String, String> =
            self.call_or_log(campaign, from, &[arg("leaving")]).await;
        let mut finished = false;
        for (id, transfer) in leaving {
            finished |= self.arrive(campaign, from, &id, &transfer).await;
        }
        finished
    }
}
