//! The cluster's intake: a shard's stream on Redis or Valkey, appended by the gate's script, read by a consumer group.
//!
//! Invariants: an entry is deleted only after the ledger has all of its claims. Entries of a dead consumer are taken
//! over by another. An entry that cannot be decoded goes to the dead-letter stream with the reason and does not block
//! others. An entry may be delivered twice, after a crash between commit and deletion: the ledger recognises an order
//! by its id. Positions count the claims that this reader has fetched; they mean nothing to other readers.
//!
//! The plays of a draw must be recorded in the order in which they were dealt. So the stream of a draw has one reader
//! at a time, the holder of its lease, which reads from the front and without a group.

mod entry;
mod window;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{AsyncCommands, Cmd, FromRedisValue, RedisResult, Value, cmd};
use tidegate_core::{CampaignId, Claim, UserId};
use tidegate_ledger::Position;
use tokio::sync::{Mutex, Notify};

use self::entry::{Decoded, Entry, GroupReply, Poison};
pub(crate) use self::entry::{EncodedClaim, Entries};
use self::window::{INITIAL_FETCH, Window};
use crate::burst::{BurstDetector, SAMPLE_INTERVAL};
use crate::cluster::claim_counts::ClaimCounts;
use crate::cluster::gate::{RecordedEntries, RedisGate};
use crate::cluster::redis_link::Link;
use crate::gate::GateError;
use crate::intake::{AppendError, Intake, Unrecorded};

/// The consumer group.
const GROUP: &str = "recorders";
/// How long a reader sleeps when the stream is empty; it doubles until something arrives. Claims of the same node
/// wake the reader at once.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(200);
const RETRY_DELAY: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub struct StreamOptions {
    pub campaign: CampaignId,
    pub shard: usize,
    /// Unique among all readers of all nodes.
    pub consumer: String,
    /// A reader that has not finished an entry for this long is considered dead.
    pub dead_after: Duration,
    /// Read from the front, without a group. There must be one reader only.
    pub in_order: bool,
    /// Notified when claims of this node were appended.
    pub appended: Arc<Notify>,
    /// Bursts of claims defer reading; `None` if they never do.
    pub deferral: Option<Deferral>,
}

/// When a reader steps aside for admission.
#[derive(Clone, Debug)]
pub struct Deferral {
    /// The claims of this node.
    pub counts: Arc<ClaimCounts>,
    pub max: Duration,
}

/// One reader of one stream.
#[derive(Debug)]
pub struct StreamIntake {
    gate: Arc<RedisGate>,
    link: Link,
    key: String,
    options: StreamOptions,
    window: Mutex<Window>,
    burst: parking_lot::Mutex<BurstDetector>,
    depth: AtomicUsize,
    /// An entry could not be decoded.
    is_poisoned: AtomicBool,
}

impl StreamIntake {
    /// `recorded` is where this reader's positions start.
    pub fn new(gate: Arc<RedisGate>, options: StreamOptions, recorded: Position) -> Self {
        let max_deferral = options.deferral.as_ref().map_or(Duration::ZERO, |deferral| deferral.max);
        Self {
            burst: parking_lot::Mutex::new(BurstDetector::new(max_deferral, 0, Instant::now())),
            link: gate.link().clone(),
            key: gate.intake_key(options.campaign, options.shard),
            gate,
            options,
            window: Mutex::new(Window::new(recorded, MIN_PAUSE)),
            depth: AtomicUsize::new(0),
            is_poisoned: AtomicBool::new(false),
        }
    }

    /// Whether an entry could not be decoded since the last call.
    pub fn take_poisoned(&self) -> bool {
        self.is_poisoned.swap(false, Ordering::AcqRel)
    }

