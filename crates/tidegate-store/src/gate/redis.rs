//! The cluster's gate: the core's rules as one script on Redis or Valkey, one call for a batch of whatever waits.
//!
//! What always holds: a shard's keys share one hash slot, so a call touches one server; a granted claim is in the shard's
//! stream in the same step; "sold out" is said only when every shard is empty and nothing is on its way between them; a
//! server that knows less than this node has seen of it grants no claims: the pool answers `not_ready` until it is installed
//! anew. A script that the server has lost is loaded again, and a call that is sent again decides nothing twice.

mod asking;
mod caller;
mod encoding;
mod script;
mod transfers;
mod unrecorded;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use redis::{Cmd, FromRedisValue, RedisError, Script, Value};
use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    CampaignId, Claim, ClaimRequest, Moment, Pass, PassRules, Rejection, Seed, Slots, StockEntry, UserId,
};
use tokio::sync::mpsc;

pub use self::caller::{Asked, Undecided};
use self::caller::{Caller, Line, Sight};
pub(crate) use self::caller::{Given, Outcome, Refused, Watch};
use self::encoding::{SeedParts, arg, door_word, entry_args, read_pass, shard_of};
use self::script::{KEYS, SCRIPT, call};
pub use self::unrecorded::Done;
use super::{Gate, GateError, PoolFigures};
use crate::redis_link::Link;

/// How often units are brought to a shard for one asker before they are told to come back: once from every other, and these.
const MORE_MOVES: usize = 3;
/// Rows of a seed in one call: a script must not take long.
const SEED_AT_ONCE: usize = 20_000;
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
    /// Whether claims that wait go together; else each goes by itself, to measure what that gains.
    batches: bool,
    /// Read by every claim, changed by few: readers write nothing that another core has to fetch.
    pools: ArcSwap<HashMap<CampaignId, Arc<PoolLines>>>,
    /// Whoever it is has this gate, too.
    watch: Option<Weak<dyn Watch>>,
}

/// A look for units: when it began, how many were needed, and what it led to.
#[derive(Clone, Copy, Debug)]
struct Look {
    begun: Instant,
    needed: u32,
    outcome: Result<(), Rejection>,
}

/// The ways to one pool's shards.
#[derive(Debug)]
struct PoolLines {
    shards: Vec<Line>,
    /// Every shard was seen empty, with nothing on its way.
    sold_out: Arc<AtomicBool>,
    /// One transfer at a time; when the last look for units began, and what it led to. Whoever asked before that look
    /// needs no other.
    moving: tokio::sync::Mutex<Option<Look>>,
}

impl RedisGate {
    pub fn new(link: Link, prefix: impl Into<String>, node: impl Into<String>) -> Self {
        let script = Arc::new(Script::new(SCRIPT));
        let (prefix, node) = (prefix.into(), node.into());
        Self { link, prefix, node, script, batches: true, pools: ArcSwap::default(), watch: None }
    }

    /// Every claim is a call of its own: for comparison.
    #[must_use]
    pub fn one_by_one(mut self) -> Self {
        self.batches = false;
        self
    }

