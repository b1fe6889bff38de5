//! The gate's Lua script: the Redis structures it works on, its operations, and how it is called.
//!
//! A pool is split over shards. Slot *n* belongs to shard `(n - 1) mod shards` until a transfer moves it. Each shard
//! is one set of keys, `{prefix}{<campaign>:<shard>}:<name>`; the braces are a hash tag, so all keys of a shard are
//! in one Redis Cluster slot and one call touches one server.
//!
//! | key | type | content |
//! |---|---|---|
//! | `pool` | hash | see below |
//! | `returned` | sorted set | free slots below `next`, scored by slot |
//! | `users` | hash | by user, a *buyer record* (see below) |
//! | `passes` | hash | by user, the outstanding pass: `number expires_ms` |
//! | `issued` | sorted set | `number user` of each pass, in the order of issue |
//! | `intake` | stream | granted claims on their way to the ledger; entries are described in `cluster::stream::entry` |
//! | `deck` | string | a deck's prize for every seat, one byte each |
//! | `leaving` | hash | outgoing transfers by id: `epoch target slots` |
//! | `arrived` | set | ids of the transfers that have arrived here |
//! | `queued` | hash | by stream entry id, the number of its claims; field `claims` is their sum |
//! | `rates` | hash | by user, the attempts of the current second that were not granted |
//!
//! **Fields of `pool`**: `epoch`, `version` (+1 with every change), `door` (the gate's state: open, paused, closed)
//! and `door_at` (since when, ms), `top` (the highest slot that exists), `next` (the lowest slot never taken),
//! `applied` (the last stock log entry), `shards`; `queued` and `moving` (units not recorded yet, units in transit to
//! another shard); `last`, `spent`, `returned` (passes: last number, spent ones, returned units); `rated` (the second
//! that `rates` counts); `answer:<caller>` (number and reply of a batcher's last call, for retries), `transfer:<node>`
//! and `withdrawal:<node>` (the number of a node's last one here), `withdrawn:<node>` (top before it, and its slots, to
//! undo it); for a draw `strategy`, `seed`, `prizes`, `odds:<i>`, `left:<i>`. While a seed is loaded there are only
//! `building` (its epoch), `attempt` and `parts` (who loads it, how far) and `expected` (the next slot).
//!
//! **Late calls.** A call whose sender has given it up can still arrive, after later ones and even twice. Everything
//! that is not idempotent by itself is therefore numbered upwards by its sender and refused below the last number.
//!
//! **Buyer record**: the units held, then ` <entry> <key>` for each claim that may not be recorded yet: the id of its
//! stream entry and its idempotency key, `-` for none. A `+` instead of the second space marks a claim that the rate
//! limit must not count again.

use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Script};
use tidegate_core::CampaignId;

use crate::cluster::redis_link::Link;

/// How long a call may take, reconnecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// In the order of the script's `KEYS`.
const KEY_NAMES: [&str; 11] = [
    "pool", "returned", "users", "passes", "issued", INTAKE, "deck", "leaving", "arrived", "queued", "rates",
];
const INTAKE: &str = "intake";

/// The parts of the script, in the order in which they build on each other.
pub(super) const SCRIPT: &str = concat!(
    include_str!("script/keys.lua"),
    include_str!("script/dealer.lua"),
    include_str!("script/pool.lua"),
    include_str!("script/claims.lua"),
    include_str!("script/seed.lua"),
    include_str!("script/passes.lua"),
    include_str!("script/transfers.lua"),
    include_str!("script/operations.lua"),
);

/// The keys of one shard.
#[derive(Clone, Debug)]
pub(super) struct ShardKeys(Vec<String>);

impl ShardKeys {
    pub(super) fn new(prefix: &str, campaign: CampaignId, shard: usize) -> Self {
        Self(KEY_NAMES.iter().map(|name| key(prefix, campaign, shard, name)).collect())
    }
}

fn key(prefix: &str, campaign: CampaignId, shard: usize, name: &str) -> String {
    format!("{prefix}{{{}:{shard}}}:{name}", campaign.raw())
}

/// The stream to which a shard's granted claims are appended.
pub(super) fn intake_key(prefix: &str, campaign: CampaignId, shard: usize) -> String {
    key(prefix, campaign, shard, INTAKE)
}

/// The operations of the script. Arguments and replies are documented in the Lua files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Claim,
    Build,
    Gap,
    Slots,
    Users,
    Install,
    IssuePass,
    Leave,
    Arrive,
    Acknowledge,
    Outgoing,
    DeleteRecorded,
    Append,
    UnrecordedClaims,
    InFlight,
    FindQueued,
    Follow,
    Withdraw,
    PutBack,
    SetState,
    Figures,
    UnsoldSlots,
    PrizesLeft,
    ShardCount,
    UnitsOf,
}

impl Operation {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Build => "build",
            Self::Gap => "gap",
            Self::Slots => "slots",
            Self::Users => "users",
            Self::Install => "install",
            Self::IssuePass => "issue_pass",
            Self::Leave => "leave",
            Self::Arrive => "arrive",
            Self::Acknowledge => "acknowledge",
            Self::Outgoing => "outgoing",
            Self::DeleteRecorded => "delete_recorded",
            Self::Append => "append",
            Self::UnrecordedClaims => "unrecorded_claims",
            Self::InFlight => "in_flight",
            Self::FindQueued => "find_queued",
            Self::Follow => "follow",
            Self::Withdraw => "withdraw",
            Self::PutBack => "put_back",
            Self::SetState => "set_state",
            Self::Figures => "figures",
            Self::UnsoldSlots => "unsold_slots",
            Self::PrizesLeft => "prizes_left",
            Self::ShardCount => "shard_count",
            Self::UnitsOf => "units_of",
        }
    }
}

/// Calls an operation with the arguments that `add_args` appends. A script that the server has lost is loaded again.
pub(super) async fn call<T: FromRedisValue>(
    link: &Link,
    script: &Script,
    keys: &ShardKeys,
    operation: Operation,
    add_args: impl Fn(&mut Cmd),
) -> Result<T, RedisError> {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys.0.len()).arg(&keys.0).arg(operation.name());
    add_args(&mut command);
    let mut link = link.clone();
    let reply = async {
        match command.query_async(&mut link).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                script.prepare_invoke().load_async(&mut link).await?;
                command.query_async(&mut link).await
            }
            reply => reply,
        }
    };
    match tokio::time::timeout(CALL_TIMEOUT, reply).await {
        Ok(reply) => reply,
        Err(_) => Err((ErrorKind::Io, "the server did not answer in time").into()),
    }
}
