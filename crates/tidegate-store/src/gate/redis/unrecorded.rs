//! Claims on their way from the gate to the ledger: how many there are, found by id or key, and gone once they are recorded.

use std::sync::Arc;

use redis::streams::{StreamId, StreamRangeReply};
use tidegate_core::{CampaignId, Claim, ClaimId, IdempotencyKey, UserId};

use super::RedisGate;
use super::encoding::{arg, shard_of};
use crate::gate::GateError;

/// Entries deleted by one call: a script must not take long.
const DONE_AT_ONCE: usize = 500;

impl RedisGate {
    /// Units in claims that are not recorded yet.
    pub async fn queued_units(&self, campaign: CampaignId) -> Result<u32, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(0) };
        let all = self.all_figures(campaign, &lines).await?;
        Ok(all.iter().flatten().map(|shard| shard.queued).sum())
    }

    /// A claim of this user that is not recorded yet.
    pub async fn queued(
        &self,
        campaign: CampaignId,
        user: UserId,
        id: ClaimId,
    ) -> Result<Option<StreamId>, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let shard = shard_of(user, lines.shards.len());
        let found: Option<StreamRangeReply> =
            self.call(campaign, shard, &[arg("queued"), arg(id.raw())]).await?;
        Ok(found.and_then(|found| found.ids.into_iter().next()))
    }

    /// Whether a claim with this key is on its way to the ledger.
    pub async fn is_in_flight(
        &self,
        campaign: CampaignId,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<bool, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(false) };
        let shard = shard_of(user, lines.shards.len());
        Ok(self.call(campaign, shard, &[arg("in_flight"), arg(user.raw()), key.0.to_vec()]).await?)
    }

    /// The ledger has these entries of a shard's stream: entry, claim. Gives how many are left.
    pub async fn done(
        &self,
        campaign: CampaignId,
        shard: usize,
        group: &str,
        entries: &[(String, Arc<Claim>)],
    ) -> Result<usize, GateError> {
        let mut left = 0;
        for some in entries.chunks(DONE_AT_ONCE) {
            let mut args = vec![arg("done"), arg(group)];
            for (entry, claim) in some {
                let (id, user) = (arg(claim.id.raw()), arg(claim.user.raw()));
                let key = claim.key.map(|key| key.0.to_vec()).unwrap_or_default();
                args.extend([arg(entry), id, arg(claim.epoch), arg(claim.slots.units()), user, key]);
            }
            left = self.call(campaign, shard, &args).await?;
        }
        Ok(left)
    }
}