    async fn create_group(&self) -> RedisResult<()> {
        let created: RedisResult<()> = self.link.clone().xgroup_create_mkstream(&self.key, GROUP, "0").await;
        match created {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error),
            _ => Ok(()),
        }
    }

    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.link.clone()).await
    }

    /// Entries for this reader. The group is created if it is missing: the stream is new, or the server has lost it.
    async fn fetch(&self, window: &mut Window, count: usize) -> RedisResult<Vec<Entry>> {
        match self.try_fetch(window, count).await {
            Err(error) if error.code() == Some("NOGROUP") => {
                self.create_group().await?;
                self.try_fetch(window, count).await
            }
            fetched => fetched,
        }
    }

    /// New entries; from time to time those of dead readers instead.
    async fn try_fetch(&self, window: &mut Window, count: usize) -> RedisResult<Vec<Entry>> {
        if self.options.in_order {
            let after = window.claims.back().map_or("-".to_owned(), |(last, _)| format!("({last}"));
            let found: Entries = self.link.clone().xrange_count(&self.key, after, "+", count).await?;
            return Ok(found.0);
        }
        if window.takeover_at.is_none_or(|last| last.elapsed() >= self.options.dead_after / 2) {
            let idle = self.take_over(count.saturating_add(window.claims.len())).await?;
            let new: Vec<Entry> = idle.into_iter().filter(|entry| !window.contains(&entry.id)).collect();
            if !new.is_empty() {
                return Ok(new);
            }
            window.takeover_at = Some(Instant::now());
        }
        self.read_group(count).await
    }

    async fn read_group(&self, count: usize) -> RedisResult<Vec<Entry>> {
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(&self.options.consumer).arg("COUNT").arg(count);
        command.arg("STREAMS").arg(&self.key).arg(">");
        Ok(self.query::<GroupReply>(&command).await?.0)
    }

    /// Entries of readers that are considered dead; they belong to this reader from now on.
    async fn take_over(&self, count: usize) -> RedisResult<Vec<Entry>> {
        let (key, StreamOptions { consumer, dead_after, .. }) = (&self.key, &self.options);
        let idle = u64::try_from(dead_after.as_millis()).unwrap_or(u64::MAX);
        let mut command = cmd("XAUTOCLAIM");
        command.arg(key).arg(GROUP).arg(consumer).arg(idle).arg("0-0").arg("COUNT").arg(count);
        // The next cursor, the entries, the ids of deleted entries.
        let reply: Vec<Value> = self.query(&command).await?;
        let entries = reply.into_iter().nth(1).unwrap_or(Value::Nil);
        Ok(Entries::from_redis_value(entries)?.0)
    }

    /// Adds fetched entries to the window; what cannot be decoded is set aside.
    async fn add(&self, window: &mut Window, fetched: Vec<Entry>) -> Result<(), GateError> {
        for entry in fetched {
            let id = entry.id.clone();
            let Decoded { claims, poison } = entry.decode();
            if claims.is_empty() || !poison.is_empty() {
                self.set_aside(&id, &poison, claims.is_empty()).await?;
            }
            window.claims.extend(claims.into_iter().map(|claim| (id.clone(), Arc::new(claim))));
        }
        Ok(())
    }

    /// Copies poison to the dead-letter stream with the reason, and deletes the entry if it has no claims.
    async fn set_aside(&self, id: &str, poison: &[Poison], has_no_claims: bool) -> Result<(), GateError> {
        let key = &self.key;
        for part in poison {
            let reason = &part.reason;
            tracing::error!(
                key,
                id,
                reason,
                "a claim cannot be decoded and is moved to the dead-letter stream"
            );
            self.is_poisoned.store(true, Ordering::Release);
            let mut command = cmd("XADD");
            command.arg(format!("{key}:dead")).arg("*").arg("id").arg(id).arg("why").arg(reason).arg(part);
            self.query::<()>(&command).await?;
        }
        let mut recorded = RecordedEntries::default();
        if has_no_claims {
            recorded.push(id, 0, 0);
        }
        self.delete(&recorded).await?;
        Ok(())
    }

    async fn delete(&self, recorded: &RecordedEntries) -> Result<Option<usize>, GateError> {
        self.gate.delete_recorded(self.options.campaign, self.options.shard, GROUP, recorded).await
    }

    /// Waits for the end of a burst.
    async fn wait_for_burst(&self) {
        let Some(Deferral { counts, .. }) = &self.options.deferral else { return };
        while !counts.is_half_full() && self.burst.lock().defers(counts.granted(), Instant::now()) {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// Sleeps until claims of this node were appended, or for `pause`: other nodes append, too.
    async fn wait_for_claims(&self, pause: Duration) {
        let granted = self.options.deferral.as_ref().map_or(0, |deferral| deferral.counts.granted());
        if tokio::time::timeout(pause, self.options.appended.notified()).await.is_ok() {
            self.burst.lock().assume_burst(granted, Instant::now());
        }
    }

    /// The next claims to record; `None` if there are none.
    async fn poll(&self, max: usize) -> Result<Option<(Position, Vec<Arc<Claim>>)>, GateError> {
        let mut window = self.window.lock().await;
        while window.claims.len() < max {
            let (count, before) = (window.fetch_size, window.claims.len());
            let fetched = match self.fetch(&mut window, count).await {
                // The claims fetched before can be recorded meanwhile.
                Err(error) if !window.claims.is_empty() => {
                    tracing::warn!(%error, "the intake does not answer");
                    break;
                }
                fetched => fetched?,
            };
            if fetched.is_empty() && window.claims.is_empty() {
                let depth = self.gate.unrecorded_claims(self.options.campaign, self.options.shard).await?;
                self.depth.store(depth, Ordering::Release);
            }
            let entries = fetched.len();
            self.add(&mut window, fetched).await?;
            if entries < count {
                self.burst.lock().caught_up();
                // The claims per entry at low load say nothing about a burst.
                window.fetch_size = INITIAL_FETCH;
                break;
            }
            let claims = window.claims.len() - before;
            window.adapt_fetch_size(claims, max - before);
        }
        let claims: Vec<_> = window.claims.iter().take(max).map(|(_, claim)| claim.clone()).collect();
        Ok((!claims.is_empty()).then_some((window.recorded + 1, claims)))
    }
}

impl Intake for StreamIntake {
    /// For claims that no gate has granted; the gate's script appends its own.
    async fn append(&self, claim: Claim) -> Result<Arc<Claim>, AppendError> {
        let StreamOptions { campaign, shard, .. } = self.options;
        let appended = self.gate.append(campaign, shard, &claim, entry::encode(&claim)).await;
        let depth = appended.map_err(|error| AppendError::Failed(error.0))?;
        self.depth.store(depth, Ordering::Release);
        Ok(Arc::new(claim))
    }

    async fn next(&self, max: usize) -> (Position, Vec<Arc<Claim>>) {
        let mut is_failing = false;
        loop {
            self.wait_for_burst().await;
            match self.poll(max).await {
                Ok(Some(found)) => {
                    self.window.lock().await.pause = MIN_PAUSE;
                    return found;
                }
                Ok(None) => {
                    let pause = {
                        let mut window = self.window.lock().await;
                        window.pause = (window.pause * 2).min(MAX_PAUSE);
                        window.pause
                    };
                    self.wait_for_claims(pause).await;
                }
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "the intake does not answer; will retry");
                    }
                    is_failing = true;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn recorded(&self, through: Position) {
        let mut window = self.window.lock().await;
        let count = usize::try_from(through.saturating_sub(window.recorded)).unwrap_or(usize::MAX);
        // Claims that were appended and never fetched have no position yet: fetch them now.
        while window.claims.len() < count {
            match self.fetch(&mut window, count).await {
                Ok(fetched) if fetched.is_empty() => break,
                Ok(fetched) => {
                    if self.add(&mut window, fetched).await.is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let count = count.min(window.claims.len());
        let recorded = RecordedEntries::of(&window.remove_recorded(count));
        window.recorded = through;
        // A reader that reads from the front must not read again before these entries are deleted.
        let _lock = self.options.in_order.then_some(window);
        match self.delete(&recorded).await {
            Ok(Some(depth)) => self.depth.store(depth, Ordering::Release),
            Ok(None) => {}
            // They are delivered again, to this reader or another, and the ledger recognises them.
            Err(error) => tracing::warn!(%error, "recorded entries could not be deleted"),
        }
    }

    async fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        let found: RedisResult<Entries> = self.link.clone().xrange_all(&self.key).await;
        let claims = found.unwrap_or_default().0.into_iter().flat_map(|entry| entry.decode().claims);
        claims
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: Arc::new(claim), durable: true })
            .collect()
    }

    fn depth(&self) -> usize {
        self.depth.load(Ordering::Acquire)
    }
}
