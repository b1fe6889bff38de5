//! The cluster's gate: the core's rules as one script on Redis or Valkey, one call for a batch of whatever waits.
//!
//! What always holds: a shard's keys share one hash slot, so a call touches one server; a granted claim is in the shard's
//! stream in the same step; "sold out" is said only when every shard is empty and nothing is on its way between them; a server that knows less than this node has seen of it is not asked for anything: the pool
//! answers `not_ready` until it is installed anew. A script that the server has lost is loaded again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{ErrorKind, FromRedisValue, RedisError, Script, Value};
use tidegate_core::dealer::Dealer;
use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Shown, Slot, Slots,
    StockChange, StockEntry, UserId, Wanted,
};
use tokio::sync::{mpsc, oneshot};

use super::{Gate, PoolFigures};
use crate::intake::stream::entry_fields;
use crate::redis_link::Link;

/// Claims in one call: few enough that others are not kept waiting.
const MAX_BATCH: usize = 256;
/// How often units are brought to a shard for one claim before it is told to come back: once from every other, and these.
const MORE_MOVES: usize = 3;
/// How often the answer of a call is asked for again.
const ASK_AGAIN: usize = 1;
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

/// The way to one shard: what waits for it, and what this node has seen of it.
#[derive(Debug)]
struct Line {
    waiting: mpsc::Sender<Waiting>,
    epoch: AtomicU64,
    version: AtomicU64,
}

struct Waiting {
    request: ClaimRequest,
    answer: oneshot::Sender<Result<Claim, Rejection>>,
}

