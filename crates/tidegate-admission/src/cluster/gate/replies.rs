//! The replies of the gate's script as named types. Nothing else in this crate reads them by position or by code.

use redis::{FromRedisValue, ParsingError, Value};
use tidegate_core::draw::PrizeNumber;
use tidegate_core::pool::GateState;
use tidegate_core::{Claim, ClaimRequest, Moment, Pass, Rejection, Slots};

use super::batcher::DecideError;
use crate::gate::PoolFigures;

/// What the gate has granted to one claim.
pub(super) struct Grant {
    slots: Slots,
    prize: Option<PrizeNumber>,
    epoch: u32,
    version: u64,
}

impl Grant {
    pub(super) fn apply_to(self, request: ClaimRequest) -> Claim {
        request.granted(self.slots, self.prize, self.epoch, self.version)
    }
}

pub(super) type Decision = Result<Grant, DecideError>;

/// A pool's epoch and its version within that epoch, ordered by both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolVersion {
    pub(super) epoch: u64,
    pub(super) version: u64,
}

/// The reply to `claim`.
pub(super) struct BatchReply {
    /// After the batch.
    pub(super) version: PoolVersion,
    /// Free units, those in transit to another shard included.
    pub(super) free: u32,
    decisions: String,
}

impl FromRedisValue for BatchReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (epoch, version, free, decisions) = FromRedisValue::from_redis_value(value)?;
        Ok(Self { version: PoolVersion { epoch, version }, free, decisions })
    }
}

impl BatchReply {
    /// False if the caller had not seen the pool's epoch.
    pub(super) fn has_decided(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// The decisions on a batch of `count` claims, each "prize slots" or a code. Granted claims have consecutive
    /// versions, up to the pool's version after the batch. `None` if the reply does not fit the batch.
    pub(super) fn decisions(&self, count: usize) -> Option<Vec<Decision>> {
        let epoch = u32::try_from(self.version.epoch).ok()?;
        let mut decisions = Vec::with_capacity(count);
        let mut granted = 0;
        for decision in self.decisions.split(';') {
            decisions.push(match decision.split_once(' ') {
                Some((prize, slots)) => {
                    granted += 1;
                    let prize = Some(prize.parse().ok()?).filter(|prize| *prize > 0);
                    Ok(Grant { slots: Slots::parse(slots)?, prize, epoch, version: granted })
                }
                None => Err(decide_error(decision)),
            });
        }
        let version_before = self.version.version.checked_sub(granted)?;
        decisions.iter_mut().flatten().for_each(|grant| grant.version += version_before);
        (decisions.len() == count).then_some(decisions)
    }
}

fn decide_error(code: &str) -> DecideError {
    match code {
        "in_flight" => DecideError::InFlight,
        "check_key" => DecideError::KeyUnchecked,
        "rate_limited" => DecideError::RateLimited,
        code => rejection(code).into(),
    }
}

/// A code that this version does not know is treated as a gate that is not ready.
fn rejection(code: &str) -> Rejection {
    Rejection::from_code(code).unwrap_or(Rejection::NotReady)
}

/// The reply to one part of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeedReply {
    Accepted,
    /// A pool of this epoch or a later one is installed already.
    Stale,
}

impl FromRedisValue for SeedReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let status: String = FromRedisValue::from_redis_value(value)?;
        Ok(if status == "STALE" { Self::Stale } else { Self::Accepted })
    }
}

/// The reply to `issue_pass`: a pass and the epoch it belongs to, or the rejection.
pub(super) struct PassReply(pub(super) Result<(Pass, u32), Rejection>);

impl FromRedisValue for PassReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut fields = Vec::<Value>::from_redis_value(value)?.into_iter();
        let mut next = || fields.next().unwrap_or(Value::Nil);
        let code = String::from_redis_value(next())?;
        if !code.is_empty() {
            return Ok(Self(Err(rejection(&code))));
        }
        let epoch = FromRedisValue::from_redis_value(next())?;
        let number = FromRedisValue::from_redis_value(next())?;
        let expires_at = Moment::from_millis(FromRedisValue::from_redis_value(next())?);
        Ok(Self(Ok((Pass { number, expires_at }, epoch))))
    }
}

/// The reply to `withdraw`: the units that were taken out of sale.
pub(super) struct WithdrawReply {
    pub(super) top: u32,
    pub(super) units: u32,
    pub(super) slots: Slots,
}

impl FromRedisValue for WithdrawReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (top, units, slots): (u32, u32, String) = FromRedisValue::from_redis_value(value)?;
        Ok(Self { top, units, slots: Slots::parse(&slots).unwrap_or_default() })
    }
}

/// The reply to `figures`: one shard at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardFigures {
    pub(super) pool: PoolFigures,
    /// Transfers that have left the shard and are not acknowledged.
    pub(super) outgoing: u32,
    /// Units in claims that are not recorded yet.
    pub(super) queued_units: u32,
    /// Transfers that have arrived at the shard in this epoch.
    pub(super) arrived: u32,
}

impl ShardFigures {
    pub(super) fn version(&self) -> PoolVersion {
        PoolVersion { epoch: self.pool.epoch.into(), version: self.pool.version }
    }

    /// Free units, those in transit included.
    pub(super) fn unsold(&self) -> u32 {
        self.pool.free + self.pool.in_transit
    }
}

impl FromRedisValue for ShardFigures {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        type Fields = (u32, u64, u32, u64, u32, u32, u32, String, u32);
        let (epoch, version, free, applied, outgoing, queued_units, in_transit, state, arrived): Fields =
            FromRedisValue::from_redis_value(value)?;
        let gate_state = Some(parse_state(&state));
        let pool = PoolFigures { epoch, version, free, in_transit, applied, gate_state };
        Ok(Self { pool, outgoing, queued_units, arrived })
    }
}

/// The reply to `unsold_slots`.
pub(super) struct UnsoldReply {
    pub(super) epoch: u32,
    pub(super) applied: u64,
    pub(super) next: u32,
    pub(super) top: u32,
    pub(super) shards: u32,
    pub(super) slots: Vec<u32>,
}

impl FromRedisValue for UnsoldReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (epoch, applied, next, top, shards, slots): (u32, u64, u32, u32, u32, String) =
            FromRedisValue::from_redis_value(value)?;
        let slots = slots.split(',').filter_map(|slot| slot.parse().ok()).collect();
        Ok(Self { epoch, applied, next, top, shards, slots })
    }
}

pub(super) const fn state_name(state: GateState) -> &'static str {
    match state {
        GateState::Open => "open",
        GateState::Paused => "paused",
        GateState::Closed => "closed",
    }
}

fn parse_state(name: &str) -> GateState {
    match name {
        "open" => GateState::Open,
        "paused" => GateState::Paused,
        _ => GateState::Closed,
    }
}

/// A transfer of slots to another shard, as the script stores it: "epoch target slots".
pub(super) struct Transfer<'a> {
    pub(super) epoch: &'a str,
    pub(super) target: usize,
    pub(super) slots: &'a str,
}

impl<'a> Transfer<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let (epoch, target, slots) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some(Self { epoch, target, slots })
    }
}
