//! The cluster's gate: the core's rules as one script on Redis or Valkey, one call for a batch of whatever waits.
//!
//! What always holds: a shard's keys share one hash slot, so a call touches one server; a granted claim is in the shard's
//! stream in the same step; "sold out" is said only when every shard is empty and nothing is on its way between them; a
//! server that knows less than this node has seen of it grants no claims: the pool answers `not_ready` until it is installed
//! anew. A script that the server has lost is loaded again, and a call that is sent again decides nothing twice.

mod caller;
mod encoding;
mod transfers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{ErrorKind, FromRedisValue, RedisError, Script, Value};
use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Slots, StockEntry, UserId,
};
use tokio::sync::{mpsc, oneshot};

use self::caller::{Caller, Line, Waiting};
use self::encoding::{arg, door_word, entry_args, install_args, read_pass, shard_of};
use super::{Gate, PoolFigures};
use crate::redis_link::Link;

/// How often units are brought to a shard for one claim before it is told to come back: once from every other, and these.
const MORE_MOVES: usize = 3;
/// How long a call may take, reconnecting included.
const CALL_WITHIN: Duration = Duration::from_secs(3);
/// Claims of one shard that may wait for a call; more are refused as busy.
const MAX_WAITING: usize = 20_000;

#[derive(Debug)]
pub struct RedisGate {
    link: Link,
    /// Comes before every key, so that several installations can share a server.
    prefix: String,
    /// Unique among all processes there ever were: a call that is sent again is known by it.
    node: String,
    script: Arc<Script>,
    pools: Mutex<HashMap<CampaignId, Arc<PoolLines>>>,
}

/// The ways to one pool's shards.
#[derive(Debug)]
struct PoolLines {
    shards: Vec<Arc<Line>>,
    /// One transfer at a time; when the last look for units began, and what it led to. Whoever asked before that look
    /// needs no other.
    moving: tokio::sync::Mutex<Option<(Instant, Result<(), Rejection>)>>,
}

impl RedisGate {
    pub fn new(link: Link, prefix: impl Into<String>, node: impl Into<String>) -> Self {
        let script = Arc::new(Script::new(include_str!("redis/gate.lua")));
        let (prefix, node) = (prefix.into(), node.into());
        Self { link, prefix, node, script, pools: Mutex::default() }
    }

    /// The keys of a shard, in the order the script knows them by. They share a hash slot.
    fn keys(&self, campaign: CampaignId, shard: usize) -> Vec<String> {
        let tag = format!("{}{{{}:{shard}}}", self.prefix, campaign.raw());
        ["pool", "returned", "users", "passes", "issued", "intake", "deck", "leaving", "arrived"]
            .iter()
            .map(|name| format!("{tag}:{name}"))
            .collect()
    }

    /// The stream that a shard's granted claims are appended to.
    pub fn intake_key(&self, campaign: CampaignId, shard: usize) -> String {
        self.keys(campaign, shard).swap_remove(5)
    }

    async fn call<T: FromRedisValue>(
        &self,
        campaign: CampaignId,
        shard: usize,
        args: &[Vec<u8>],
    ) -> Result<T, RedisError> {
        call(&self.link, &self.script, &self.keys(campaign, shard), args).await
    }

    /// For operations whose failure leaves nothing to say: they are repeated by whoever follows the log.
    async fn call_or_log<T: FromRedisValue + Default>(
        &self,
        campaign: CampaignId,
        shard: usize,
        args: &[Vec<u8>],
    ) -> T {
        self.call(campaign, shard, args).await.unwrap_or_else(|error| {
            tracing::warn!(%error, campaign = campaign.raw(), shard, "the gate did not answer");
            T::default()
        })
    }

    fn make_lines(&self, campaign: CampaignId, shards: usize) -> Arc<PoolLines> {
        let line = |shard| {
            let (waiting, queue) = mpsc::channel(MAX_WAITING);
            let line = Arc::new(Line { waiting, epoch: AtomicU64::new(0), version: AtomicU64::new(0) });
            let caller = Caller {
                link: self.link.clone(),
                script: self.script.clone(),
                keys: self.keys(campaign, shard),
                node: self.node.clone(),
                line: Arc::downgrade(&line),
            };
            tokio::spawn(caller.run(queue));
            line
        };
        Arc::new(PoolLines { shards: (0..shards).map(line).collect(), moving: tokio::sync::Mutex::new(None) })
    }

    /// The ways to a pool; how many shards it has is asked once. `None` where it is not installed.
    async fn lines(&self, campaign: CampaignId) -> Option<Arc<PoolLines>> {
        if let Some(lines) = self.pools.lock().get(&campaign) {
            return Some(lines.clone());
        }
        let shards: Option<usize> = self.call_or_log(campaign, 0, &[arg("shards")]).await;
        let lines = self.make_lines(campaign, shards?);
        Some(self.pools.lock().entry(campaign).or_insert(lines).clone())
    }

    /// One claim at one shard, with whatever else waits for it.
    async fn claim_at(&self, line: &Line, request: ClaimRequest) -> Result<Claim, Rejection> {
        let (answer, decided) = oneshot::channel();
        line.waiting.try_send(Waiting { request, answer }).map_err(|_| Rejection::Busy)?;
        decided.await.unwrap_or(Err(Rejection::NotReady))
    }
}

