//! Claims on their way from the gate to the ledger: how many there are, found by id or key, and gone once they are recorded.

use std::sync::Arc;

use tidegate_core::{CampaignId, Claim, ClaimId, IdempotencyKey, UserId};

use super::RedisGate;
use super::encoding::{arg, beginning, key_text, shard_of};
use crate::gate::GateError;
use crate::intake::stream::Entries;

/// Entries deleted by one call: a script must not take long.
const DONE_AT_ONCE: usize = 1000;

/// Entries of a shard's stream that the ledger has: place, epoch, units.
#[derive(Debug, Default)]
pub struct Done(Vec<(Vec<u8>, u32, u32)>);

impl Done {
    /// The entries of these claims; an entry's are next to each other.
    pub fn of(recorded: &[(Arc<str>, Arc<Claim>)]) -> Self {
        let mut done = Self::default();
        for of_one in recorded.chunk_by(|(one, _), (other, _)| one == other) {
            let units = of_one.iter().map(|(_, claim)| claim.slots.units()).sum();
            done.entry(&of_one[0].0, of_one[0].1.epoch, units);
        }
        done
    }

    pub fn entry(&mut self, place: &str, epoch: u32, units: u32) {
        self.0.push((place.into(), epoch, units));
    }
}

impl RedisGate {
    /// Units in claims that are not recorded yet.
    pub async fn queued_units(&self, campaign: CampaignId) -> Result<u32, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(0) };
        let all = self.all_figures(campaign, &lines).await?;
        Ok(all.iter().flatten().map(|shard| shard.queued).sum())
    }

    /// Claims in a shard's stream.
    pub async fn unrecorded(&self, campaign: CampaignId, shard: usize) -> Result<usize, GateError> {
        Ok(self.call(campaign, shard, &[arg("unrecorded")]).await?)
    }

    /// Appends a claim that something else than this gate has granted; gives how many there are now.
    pub async fn append(
        &self,
        campaign: CampaignId,
        shard: usize,
        claim: &Claim,
        [given, asked]: [Vec<u8>; 2],
    ) -> Result<usize, GateError> {
        let before = arg(claim.version.wrapping_sub(1).cast_signed());
        let (user, key) = (arg(claim.user.raw()), key_text(claim.key.as_ref()));
        let args = [arg("append"), arg(claim.epoch), before, user, key, given, asked];
        Ok(self.call(campaign, shard, &args).await?)
    }

    /// A claim of this user that is not recorded yet.
    pub async fn queued(
        &self,
        campaign: CampaignId,
        user: UserId,
        id: ClaimId,
    ) -> Result<Option<Claim>, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let shard = shard_of(user, lines.shards.len());
        let args = [arg("queued"), arg(user.raw()), beginning(id, user)];
        let found: Entries = self.call(campaign, shard, &args).await?;
        let mut claims = found.0.into_iter().flat_map(|entry| entry.claims().0);
        Ok(claims.find(|claim| claim.id == id && claim.user == user))
    }

    /// Whether a claim of this user with this key is on its way to the ledger.
    pub async fn is_in_flight(
        &self,
        campaign: CampaignId,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<bool, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(false) };
        let shard = shard_of(user, lines.shards.len());
        let args = [arg("in_flight"), arg(user.raw()), key_text(Some(key))];
        Ok(self.call(campaign, shard, &args).await?)
    }

    /// The ledger has these entries of a shard's stream. Gives how many claims are left, if there was anything to be forgotten.
    pub async fn done(
        &self,
        campaign: CampaignId,
        shard: usize,
        group: &str,
        done: &Done,
    ) -> Result<Option<usize>, GateError> {
        let mut left = None;
        for entries in done.0.chunks(DONE_AT_ONCE) {
            let mut args = vec![arg("done"), arg(group)];
            args.extend(entries.iter().flat_map(|(at, epoch, units)| [at.clone(), arg(epoch), arg(units)]));
            left = Some(self.call(campaign, shard, &args).await?);
        }
        Ok(left)
    }
}
