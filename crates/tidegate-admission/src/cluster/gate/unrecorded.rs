//! Claims on their way from the gate to the ledger: counting them, finding one, deleting the recorded ones.

use std::sync::Arc;

use tidegate_core::{CampaignId, Claim, ClaimId, IdempotencyKey, UserId};

use super::RedisGate;
use super::encoding::{arg, claim_prefix, key_arg, shard_of};
use super::script::Operation;
use crate::cluster::stream::{EncodedClaim, Entries};
use crate::gate::GateError;

/// Entries deleted by one call: a script blocks the server while it runs.
const MAX_DELETED: usize = 1000;

/// Stream entries whose claims are all in the ledger.
#[derive(Debug, Default)]
pub struct RecordedEntries(Vec<RecordedEntry>);

#[derive(Debug)]
struct RecordedEntry {
    id: Vec<u8>,
    epoch: u32,
    units: u32,
}

impl RecordedEntries {
    /// The entries of these claims; claims of one entry are adjacent.
    pub fn of(recorded: &[(Arc<str>, Arc<Claim>)]) -> Self {
        let mut entries = Self::default();
        for claims in recorded.chunk_by(|(one, _), (other, _)| one == other) {
            let units = claims.iter().map(|(_, claim)| claim.slots.units()).sum();
            entries.push(&claims[0].0, claims[0].1.epoch, units);
        }
        entries
    }

    pub fn push(&mut self, id: &str, epoch: u32, units: u32) {
        self.0.push(RecordedEntry { id: id.into(), epoch, units });
    }
}

impl RedisGate {
    /// Units in claims that are not recorded yet.
    pub async fn queued_units(&self, campaign: CampaignId) -> Result<u32, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(0) };
        let shards = self.shard_figures(campaign, &pool).await?;
        Ok(shards.iter().flatten().map(|shard| shard.queued_units).sum())
    }

    /// The number of claims in a shard's stream.
    pub async fn unrecorded_claims(&self, campaign: CampaignId, shard: usize) -> Result<usize, GateError> {
        Ok(self.call(campaign, shard, Operation::UnrecordedClaims, &[]).await?)
    }

    /// The number of entries in a shard's stream, whatever the pool knows of it.
    pub(crate) async fn stream_length(&self, campaign: CampaignId, shard: usize) -> Result<usize, GateError> {
        let mut command = redis::cmd("XLEN");
        command.arg(self.intake_key(campaign, shard));
        Ok(command.query_async(&mut self.link.clone()).await?)
    }

    /// Appends a claim that was not granted by this gate. Returns the number of claims in the stream.
    pub(crate) async fn append(
        &self,
        campaign: CampaignId,
        shard: usize,
        claim: &Claim,
        EncodedClaim { grant, request }: EncodedClaim,
    ) -> Result<usize, GateError> {
        let version_before = arg(claim.version.wrapping_sub(1).cast_signed());
        let (user, key) = (arg(claim.user.raw()), key_arg(claim.key.as_ref()));
        let args = [arg(claim.epoch), version_before, user, key, grant, request];
        Ok(self.call(campaign, shard, Operation::Append, &args).await?)
    }

    /// A claim of this user that is not recorded yet.
    pub async fn find_queued(
        &self,
        campaign: CampaignId,
        user: UserId,
        id: ClaimId,
    ) -> Result<Option<Claim>, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(None) };
        let shard = shard_of(user, pool.shards.len());
        let args = [arg(user.raw()), claim_prefix(id, user)];
        let found: Entries = self.call(campaign, shard, Operation::FindQueued, &args).await?;
        let mut claims = found.0.into_iter().flat_map(|entry| entry.decode().claims);
        Ok(claims.find(|claim| claim.id == id && claim.user == user))
    }

    /// Whether a claim of this user with this key is on its way to the ledger.
    pub async fn is_in_flight(
        &self,
        campaign: CampaignId,
        user: UserId,
        key: &IdempotencyKey,
    ) -> Result<bool, GateError> {
        let Some(pool) = self.pool(campaign).await? else { return Ok(false) };
        let shard = shard_of(user, pool.shards.len());
        let args = [arg(user.raw()), key_arg(Some(key))];
        Ok(self.call(campaign, shard, Operation::InFlight, &args).await?)
    }

    /// Deletes entries that the ledger has. Returns the number of claims left in the stream; `None` without entries.
    pub async fn delete_recorded(
        &self,
        campaign: CampaignId,
        shard: usize,
        group: &str,
        recorded: &RecordedEntries,
    ) -> Result<Option<usize>, GateError> {
        let mut left = None;
        for entries in recorded.0.chunks(MAX_DELETED) {
            let mut args = vec![arg(group)];
            for RecordedEntry { id, epoch, units } in entries {
                args.extend([id.clone(), arg(epoch), arg(units)]);
            }
            left = Some(self.call(campaign, shard, Operation::DeleteRecorded, &args).await?);
        }
        Ok(left)
    }
}