/// A shard as one look found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShardFigures {
    pool: PoolFigures,
    /// Transfers that have left it and are not known to have arrived.
    leaving: u32,
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

    async fn figures_of(&self, campaign: CampaignId, shard: usize) -> Option<ShardFigures> {
        let answer: Option<(u32, u64, u32, u64, u32)> =
            self.call_or_log(campaign, shard, &[arg("figures")]).await;
        answer.map(|(epoch, version, free, applied, leaving)| ShardFigures {
            pool: PoolFigures { epoch, version, free, applied },
            leaving,
        })
    }

    async fn all_figures(&self, campaign: CampaignId, shards: usize) -> Option<Vec<ShardFigures>> {
        let mut all = Vec::with_capacity(shards);
        for shard in 0..shards {
            all.push(self.figures_of(campaign, shard).await?);
        }
        Some(all)
    }

    /// One claim at one shard, with whatever else waits for it.
    async fn claim_at(&self, line: &Line, request: ClaimRequest) -> Result<Claim, Rejection> {
        let (answer, decided) = oneshot::channel();
        line.waiting.try_send(Waiting { request, answer }).map_err(|_| Rejection::Busy)?;
        decided.await.unwrap_or(Err(Rejection::NotReady))
    }

    /// Brings units to a shard that has fewer than `needed`: finishes transfers that somebody left half-done, or takes half
    /// of what the richest has, more if need be. `Err(SoldOut)` only if all shards together have too few and nothing is on
    /// its way between them.
    async fn bring_units(
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

/// Users are spread by their number's bits, which rise with time and would not spread by themselves.
fn shard_of(user: UserId, shards: usize) -> usize {
    let mixed = user.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % shards.max(1)
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

fn arg(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Sends whatever waits for one pool, one call after the other.
struct Caller {
    link: Link,
    script: Arc<Script>,
    keys: Vec<String>,
    node: String,
    line: std::sync::Weak<Line>,
}

impl Caller {
    async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let mut number = 0_u64;
        while queue.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let Some(line) = self.line.upgrade() else { return };
            number += 1;
            let answers = self.decide(&line, number, &batch).await;
            for (waiting, answer) in batch.drain(..).zip(answers) {
                // A buyer who hung up still has their claim: it is in the intake.
                let _ = waiting.answer.send(answer);
            }
        }
    }

    async fn decide(&self, line: &Line, number: u64, batch: &[Waiting]) -> Vec<Result<Claim, Rejection>> {
        let mut args = vec![
            arg("claim"),
            arg(&self.node),
            arg(format!("{:p} {number}", std::ptr::from_ref(line))),
            arg(line.epoch.load(Ordering::Acquire)),
            arg(line.version.load(Ordering::Acquire)),
        ];
        for Waiting { request, .. } in batch {
            args.extend(claim_args(request));
        }
        let refuse = |rejection| batch.iter().map(|_| Err(rejection)).collect();
        let ask = || call::<Option<(u64, u64, Vec<Vec<Value>>)>>(&self.link, &self.script, &self.keys, &args);
        let mut answer = ask().await;
        // An answer that was lost is asked for again: the script knows the call, and decides nothing twice.
        for _ in 0..ASK_AGAIN {
            if answer.is_ok() {
                break;
            }
            answer = ask().await;
        }
        match answer {
            Ok(Some((epoch, version, answers))) if answers.len() == batch.len() => {
                line.epoch.store(epoch, Ordering::Release);
                line.version.store(version, Ordering::Release);
                batch
                    .iter()
                    .zip(answers)
                    .map(|(waiting, answer)| read_claim(&waiting.request, epoch, answer))
                    .collect()
            }
            Ok(_) => refuse(Rejection::NotReady),
            Err(error) => {
                tracing::warn!(%error, "the gate did not decide");
                // Whether the claims were taken is not known; if they were, they are in the intake and become orders.
                refuse(Rejection::NotReady)
            }
        }
    }
}

/// A claim's arguments, in the script's order. The entry is the claim but for what the script adds.
fn claim_args(request: &ClaimRequest) -> [Vec<u8>; 8] {
    let (pass, now) = match request.shown {
        Shown::NotNeeded => (Vec::new(), 0),
        Shown::Pass { number, now } => (arg(number), now.millis()),
    };
    let (play, client_seed) = match &request.wanted {
        Wanted::Order { .. } => ("0", ""),
        Wanted::Play { client_seed } => ("1", client_seed.as_str()),
    };
    let [(_, entry), ..] = entry_fields(&request.clone().granted(Slots::default(), None, 0, 0));
    [
        arg(request.user.raw()),
        arg(request.quantity),
        arg(request.limit),
        pass,
        arg(now),
        arg(play),
        client_seed.as_bytes().to_vec(),
        entry,
    ]
}

fn read_claim(request: &ClaimRequest, epoch: u64, answer: Vec<Value>) -> Result<Claim, Rejection> {
    let mut parts = answer.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let code: String = read(next()).unwrap_or_default();
    if !code.is_empty() {
        return Err(Rejection::from_code(&code).unwrap_or(Rejection::NotReady));
    }
    let (version, prize, slots): (Option<u64>, Option<u8>, Option<String>) =
        (read(next()), read(next()), read(next()));
    let slots = slots.as_deref().and_then(Slots::parse).ok_or(Rejection::NotReady)?;
    let epoch = u32::try_from(epoch).map_err(|_| Rejection::NotReady)?;
    let prize = prize.filter(|prize| *prize > 0);
    Ok(request.clone().granted(slots, prize, epoch, version.ok_or(Rejection::NotReady)?))
}

fn read<T: FromRedisValue>(value: Value) -> Option<T> {
    T::from_redis_value(value).ok()
}

fn door_word(door: Door) -> &'static str {
    match door {
        Door::Open => "open",
        Door::Paused => "paused",
        Door::Closed => "closed",
    }
}