    /// Tells this what it decides, for as long as it is there.
    pub(crate) fn watched_by(mut self, watch: Weak<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// The keys of a shard, in the order the script knows them by. They share a hash slot.
    fn keys(&self, campaign: CampaignId, shard: usize) -> Vec<String> {
        let tag = format!("{}{{{}:{shard}}}", self.prefix, campaign.raw());
        KEYS.iter().map(|name| format!("{tag}:{name}")).collect()
    }

    /// The stream that a shard's granted claims are appended to.
    pub fn intake_key(&self, campaign: CampaignId, shard: usize) -> String {
        self.keys(campaign, shard).swap_remove(5)
    }

    /// Units left, as of a moment ago; `None` where this node knows no such pool. Nothing only if that is sure.
    pub fn left(&self, campaign: CampaignId) -> Option<u32> {
        let pools = self.pools.load();
        let lines = pools.get(&campaign)?;
        if lines.sold_out.load(Ordering::Acquire) {
            return Some(0);
        }
        let left = lines.shards.iter().map(|line| line.sight.free.load(Ordering::Acquire));
        Some(left.fold(0, u32::saturating_add).max(1))
    }

    /// What is left of each of a draw's prizes.
    pub async fn prizes_left(&self, campaign: CampaignId) -> Result<Vec<u32>, GateError> {
        Ok(self.call(campaign, 0, &[arg("prizes")]).await?)
    }

    /// Forgets the ways to a pool; they are found again when they are needed.
    pub fn forget(&self, campaign: CampaignId) {
        self.change_pools(|pools| {
            pools.remove(&campaign);
        });
    }

    async fn call<T: FromRedisValue>(
        &self,
        campaign: CampaignId,
        shard: usize,
        args: &[Vec<u8>],
    ) -> Result<T, RedisError> {
        let fill = |command: &mut Cmd| {
            command.arg(args);
        };
        call(&self.link, &self.script, &self.keys(campaign, shard), fill).await
    }

    /// One piece of a seed.
    async fn put(&self, campaign: CampaignId, shard: usize, piece: &[Vec<u8>]) -> Result<(), GateError> {
        let said: String = self.call(campaign, shard, piece).await?;
        if said == "OLD" {
            return Err(GateError("a pool of this epoch or a later one is there already".into()));
        }
        Ok(())
    }

    fn caller(&self, campaign: CampaignId, shard: usize, sight: Arc<Sight>) -> Caller {
        Caller {
            link: self.link.clone(),
            script: self.script.clone(),
            campaign,
            keys: self.keys(campaign, shard),
            node: self.node.clone(),
            sight,
            watch: self.watch.clone(),
        }
    }

    fn make_lines(&self, campaign: CampaignId, shards: usize) -> Arc<PoolLines> {
        let sold_out = Arc::new(AtomicBool::new(false));
        let line = |shard| {
            let (waiting, queue) = mpsc::channel(MAX_WAITING);
            let sight = Arc::new(Sight {
                seen: Mutex::new((0, 0)),
                free: AtomicU32::new(0),
                sold_out: (shards == 1).then(|| sold_out.clone()),
            });
            tokio::spawn(self.caller(campaign, shard, sight.clone()).run(queue));
            Line { waiting, sight }
        };
        Arc::new(PoolLines {
            shards: (0..shards).map(line).collect(),
            sold_out,
            moving: tokio::sync::Mutex::new(None),
        })
    }

    /// The ways to a pool; how many shards it has is asked once. `None` where it is not installed.
    async fn lines(&self, campaign: CampaignId) -> Result<Option<Arc<PoolLines>>, GateError> {
        if let Some(lines) = self.pools.load().get(&campaign) {
            return Ok(Some(lines.clone()));
        }
        let shards: Option<usize> = self.call(campaign, 0, &[arg("shards")]).await?;
        let Some(shards) = shards else { return Ok(None) };
        let lines = self.make_lines(campaign, shards);
        self.change_pools(|pools| {
            pools.entry(campaign).or_insert_with(|| lines.clone());
        });
        Ok(Some(self.pools.load().get(&campaign).cloned().unwrap_or(lines)))
    }

    /// `change` may run more than once.
    fn change_pools(&self, change: impl Fn(&mut HashMap<CampaignId, Arc<PoolLines>>)) {
        self.pools.rcu(|pools| {
            let mut pools = HashMap::clone(pools);
            change(&mut pools);
            pools
        });
    }
}

impl From<RedisError> for GateError {
    fn from(error: RedisError) -> Self {
        Self(error.to_string())
    }
}

impl Gate for RedisGate {
    async fn install(&self, campaign: CampaignId, seed: Seed) -> Result<(), GateError> {
        // A draw's prizes are decided with its seats, so all of it is one shard.
        let shards = if seed.prizes.is_some() { 1 } else { seed.shards.max(1) as usize };
        for shard in 0..shards {
            let parts = SeedParts::of(&seed, shard, shards);
            self.put(campaign, shard, &parts.build()).await?;
            for piece in parts.pieces(SEED_AT_ONCE) {
                self.put(campaign, shard, &piece).await?;
            }
            self.put(campaign, shard, &parts.install()).await?;
        }
        let lines = self.make_lines(campaign, shards);
        for line in &lines.shards {
            *line.sight.seen.lock() = (seed.epoch.into(), 0);
        }
        self.change_pools(|pools| {
            pools.insert(campaign, lines.clone());
        });
        self.figures(campaign).await?;
        Ok(())
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim, Rejection> {
        // Who asks like this has no ledger to look anything up in.
        let asked = Asked { looked: true, per_s: 0 };
        self.decide(request, asked).await.map_err(|undecided| match undecided {
            Undecided::Refused(rejection) => rejection,
            Undecided::InFlight | Undecided::Look | Undecided::TooOften => Rejection::Busy,
            Undecided::Unknown(_) => Rejection::NotReady,
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
        let lines = self.lines(campaign).await.map_err(|_| Rejection::NotReady)?;
        let lines = lines.ok_or(Rejection::NotReady)?;
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

    async fn follow(&self, campaign: CampaignId, entries: &[StockEntry]) -> Result<Option<u64>, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let shards = lines.shards.len();
        let mut applied: Option<u64> = None;
        for shard in 0..shards {
            let mut args = vec![arg("follow")];
            args.extend(entries.iter().flat_map(|entry| entry_args(entry, shard, shards)));
            let last: Option<u64> = self.call(campaign, shard, &args).await?;
            let Some(last) = last else { return Ok(None) };
            applied = Some(applied.map_or(last, |applied| applied.min(last)));
        }
        Ok(applied)
    }

    async fn withdraw(&self, campaign: CampaignId, units: u32) -> Result<Option<Withdrawal>, GateError> {
        let Some(figures) = self.figures(campaign).await? else { return Ok(None) };
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let epoch = figures.epoch;
        let mut taken = Withdrawal { epoch, top: 0, slots: Slots::default(), units: 0 };
        for shard in 0..lines.shards.len() {
            let args = [arg("withdraw"), arg(epoch), arg(units - taken.units)];
            let answer: Result<Option<(u32, u32, String)>, _> = self.call(campaign, shard, &args).await;
            let Ok(Some((top, found, slots))) = answer else {
                self.put_back(campaign, taken).await?;
                return answer.map(|_| None).map_err(Into::into);
            };
            taken.top = taken.top.max(top);
            taken.units += found;
            let slots = Slots::parse(&slots).unwrap_or_default();
            slots.iter().for_each(|slot| taken.slots.push(slot));
        }
        Ok(Some(taken))
    }

    async fn put_back(&self, campaign: CampaignId, withdrawal: Withdrawal) -> Result<(), GateError> {
        let Withdrawal { epoch, top, units, slots } = withdrawal;
        let args = [arg("put_back"), arg(epoch), arg(top + units - slots.units()), arg(&slots)];
        Ok(self.call(campaign, 0, &args).await?)
    }

    async fn set_door(&self, campaign: CampaignId, door: Door, as_of: Moment) -> Result<(), GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(()) };
        for shard in 0..lines.shards.len() {
            let args = [arg("door"), arg(door_word(door)), arg(as_of.millis())];
            self.call::<()>(campaign, shard, &args).await?;
        }
        Ok(())
    }

    async fn figures(&self, campaign: CampaignId) -> Result<Option<PoolFigures>, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let Some(all) = self.all_figures(campaign, &lines).await? else { return Ok(None) };
        if all.iter().all(|shard| shard.pool.free + shard.pool.moving == 0) {
            // A unit may have moved from a shard not looked at yet to one looked at before.
            let again = if all.len() == 1 { None } else { self.all_figures(campaign, &lines).await? };
            if all.len() == 1 || again.as_ref() == Some(&all) {
                lines.sold_out.store(true, Ordering::Release);
            }
        }
        Ok(all.iter().map(|shard| shard.pool).reduce(|one, other| PoolFigures {
            epoch: one.epoch.min(other.epoch),
            version: one.version + other.version,
            free: one.free + other.free,
            moving: one.moving + other.moving,
            applied: one.applied.min(other.applied),
            door: one.door.filter(|_| one.door == other.door),
        }))
    }

    async fn units_of(&self, campaign: CampaignId, user: UserId) -> Result<Option<u32>, GateError> {
        let Some(lines) = self.lines(campaign).await? else { return Ok(None) };
        let shard = shard_of(user, lines.shards.len());
        Ok(self.call(campaign, shard, &[arg("units"), arg(user.raw())]).await?)
    }
}
