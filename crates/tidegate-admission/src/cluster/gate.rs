//! The cluster's gate: the core's rules as a Lua script on Redis or Valkey, called once per batch of claims.
//!
//! Invariants: the keys of a shard share a hash slot, so a call touches one server. A granted claim is in the shard's
//! stream in the same step. "Sold out" is reported only if every shard is empty and nothing is in transit between
//! shards. A server whose version is below what this node has seen of it has lost writes: the pool answers
//! `not_ready` until it is installed again. A script that the server has lost is loaded again, and a repeated call
//! decides nothing twice.

mod accounting;
mod batcher;
mod encoding;
mod figures;
mod msgpack;
mod port;
mod replies;
mod script;
mod seed_parts;
mod shard;
mod submit;
mod transfers;
mod unrecorded;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use redis::{Cmd, FromRedisValue, RedisError, Script};
use tidegate_core::CampaignId;

use self::batcher::{Batcher, MAX_BATCH, caller};
pub use self::batcher::{DecideError, SubmitOptions};
pub(crate) use self::batcher::{DecisionObserver, FailedClaim, GrantedClaim, OutcomeReceiver};
use self::replies::PoolVersion;
use self::script::{Operation, SCRIPT, ShardKeys, call};
use self::shard::{ShardQueue, ShardView};
use self::transfers::TransferAttempt;
pub use self::unrecorded::RecordedEntries;
use crate::cluster::redis_link::Link;
use crate::gate::GateError;

/// A claim whose shard is empty waits for at most one transfer from every shard and this many more; then it is busy.
const EXTRA_TRANSFERS: usize = 3;

#[derive(Debug)]
pub struct RedisGate {
    link: Link,
    /// Prepended to every key, so that several installations can share a server.
    prefix: String,
    /// Unique among all processes there ever were: the script recognises repeated calls by it.
    node: String,
    script: Arc<Script>,
    /// Claims in one call.
    max_batch: usize,
    /// Read by every claim and rarely changed: a read writes no memory that other cores share.
    pools: ArcSwap<HashMap<CampaignId, Arc<PoolHandle>>>,
    /// Weak, because the observer owns this gate.
    observer: Option<Weak<dyn DecisionObserver>>,
}

/// A pool as this node knows it.
#[derive(Debug)]
struct PoolHandle {
    shards: Vec<ShardQueue>,
    /// Every shard was seen empty, with nothing in transit.
    sold_out: Arc<AtomicBool>,
    /// Locked during a transfer: one at a time. A claim that arrived before the last attempt started uses its result.
    last_transfer: tokio::sync::Mutex<Option<TransferAttempt>>,
}

impl RedisGate {
    pub fn new(link: Link, prefix: impl Into<String>, node: impl Into<String>) -> Self {
        let script = Arc::new(Script::new(SCRIPT));
        let (prefix, node) = (prefix.into(), node.into());
        Self { link, prefix, node, script, max_batch: MAX_BATCH, pools: ArcSwap::default(), observer: None }
    }

    /// Sends every claim as a call of its own, to measure what batching gains.
    #[must_use]
    pub fn without_batches(mut self) -> Self {
        self.max_batch = 1;
        self
    }

    /// Reports decisions to this observer for as long as it lives.
    pub(crate) fn with_observer(mut self, observer: Weak<dyn DecisionObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// The stream to which a shard's granted claims are appended.
    pub fn intake_key(&self, campaign: CampaignId, shard: usize) -> String {
        script::intake_key(&self.prefix, campaign, shard)
    }

    /// Units left, as last seen; `None` if this node does not know the pool. 0 only if the pool is certainly sold out.
    pub fn units_left(&self, campaign: CampaignId) -> Option<u32> {
        let pools = self.pools.load();
        let pool = pools.get(&campaign)?;
        if pool.sold_out.load(Ordering::Acquire) {
            return Some(0);
        }
        let left = pool.shards.iter().map(|shard| shard.view.free());
        Some(left.fold(0, u32::saturating_add).max(1))
    }

    /// The stock left of each of a draw's prizes.
    pub async fn prizes_left(&self, campaign: CampaignId) -> Result<Vec<u32>, GateError> {
        Ok(self.call(campaign, 0, Operation::PrizesLeft, &[]).await?)
    }

    /// Drops this node's handle of a pool; it is opened again when needed. Claims already queued are still decided.
    pub fn close(&self, campaign: CampaignId) {
        self.update_pools(|pools| {
            pools.remove(&campaign);
        });
    }

    async fn call<T: FromRedisValue>(
        &self,
        campaign: CampaignId,
        shard: usize,
        operation: Operation,
        args: &[Vec<u8>],
    ) -> Result<T, RedisError> {
        let keys = ShardKeys::new(&self.prefix, campaign, shard);
        let add_args = |command: &mut Cmd| {
            command.arg(args);
        };
        call(&self.link, &self.script, &keys, operation, add_args).await
    }

    fn batcher(&self, campaign: CampaignId, shard: usize, view: Arc<ShardView>) -> Batcher {
        Batcher {
            link: self.link.clone(),
            script: self.script.clone(),
            campaign,
            keys: ShardKeys::new(&self.prefix, campaign, shard),
            caller: caller(&self.node),
            max_batch: self.max_batch,
            view,
            observer: self.observer.clone(),
        }
    }

    /// Starts a batcher for each shard. `version` is the oldest that this node may trust.
    fn start_pool(&self, campaign: CampaignId, shards: usize, version: PoolVersion) -> Arc<PoolHandle> {
        let sold_out = Arc::new(AtomicBool::new(false));
        let start_shard = |shard| {
            let view = Arc::new(ShardView::new(version, (shards == 1).then(|| sold_out.clone())));
            let (queue, receiver) = ShardQueue::new(view.clone());
            tokio::spawn(self.batcher(campaign, shard, view).run(receiver));
            queue
        };
        let shards = (0..shards).map(start_shard).collect();
        Arc::new(PoolHandle { shards, sold_out, last_transfer: tokio::sync::Mutex::new(None) })
    }

    /// The handle of a pool; the number of shards is read once. `None` if no pool is installed.
    async fn pool(&self, campaign: CampaignId) -> Result<Option<Arc<PoolHandle>>, GateError> {
        if let Some(pool) = self.pools.load().get(&campaign) {
            return Ok(Some(pool.clone()));
        }
        let shards: Option<usize> = self.call(campaign, 0, Operation::ShardCount, &[]).await?;
        let Some(shards) = shards else { return Ok(None) };
        let pool = self.start_pool(campaign, shards, PoolVersion::default());
        self.update_pools(|pools| {
            pools.entry(campaign).or_insert_with(|| pool.clone());
        });
        Ok(Some(self.pools.load().get(&campaign).cloned().unwrap_or(pool)))
    }

    /// `update` may run more than once.
    fn update_pools(&self, update: impl Fn(&mut HashMap<CampaignId, Arc<PoolHandle>>)) {
        self.pools.rcu(|pools| {
            let mut pools = HashMap::clone(pools);
            update(&mut pools);
            pools
        });
    }
}

impl From<RedisError> for GateError {
    fn from(error: RedisError) -> Self {
        Self(error.to_string())
    }
}
