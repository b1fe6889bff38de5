//! Units go where they are wanted: a transfer leaves one shard, arrives at another, is acknowledged. Each step can be taken
//! again by anybody, and "sold out" is said only after all of this.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_core::{CampaignId, Rejection};

use super::encoding::{arg, read_door};
use super::{GateError, Look, PoolFigures, PoolLines, RedisGate};

/// What the script says of a shard.
type Answer = (u32, u64, u32, u64, u32, u32, u32, String);

/// A shard as one look found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardFigures {
    pub(super) pool: PoolFigures,
    /// Transfers that have left it and are not known to have arrived.
    leaving: u32,
    /// Units in claims that are not recorded yet.
    pub(super) queued: u32,
}

impl PoolLines {
    /// Takes note of what was seen.
    fn remember(&self, all: &[ShardFigures]) {
        for (line, shard) in self.shards.iter().zip(all) {
            line.sight.saw(shard.pool.epoch.into(), shard.pool.version, shard.pool.free + shard.pool.moving);
        }
        if all.iter().any(|shard| shard.pool.free + shard.pool.moving > 0) {
            self.sold_out.store(false, Ordering::Release);
        }
    }
}

impl RedisGate {
    /// `None` if it is not there, or knows less than was seen of it before: then it has forgotten.
    async fn figures_of(
        &self,
        campaign: CampaignId,
        lines: &PoolLines,
        shard: usize,
    ) -> Result<Option<ShardFigures>, GateError> {
        let seen = lines.shards[shard].sight.seen();
        let answer: Option<Answer> = self.call(campaign, shard, &[arg("figures")]).await?;
        let figures =
            answer.map(|(epoch, version, free, applied, leaving, queued, moving, door)| ShardFigures {
                pool: PoolFigures { epoch, version, free, moving, applied, door: Some(read_door(&door)) },
                leaving,
                queued,
            });
        Ok(figures.filter(|shard| (u64::from(shard.pool.epoch), shard.pool.version) >= seen))
    }

    /// `None` if a shard has forgotten.
    pub(super) async fn all_figures(
        &self,
        campaign: CampaignId,
        lines: &PoolLines,
    ) -> Result<Option<Vec<ShardFigures>>, GateError> {
        let mut all = Vec::with_capacity(lines.shards.len());
        for shard in 0..lines.shards.len() {
            match self.figures_of(campaign, lines, shard).await? {
                Some(figures) => all.push(figures),
                None => return Ok(None),
            }
        }
        lines.remember(&all);
        Ok(Some(all))
    }

    /// The same where trouble and forgetting are all one.
    async fn look(&self, campaign: CampaignId, lines: &PoolLines) -> Result<Vec<ShardFigures>, Rejection> {
        self.all_figures(campaign, lines).await.ok().flatten().ok_or(Rejection::NotReady)
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
        // Who needs fewer may get what the other could not.
        if let Some(look) =
            last.filter(|look| look.begun > asked && (look.outcome.is_ok() || look.needed <= needed))
        {
            return look.outcome;
        }
        let begun = Instant::now();
        let outcome = self.look_for_units(campaign, lines, to, needed).await;
        *last = Some(Look { begun, needed, outcome });
        outcome
    }

    async fn look_for_units(
        &self,
        campaign: CampaignId,
        lines: &PoolLines,
        to: usize,
        needed: u32,
    ) -> Result<(), Rejection> {
        let all = self.look(campaign, lines).await?;
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
            let again = self.look(campaign, lines).await?;
            if again != all {
                return Err(Rejection::Busy);
            }
            let nothing = all.iter().all(|shard| shard.pool.free == 0);
            lines.sold_out.store(nothing, Ordering::Release);
            return Err(Rejection::SoldOut);
        }
        let others = all.iter().enumerate().filter(|(shard, _)| *shard != to);
        let (from, richest) = others.max_by_key(|(_, shard)| shard.pool.free).ok_or(Rejection::NotReady)?;
        let units = richest.pool.free.div_ceil(2).max(needed - here);
        // A transfer raises the version of the shard it leaves, so no other has this name.
        let id = format!("{from}-{}-{}-{}", richest.pool.epoch, richest.pool.version, self.node);
        let args = [arg("leave"), arg(&id), arg(to), arg(units)];
        let left: Result<Option<String>, _> = self.call(campaign, from, &args).await;
        let transfer = left.ok().flatten().ok_or(Rejection::NotReady)?;
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
        let arrived = self.call::<u32>(campaign, to, &args).await.is_ok_and(|arrived| arrived == 1);
        if arrived {
            // What is not acknowledged now is by whoever finds it.
            let _ = self.call::<u32>(campaign, from, &[arg("left"), arg(id)]).await;
        }
        arrived
    }

    async fn finish_transfers(&self, campaign: CampaignId, from: usize) -> bool {
        let leaving = self.call(campaign, from, &[arg("leaving")]).await;
        let leaving: std::collections::HashMap<String, String> = leaving.unwrap_or_default();
        let mut finished = false;
        for (id, transfer) in leaving {
            finished |= self.arrive(campaign, from, &id, &transfer).await;
        }
        finished
    }
}
