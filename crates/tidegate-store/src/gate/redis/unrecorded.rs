//! Claims on their way from the gate to the ledger: how many there are, found by id or key, and gone once they are recorded.

use std::sync::Arc;

use tidegate_core::{CampaignId, Claim, ClaimId, IdempotencyKey, UserId};

use super::RedisGate;
use super::encoding::{arg, shard_of, write_key};
use crate::gate::GateError;
use crate::intake::stream::Entries;

/// Entries and claims deleted by one call: a script must not take long.
const DONE_AT_ONCE: usize = 1000;

/// Entries of a shard's stream that the ledger has, and their claims.
#[derive(Debug, Default)]
pub struct Done {
    /// Place, epoch, units.
    entries: Vec<(Vec<u8>, u32, u32)>,
    /// Id, key.
    claims: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Done {
    /// These, each with the entry it is of; an entry's are next to each other.
    pub fn of(recorded: &[(Arc<str>, Arc<Claim>)]) -> Self {
        let mut done = Self::default();
        for of_one in recorded.chunk_by(|(one, _), (other, _)| one == other) {
            let units = of_one.iter().map(|(_, claim)| claim.slots.units()).sum();
            done.entry(&of_one[0].0, of_one[0].1.epoch, units);
            for (_, claim) in of_one {
                let mut key = Vec::new();
                write_key(&mut key, claim.user, claim.key.as_ref());
                done.claims.push((arg(claim.id.raw()), key));
            }
        }
        done
    }

    pub fn entry(&mut self, place: &str, epoch: u32, units: u32) {
        self.entries.push((place.into(), epoch, units));
    }

    pub fn claim(&mut self, id: &[u8], key: &[u8]) {
        self.claims.push((id.into(), key.into()));
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
        text: Vec<u8>,
    ) -> Result<usize, GateError> {
        let before = arg(claim.version.wrapping_sub(1).cast_signed());
        let args = [arg("append"), arg(claim.epoch), before, arg(claim.id.raw()), text];
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
        let found: Option<Entries> = self.call(campaign, shard, &[arg("queued"), arg(id.raw())]).await?;
        let mut claims = found.into_iter().flat_map(|entries| entries.0).flat_map(|entry| entry.claims().0);
        Ok(claims.find(|claim| claim.id == id && claim.user == user))
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
        let mut named = Vec::new();
        write_key(&mut named, user, Some(key));
        Ok(self.call(campaign, shard, &[arg("in_flight"), named]).await?)
    }

    /// The ledger has these entries of a shard's stream. Gives how many claims are left, if anything was to be forgotten. An
    /// entry goes with the last of its claims: if this breaks off before, it comes again, and so does everything that is not
    /// forgotten yet.
    pub async fn done(
        &self,
        campaign: CampaignId,
        shard: usize,
        group: &str,
        done: &Done,
    ) -> Result<Option<usize>, GateError> {
        let mut left = None;
        let (mut entries, mut claims) =
            (done.entries.chunks(DONE_AT_ONCE), done.claims.chunks(DONE_AT_ONCE).peekable());
        loop {
            let claims_now = claims.next();
            let entries_now = if claims.peek().is_none() { entries.next() } else { None };
            if entries_now.is_none() && claims_now.is_none() {
                return Ok(left);
            }
            let (entries, claims) = (entries_now.unwrap_or_default(), claims_now.unwrap_or_default());
            let mut args = vec![arg("done"), arg(group), arg(entries.len())];
            args.extend(entries.iter().flat_map(|(at, epoch, units)| [at.clone(), arg(epoch), arg(units)]));
            args.extend(claims.iter().flat_map(|(id, key)| [id.clone(), key.clone()]));
            left = Some(self.call(campaign, shard, &args).await?);
        }
    }
}
