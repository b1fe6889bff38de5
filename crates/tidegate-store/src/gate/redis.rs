//! The cluster's gate: the core's rules as one script on Redis or Valkey, one call for a batch of whatever waits.
//!
//! What always holds: a pool's keys share one hash slot, so a call touches one server; a granted claim is in the intake's
//! stream in the same step; a server that knows less than this node has seen of it is not asked for anything: the pool
//! answers `not_ready` until it is installed anew. A script that the server has lost is loaded again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{ErrorKind, FromRedisValue, RedisError, Script, Value};
use tidegate_core::dealer::Dealer;
use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Shown, Slots, StockChange,
    StockEntry, UserId, Wanted,
};
use tokio::sync::{mpsc, oneshot};

use super::{Gate, PoolFigures};
use crate::intake::stream::entry_fields;
use crate::redis_link::Link;

/// Claims in one call: few enough that others are not kept waiting.
const MAX_BATCH: usize = 256;
/// Claims of one pool that may wait for a call; more are refused as busy.
const MAX_WAITING: usize = 20_000;

#[derive(Debug)]
pub struct RedisGate {
    link: Link,
    /// Comes before every key, so that several installations can share a server.
    prefix: String,
    script: Arc<Script>,
    pools: Mutex<HashMap<CampaignId, Arc<Line>>>,
}

/// The way to one pool: what waits for it, and what this node has seen of it.
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

impl RedisGate {
    pub fn new(link: Link, prefix: impl Into<String>) -> Self {
        let script = Arc::new(Script::new(include_str!("redis/gate.lua")));
        Self { link, prefix: prefix.into(), script, pools: Mutex::default() }
    }

    /// The keys of a pool, in the order the script knows them by.
    fn keys(&self, campaign: CampaignId) -> Vec<String> {
        let tag = format!("{}{{{}:0}}", self.prefix, campaign.raw());
        ["pool", "returned", "users", "passes", "issued", "intake", "deck"]
            .iter()
            .map(|name| format!("{tag}:{name}"))
            .collect()
    }

    /// The stream that granted claims are appended to.
    pub fn intake_key(&self, campaign: CampaignId) -> String {
        self.keys(campaign).swap_remove(5)
    }

    async fn call<T: FromRedisValue>(&self, campaign: CampaignId, args: &[Vec<u8>]) -> Result<T, RedisError> {
        call(&self.link, &self.script, &self.keys(campaign), args).await
    }

    /// For operations whose failure leaves nothing to say: they are repeated by whoever follows the log.
    async fn call_or_log<T: FromRedisValue + Default>(&self, campaign: CampaignId, args: &[Vec<u8>]) -> T {
        self.call(campaign, args).await.unwrap_or_else(|error| {
            tracing::warn!(%error, campaign = campaign.raw(), "the gate did not answer");
            T::default()
        })
    }

    fn line(&self, campaign: CampaignId) -> Arc<Line> {
        let mut pools = self.pools.lock();
        pools
            .entry(campaign)
            .or_insert_with(|| {
                let (waiting, queue) = mpsc::channel(MAX_WAITING);
                let line = Arc::new(Line { waiting, epoch: AtomicU64::new(0), version: AtomicU64::new(0) });
                let caller = Caller {
                    link: self.link.clone(),
                    script: self.script.clone(),
                    keys: self.keys(campaign),
                    line: Arc::downgrade(&line),
                };
                tokio::spawn(caller.run(queue));
                line
            })
            .clone()
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
    invocation.invoke_async(&mut link.clone()).await
}

fn arg(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Sends whatever waits for one pool, one call after the other.
struct Caller {
    link: Link,
    script: Arc<Script>,
    keys: Vec<String>,
    line: std::sync::Weak<Line>,
}

impl Caller {
    async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while queue.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let Some(line) = self.line.upgrade() else { return };
            let answers = self.decide(&line, &batch).await;
            for (waiting, answer) in batch.drain(..).zip(answers) {
                // A buyer who hung up still has their claim: it is in the intake.
                let _ = waiting.answer.send(answer);
            }
        }
    }