/// The arguments that install one shard of a pool.
fn install_args(seed: &Seed, shard: usize, shards: usize) -> Result<Vec<Vec<u8>>, RedisError> {
    let packed =
        |error: &str| RedisError::from((ErrorKind::Client, "a seed cannot be packed", error.to_owned()));
    let ours = |slot: &Slot| (*slot as usize - 1) % shards == shard;
    let taken: Vec<Slot> = seed.taken.iter().copied().filter(ours).collect();
    let users = seed.users.iter().filter(|(user, _)| shard_of(*user, shards) == shard);
    let users: Vec<(String, u32)> = users.map(|(user, units)| (user.raw().to_string(), *units)).collect();
    let mut args = vec![
        arg("install"),
        arg(seed.epoch),
        arg(door_word(seed.door)),
        arg(seed.top),
        arg(seed.applied),
        arg(shard),
        arg(shards),
        msgpack::slots(&taken).ok_or_else(|| packed("too many slots"))?,
        msgpack::users(&users).ok_or_else(|| packed("too many users"))?,
    ];
    let Some(prizes) = &seed.prizes else {
        args.extend([const { Vec::new() }; 5]);
        return Ok(args);
    };
    let list = |numbers: &mut dyn Iterator<Item = u32>| {
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",").into_bytes()
    };
    args.extend([
        arg(prizes.draw.strategy.as_str()),
        prizes.draw.seed.to_vec(),
        list(&mut prizes.draw.prizes.iter().map(|prize| prize.odds)),
        list(&mut prizes.draw.prizes.iter().zip(&prizes.taken).map(|(prize, taken)| prize.stock - taken)),
        Dealer::new(&prizes.draw, prizes.seats).deck().to_vec(),
    ]);
    Ok(args)
}

/// The two lists of a seed in MessagePack, which the server reads in one go.
mod msgpack {
    fn list(length: usize) -> Option<Vec<u8>> {
        let length = u32::try_from(length).ok()?;
        Some([&[0xdd][..], &length.to_be_bytes()].concat())
    }

    fn number(into: &mut Vec<u8>, number: u32) {
        into.push(0xce);
        into.extend(number.to_be_bytes());
    }

    pub(super) fn slots(slots: &[u32]) -> Option<Vec<u8>> {
        let mut bytes = list(slots.len())?;
        for slot in slots {
            number(&mut bytes, *slot);
        }
        Some(bytes)
    }

    /// User, units, user, units, …: users as texts of at most 20 digits.
    pub(super) fn users(users: &[(String, u32)]) -> Option<Vec<u8>> {
        let mut bytes = list(users.len() * 2)?;
        for (user, units) in users {
            bytes.push(0xa0 | u8::try_from(user.len()).ok()?);
            bytes.extend(user.as_bytes());
            number(&mut bytes, *units);
        }
        Some(bytes)
    }
}

/// A log entry for one shard: every shard follows the whole log and acts on what is its own.
fn entry_args(entry: &StockEntry, shard: usize, shards: usize) -> [Vec<u8>; 6] {
    let none = Slots::default();
    let (top, user, slots, prize) = match &entry.change {
        StockChange::Restock { top } => (*top, 0, &none, None),
        StockChange::Return { user, slots, prize } => (0, user.raw(), slots, *prize),
        StockChange::Withdraw { top, slots } => (*top, 0, slots, None),
    };
    let kind = match &entry.change {
        StockChange::Return { user, .. } if shard_of(*user, shards) != shard => "skip",
        change => change.kind(),
    };
    [arg(entry.seq), arg(kind), arg(top), arg(user), arg(slots), arg(prize.unwrap_or(0))]
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

fn read_pass(answer: Vec<Value>) -> Result<(Pass, u32), Rejection> {
    let mut parts = answer.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let code: String = read(next()).ok_or(Rejection::NotReady)?;
    if !code.is_empty() {
        return Err(Rejection::from_code(&code).unwrap_or(Rejection::NotReady));
    }
    let (epoch, number, expires_at) = (read(next()), read(next()), read(next()).map(Moment::from_millis));
    let pass = number.zip(expires_at).map(|(number, expires_at)| Pass { number, expires_at });
    pass.zip(epoch).ok_or(Rejection::NotReady)
}
