//! The `Gate` port on Redis. Operations on a whole pool visit its shards one after the other.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::pool::{GateState, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Slots, StockEntry, UserId,
};

use super::batcher::{DecideError, SubmitOptions, caller};
use super::encoding::{arg, log_entry_args, shard_of};
use super::replies::{PassReply, PoolVersion, SeedReply, WithdrawReply, state_name};
use super::script::Operation;
use super::seed_parts::SeedParts;
use super::{EXTRA_TRANSFERS, RedisGate};
use crate::gate::{Gate, GateError, PoolFigures};

/// The number of the next withdrawal. Rising in this process, whatever pool it is from.
static NEXT_WITHDRAWAL: AtomicU64 = AtomicU64::new(0);

impl Gate for RedisGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        // The prizes of a draw are decided together with its seats, so a draw has one shard.
        let shards = if seed.prizes.is_some() { 1 } else { seed.shards.max(1) as usize };
        let attempt = caller(&self.node);
        for shard in 0..shards {
            for (operation, args) in SeedParts::of(&seed, shard, shards).calls(&attempt) {
                if self.call::<SeedReply>(campaign, shard, operation, &args).await? == SeedReply::Stale {
                    return Err(GateError("a pool of this epoch or a later one is installed already".into()));
                }
            }
        }
        let pool = self.start_pool(campaign, shards, PoolVersion { epoch: seed.epoch.into(), version: 0 });
        self.update_pools(|pools| {
            pools.insert(campaign, pool.clone());
        });
        self.pool_figures(campaign).await?;
        Ok(())
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        // There is no ledger here to look the key up in.
        let options = SubmitOptions { key_checked: true, rate_per_s: 0 };
        self.decide(request, options).await.map_err(|error| match error {
            DecideError::Rejected(rejection) => rejection,
            DecideError::InFlight | DecideError::KeyUnchecked | DecideError::RateLimited => Rejection::Busy,
            DecideError::Unknown(_) => Rejection::NotReady,
        })
    }

    async fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        let pool = self.pool(campaign).await.map_err(|_| Rejection::NotReady)?;
        let pool = pool.ok_or(Rejection::NotReady)?;
        let shards = pool.shards.len();
        let shard = shard_of(user, shards);
        // Each shard has an equal share of the quota.
        let stock = (rules.stock as usize).div_ceil(shards);
        let args = [
            arg(user.raw()),
            arg(rules.factor),
            arg(stock),
            arg(rules.limit),
            arg(now.millis()),
            arg(expires_at.millis()),
        ];
        for _ in 0..shards + EXTRA_TRANSFERS {
            let reply: Result<PassReply, _> = self.call(campaign, shard, Operation::IssuePass, &args).await;
            match reply.map_err(|_| Rejection::NotReady)?.0 {
                Err(Rejection::SoldOut) if shards > 1 => {
                    self.transfer_to(campaign, &pool, shard, 1).await?;
                }
                issued => return issued,
            }
        }
        Err(Rejection::Busy)
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Result<Option<u64>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let shards = pool.shards.len();
        let mut applied: Option<u64> = None;
        for shard in 0..shards {
            let args = entries.iter().flat_map(|entry| log_entry_args(entry, shard, shards));
            let args: Vec<_> = args.collect();
            let last: Option<u64> = self.call(campaign, shard, Operation::Follow, &args).await?;
            let Some(last) = last else { return Ok(None) };
            applied = Some(applied.map_or(last, |applied| applied.min(last)));
        }
        Ok(applied)
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Result<Option<Withdrawal>, GateError> {
        let Some(figures) = self.pool_figures(campaign).await? else { return Ok(None) };
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let epoch = figures.epoch;
        let number = NEXT_WITHDRAWAL.fetch_add(1, Ordering::Relaxed);
        let mut withdrawal = Withdrawal { number, epoch, top: 0, slots: Slots::default(), units: 0 };
        for shard in 0..pool.shards.len() {
            let args = [arg(&self.node), arg(number), arg(epoch), arg(units - withdrawal.units)];
            let reply: Result<Option<WithdrawReply>, _> =
                self.call(campaign, shard, Operation::Withdraw, &args).await;
            let Ok(Some(part)) = reply else {
                self.put_back(campaign, withdrawal).await?;
                return reply.map(|_| None).map_err(Into::into);
            };
            withdrawal.top = withdrawal.top.max(part.top);
            withdrawal.units += part.units;
            part.slots.iter().for_each(|slot| withdrawal.slots.push(slot));
        }
        Ok(Some(withdrawal))
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> Result<(), GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(()) };
        // Every shard knows what it gave; the reply of one may have been lost.
        let args = [arg(&self.node), arg(withdrawal.number), arg(withdrawal.epoch)];
        for shard in 0..pool.shards.len() {
            self.call::<()>(campaign, shard, Operation::PutBack, &args).await?;
        }
        Ok(())
    }

    async fn set_gate_state(
        &self,
        campaign: CampaignId,
        state: GateState,
        as_of: Moment,
    ) -> Result<(), GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(()) };
        for shard in 0..pool.shards.len() {
            let args = [arg(state_name(state)), arg(as_of.millis())];
            self.call::<()>(campaign, shard, Operation::SetState, &args).await?;
        }
        Ok(())
    }

    async fn figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        self.pool_figures(campaign).await
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let shard = shard_of(user, pool.shards.len());
        Ok(self.call(campaign, shard, Operation::UnitsOf, &[arg(user.raw())]).await?)
    }
}