    async fn decide(&self, line: &Line, batch: &[Waiting]) -> Vec<Result<Claim, Rejection>> {
        let mut args = vec![
            arg("claim"),
            arg(line.epoch.load(Ordering::Acquire)),
            arg(line.version.load(Ordering::Acquire)),
        ];
        for Waiting { request, .. } in batch {
            args.extend(claim_args(request));
        }
        let refuse = |rejection| batch.iter().map(|_| Err(rejection)).collect();
        match call::<Option<(u64, u64, Vec<Vec<Value>>)>>(&self.link, &self.script, &self.keys, &args).await {
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

/// The arguments that install a pool.
fn install_args(seed: &Seed) -> Result<Vec<Vec<u8>>, RedisError> {
    let packed =
        |error: &str| RedisError::from((ErrorKind::Client, "a seed cannot be packed", error.to_owned()));
    let users: Vec<(String, u32)> =
        seed.users.iter().map(|(user, units)| (user.raw().to_string(), *units)).collect();
    let mut args = vec![
        arg("install"),
        arg(seed.epoch),
        arg(door_word(seed.door)),
        arg(seed.top),
        arg(seed.applied),
        msgpack::slots(&seed.taken).ok_or_else(|| packed("too many slots"))?,
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

fn entry_args(entry: &StockEntry) -> [Vec<u8>; 6] {
    let none = Slots::default();
    let (top, user, slots, prize) = match &entry.change {
        StockChange::Restock { top } => (*top, 0, &none, None),
        StockChange::Return { user, slots, prize } => (0, user.raw(), slots, *prize),
        StockChange::Withdraw { top, slots } => (*top, 0, slots, None),
    };
    [arg(entry.seq), arg(entry.change.kind()), arg(top), arg(user), arg(slots), arg(prize.unwrap_or(0))]
}

impl Gate for RedisGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) {
        let installed = match install_args(&seed) {
            Ok(args) => self.call::<()>(campaign, &args).await,
            Err(error) => Err(error),
        };
        match installed {
            Ok(()) => {
                let line = self.line(campaign);
                line.version.store(0, Ordering::Release);
                line.epoch.store(seed.epoch.into(), Ordering::Release);
            }
            Err(error) => tracing::warn!(%error, campaign = campaign.raw(), "a pool could not be installed"),
        }
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        let (answer, decided) = oneshot::channel();
        let line = self.line(request.campaign);
        line.waiting.try_send(Waiting { request, answer }).map_err(|_| Rejection::Busy)?;
        decided.await.unwrap_or(Err(Rejection::NotReady))
    }

    async fn issue_pass(
        &self,
        campaign: CampaignId,
        user: UserId,
        rules: PassRules,
        now: Moment,
        expires_at: Moment,
    ) -> Result<(Pass, u32), Rejection> {
        let args = [
            arg("pass"),
            arg(user.raw()),
            arg(rules.factor),
            arg(rules.stock),
            arg(rules.limit),
            arg(now.millis()),
            arg(expires_at.millis()),
        ];
        let answer: Vec<Value> = self.call(campaign, &args).await.map_err(|_| Rejection::NotReady)?;
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

    async fn undo(&self, claim: &Claim) {
        let prize = claim.prize().unwrap_or(0);
        let args = [arg("undo"), arg(claim.epoch), arg(claim.user.raw()), arg(&claim.slots), arg(prize)];
        self.call_or_log::<()>(claim.campaign, &args).await;
    }

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Option<u64> {
        let mut args = vec![arg("follow")];
        args.extend(entries.iter().flat_map(entry_args));
        self.call_or_log(campaign, &args).await
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Option<Withdrawal> {
        let answer: Option<(u32, u32, String)> =
            self.call_or_log(campaign, &[arg("withdraw"), arg(units)]).await;
        let (top, units, slots) = answer?;
        Some(Withdrawal { top, units, slots: Slots::parse(&slots)? })
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) {
        let args = [arg("put_back"), arg(withdrawal.units), arg(&withdrawal.slots)];
        self.call_or_log::<()>(campaign, &args).await;
    }

    async fn set_door(&self, campaign: CampaignId, door: Door) {
        self.call_or_log::<()>(campaign, &[arg("door"), arg(door_word(door))]).await;
    }

    async fn figures(&self, campaign: CampaignId) -> Option<PoolFigures> {
        let answer: Option<(u32, u64, u32, u64)> = self.call_or_log(campaign, &[arg("figures")]).await;
        answer.map(|(epoch, version, free, applied)| PoolFigures { epoch, version, free, applied })
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Option<u32> {
        self.call_or_log(campaign, &[arg("units"), arg(user.raw())]).await
    }
}