async fn call<T: FromRedisValue>(
    link: &Link,
    script: &Script,
    keys: &[String],
    args: &[Vec<u8>],
) -> Result<T, RedisError> {
    let mut invocation = script.prepare_invoke();
    for key in keys {
        invocation.key(key);
    }
    for arg in args {
        invocation.arg(arg);
    }
    let mut link = link.clone();
    match tokio::time::timeout(CALL_WITHIN, invocation.invoke_async(&mut link)).await {
        Ok(answer) => answer,
        Err(_) => Err((ErrorKind::Io, "the server did not answer in time").into()),
    }
}

impl Gate for RedisGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) {
        // A draw's prizes are decided with its seats, so all of it is one shard.
        let shards = if seed.prizes.is_some() { 1 } else { seed.shards.max(1) as usize };
        for shard in 0..shards {
            let installed = match install_args(&seed, shard, shards) {
                Ok(args) => self.call::<()>(campaign, shard, &args).await,
                Err(error) => Err(error),
            };
            if let Err(error) = installed {
                tracing::warn!(%error, campaign = campaign.raw(), shard, "a shard could not be installed");
                return;
            }
        }
        let lines = self.make_lines(campaign, shards);
        for line in &lines.shards {
            line.epoch.store(seed.epoch.into(), Ordering::Release);
        }
        self.pools.lock().insert(campaign, lines);
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        let lines = self.lines(request.campaign).await.ok_or(Rejection::NotReady)?;
        let shard = shard_of(request.user, lines.shards.len());
        for _ in 0..lines.shards.len() + MORE_MOVES {
            match self.claim_at(&lines.shards[shard], request.clone()).await {
                Err(Rejection::SoldOut) if lines.shards.len() > 1 => {
                    self.bring_units(request.campaign, &lines, shard, request.quantity).await?;
                }
                decided => return decided,
            }
        }
        Err(Rejection::Busy)
    }

    async fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        let lines = self.lines(campaign).await.ok_or(Rejection::NotReady)?;
        let shards = lines.shards.len();
        let shard = shard_of(user, shards);
        // Each shard has its part of the quota.
        let stock = (rules.stock as usize).div_ceil(shards);
        let args = [
            arg("pass"),
            arg(user.raw()),
            arg(rules.factor),
            arg(stock),
            arg(rules.limit),
            arg(now.millis()),
            arg(expires_at.millis()),
        ];
        for _ in 0..shards + MORE_MOVES {
            let answer: Vec<Value> =
                self.call(campaign, shard, &args).await.map_err(|_| Rejection::NotReady)?;
            match read_pass(answer) {
                Err(Rejection::SoldOut) if shards > 1 => self.bring_units(campaign, &lines, shard, 1).await?,
                issued => return issued,
            }
        }
        Err(Rejection::Busy)
    }

    async fn undo(&self, claim: &Claim) {
        let Some(lines) = self.lines(claim.campaign).await else { return };
        let prize = claim.prize().unwrap_or(0);
        let args = [arg("undo"), arg(claim.epoch), arg(claim.user.raw()), arg(&claim.slots), arg(prize)];
        self.call_or_log::<()>(claim.campaign, shard_of(claim.user, lines.shards.len()), &args).await;
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Option<u64> {
        let shards = self.lines(campaign).await?.shards.len();
        let mut applied: Option<u64> = None;
        for shard in 0..shards {
            let mut args = vec![arg("follow")];
            args.extend(entries.iter().flat_map(|entry| entry_args(entry, shard, shards)));
            // A shard that does not answer now takes it in later; the others need not wait.
            let last: u64 = self.call_or_log::<Option<u64>>(campaign, shard, &args).await.unwrap_or(0);
            applied = Some(applied.map_or(last, |applied| applied.min(last)));
        }
        applied
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Option<Withdrawal> {
        let shards = self.lines(campaign).await?.shards.len();
        let mut taken = Withdrawal { top: 0, slots: Slots::default(), units: 0 };
        for shard in 0..shards {
            let args = [arg("withdraw"), arg(units - taken.units)];
            let answer: Option<(u32, u32, String)> = self.call_or_log(campaign, shard, &args).await;
            let Some((top, found, slots)) = answer else {
                self.put_back(campaign, taken).await;
                return None;
            };
            taken.top = taken.top.max(top);
            taken.units += found;
            Slots::parse(&slots)?.iter().for_each(|slot| taken.slots.push(slot));
        }
        Some(taken)
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) {
        let args = [arg("put_back"), arg(withdrawal.units), arg(&withdrawal.slots)];
        self.call_or_log::<()>(campaign, 0, &args).await;
    }

    async fn set_door(&self, campaign: CampaignId, door: Door) {
        let Some(lines) = self.lines(campaign).await else { return };
        for shard in 0..lines.shards.len() {
            self.call_or_log::<()>(campaign, shard, &[arg("door"), arg(door_word(door))]).await;
        }
    }

    async fn figures(&self, campaign: CampaignId) -> Option<PoolFigures> {
        let shards = self.lines(campaign).await?.shards.len();
        let all = self.all_figures(campaign, shards).await?;
        Some(PoolFigures {
            epoch: all.iter().map(|shard| shard.pool.epoch).min()?,
            version: all.iter().map(|shard| shard.pool.version).sum(),
            free: all.iter().map(|shard| shard.pool.free).sum(),
            applied: all.iter().map(|shard| shard.pool.applied).min()?,
        })
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Option<u32> {
        let shards = self.lines(campaign).await?.shards.len();
        self.call_or_log(campaign, shard_of(user, shards), &[arg("units"), arg(user.raw())]).await
    }
}
