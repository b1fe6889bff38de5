//! The cluster's intake: a shard's stream on Redis or Valkey, appended by the gate's script, read by a consumer group.
//!
//! What always holds: an entry is deleted only after the ledger has it; entries of a consumer that died are taken over by
//! another; an entry that cannot be read goes to a stream of its own with the reason, and stops nobody. Entries may come
//! twice, after a crash between the commit and the deletion: the ledger knows an order it has by its id. Positions count
//! what this reader was given; they mean nothing to others.
//!
//! A draw's plays must be recorded in the order in which they were dealt: its stream has one reader at a time (whoever has
//! the lease), who reads from the front, and no group.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::streams::{StreamId, StreamRangeReply, StreamReadReply};
use redis::{AsyncCommands, Cmd, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};
use tidegate_core::{CampaignId, Claim, Granted, Slots, UserId};
use tokio::sync::{Mutex, Notify};

use super::{AppendError, Intake, Position, Unrecorded};
use crate::gate::redis::RedisGate;
use crate::redis_link::Link;

const GROUP: &str = "recorders";
/// How long a reader rests when there is nothing new: longer and longer, until something comes. Claims of its own node wake
/// it at once.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(200);
const AFTER_FAILURE: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub struct StreamOptions {
    pub campaign: CampaignId,
    pub shard: usize,
    /// Unique among all readers of all nodes.
    pub consumer: String,
    /// A reader that has not finished with an entry for this long is taken to be dead.
    pub dead_after: Duration,
    /// Read from the front, without a group: the one reader there is.
    pub in_order: bool,
    /// Told when this node's claims were appended.
    pub appended: Arc<Notify>,
}

/// One reader of one stream.
#[derive(Debug)]
pub struct StreamIntake {
    gate: Arc<RedisGate>,
    link: Link,
    key: String,
    options: StreamOptions,
    /// What was given to this reader and is not recorded, with its entry's id.
    given: Mutex<Given>,
    depth: AtomicUsize,
    /// An entry could not be read.
    poison: AtomicBool,
}

#[derive(Debug)]
struct Given {
    recorded: Position,
    entries: VecDeque<(String, Arc<Claim>)>,
    /// When it was last looked for what dead readers left.
    looked: Option<Instant>,
    rest: Duration,
}

impl Given {
    fn has(&self, id: &str) -> bool {
        self.entries.iter().any(|(known, _)| known == id)
    }
}

/// An entry as the gate writes it: the claim but for what was decided, and what was decided.
pub fn entry_fields(claim: &Claim) -> [(&'static str, Vec<u8>); 5] {
    let mut unfinished = Claim { epoch: 0, version: 0, slots: Slots::default(), ..claim.clone() };
    if let Granted::Play { prize, .. } = &mut unfinished.granted {
        *prize = None;
    }
    [
        // Claims serialise: every field is a number, a text or a list of them.
        ("c", postcard::to_stdvec(&unfinished).unwrap_or_default()),
        ("e", claim.epoch.to_string().into()),
        ("v", claim.version.to_string().into()),
        ("s", claim.slots.to_string().into()),
        ("p", claim.prize().unwrap_or(0).to_string().into()),
    ]
}

/// The claim of an entry, or why it is none.
pub(crate) fn read_entry(entry: &StreamId) -> Result<Claim, String> {
    let missing = |field: &str| format!("the field {field} is missing or cannot be read");
    let bytes: Vec<u8> = entry.get("c").ok_or_else(|| missing("c"))?;
    let mut claim: Claim = postcard::from_bytes(&bytes).map_err(|error| error.to_string())?;
    claim.epoch = entry.get("e").ok_or_else(|| missing("e"))?;
    claim.version = entry.get("v").ok_or_else(|| missing("v"))?;
    let slots: String = entry.get("s").ok_or_else(|| missing("s"))?;
    claim.slots = Slots::parse(&slots).ok_or_else(|| missing("s"))?;
    let won: u8 = entry.get("p").ok_or_else(|| missing("p"))?;
    if let Granted::Play { prize, .. } = &mut claim.granted {
        *prize = Some(won).filter(|won| *won > 0);
    }
    Ok(claim)
}

impl StreamIntake {
    /// `recorded` is where this reader's positions start.
    pub fn new(gate: Arc<RedisGate>, options: StreamOptions, recorded: Position) -> Self {
        let given = Given { recorded, entries: VecDeque::new(), looked: None, rest: SHORTEST_REST };
        Self {
            link: gate.link().clone(),
            key: gate.intake_key(options.campaign, options.shard),
            gate,
            options,
            given: Mutex::new(given),
            depth: AtomicUsize::new(0),
            poison: AtomicBool::new(false),
        }
    }

    /// Whether an entry could not be read since this was last asked.
    pub fn met_poison(&self) -> bool {
        self.poison.swap(false, Ordering::AcqRel)
    }

    async fn make_group(&self) -> RedisResult<()> {
        let made: RedisResult<()> = self.link.clone().xgroup_create_mkstream(&self.key, GROUP, "0").await;
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.link.clone()).await
    }

    /// Entries for this reader. A stream that is gone with its group (the server has forgotten, or it is new) gets one.
    async fn fetch(&self, given: &mut Given, most: usize) -> RedisResult<Vec<StreamId>> {
        match self.fetch_of_group(given, most).await {
            Err(error) if error.code() == Some("NOGROUP") => {
                self.make_group().await?;
                self.fetch_of_group(given, most).await
            }
            fetched => fetched,
        }
    }

    /// Now and then what dead readers left, else what is new.
    async fn fetch_of_group(&self, given: &mut Given, most: usize) -> RedisResult<Vec<StreamId>> {
        if self.options.in_order {
            let after = given.entries.back().map_or("-".to_owned(), |(last, _)| format!("({last}"));
            let found: StreamRangeReply = self.link.clone().xrange_count(&self.key, after, "+", most).await?;
            return Ok(found.ids);
        }
        if given.looked.is_none_or(|looked| looked.elapsed() >= self.options.dead_after / 2) {
            let left = self.take_over(most.saturating_add(given.entries.len())).await?;
            let news: Vec<StreamId> = left.into_iter().filter(|entry| !given.has(&entry.id)).collect();
            if !news.is_empty() {
                return Ok(news);
            }
            given.looked = Some(Instant::now());
        }
        self.read(most).await
    }

    async fn read(&self, most: usize) -> RedisResult<Vec<StreamId>> {
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(&self.options.consumer).arg("COUNT").arg(most);
        command.arg("STREAMS").arg(&self.key).arg(">");
        let reply: Option<StreamReadReply> = self.ask(&command).await?;
        Ok(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids).collect())
    }

    async fn take_over(&self, most: usize) -> RedisResult<Vec<StreamId>> {
        let (key, StreamOptions { consumer, dead_after, .. }) = (&self.key, &self.options);
        let idle = u64::try_from(dead_after.as_millis()).unwrap_or(u64::MAX);
        let mut command = cmd("XAUTOCLAIM");
        command.arg(key).arg(GROUP).arg(consumer).arg(idle).arg("0-0").arg("COUNT").arg(most);
        let reply: Vec<Value> = self.ask(&command).await?;
        let entries = reply.into_iter().nth(1).unwrap_or(Value::Nil);
        Ok(StreamRangeReply::from_redis_value(entries)?.ids)
    }

    /// Adds what was fetched to what is given; what cannot be read is set aside.
    async fn take_in(&self, given: &mut Given, fetched: Vec<StreamId>) -> RedisResult<()> {
        for entry in fetched {
            match read_entry(&entry) {
                Ok(claim) => given.entries.push_back((entry.id, Arc::new(claim))),
                Err(why) => self.set_aside(&entry, &why).await?,
            }
        }
        Ok(())
    }

    /// To the dead letters, with the reason; an entry that was deleted meanwhile is only acknowledged.
    async fn set_aside(&self, entry: &StreamId, why: &str) -> RedisResult<()> {
        let key = &self.key;
        if !entry.map.is_empty() {
            tracing::error!(key, id = entry.id, why, "an entry cannot be read and is set aside");
            self.poison.store(true, Ordering::Release);
            let mut command = cmd("XADD");
            command.arg(format!("{key}:dead")).arg("*").arg("id").arg(&entry.id).arg("why").arg(why);
            for name in entry.map.keys() {
                command.arg(name).arg(entry.get::<Vec<u8>>(name).unwrap_or_default());
            }
            self.ask::<()>(&command).await?;
        }
        pipe().xack(key, GROUP, &[&entry.id]).xdel(key, &[&entry.id]).exec_async(&mut self.link.clone()).await
    }

    async fn next_given(&self, most: usize) -> RedisResult<Option<(Position, Vec<Arc<Claim>>)>> {
        let mut given = self.given.lock().await;
        if given.entries.len() < most {
            let missing = most - given.entries.len();
            let fetched = match self.fetch(&mut given, missing).await {
                // What was given before can be recorded meanwhile.
                Err(error) if !given.entries.is_empty() => {
                    tracing::warn!(%error, "the intake does not answer");
                    Vec::new()
                }
                fetched => fetched?,
            };
            if fetched.is_empty() && given.entries.is_empty() {
                self.depth.store(self.link.clone().xlen(&self.key).await?, Ordering::Release);
            }
            self.take_in(&mut given, fetched).await?;
        }
        let claims: Vec<_> = given.entries.iter().take(most).map(|(_, claim)| claim.clone()).collect();
        Ok((!claims.is_empty()).then_some((given.recorded + 1, claims)))
    }

    async fn appended(&self, claim: &Claim) -> RedisResult<()> {
        let mut add = cmd("XADD");
        add.arg(&self.key).arg("*");
        for (name, value) in entry_fields(claim) {
            add.arg(name).arg(value);
        }
        let (_, depth): (String, usize) =
            pipe().add_command(add).xlen(&self.key).query_async(&mut self.link.clone()).await?;
        self.depth.store(depth, Ordering::Release);
        Ok(())
    }
}

fn failed(error: &RedisError) -> AppendError {
    AppendError::Failed(error.to_string())
}

impl Intake for StreamIntake {
    /// The gate's script appends by itself; this is for what has no gate.
    async fn append(&self, claim: Claim) -> Result<Arc<Claim>, AppendError> {
        self.appended(&claim).await.map_err(|error| failed(&error))?;
        Ok(Arc::new(claim))
    }

    async fn next(&self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        loop {
            match self.next_given(most).await {
                Ok(Some(found)) => {
                    self.given.lock().await.rest = SHORTEST_REST;
                    return found;
                }
                Ok(None) => {
                    let rest = {
                        let mut given = self.given.lock().await;
                        given.rest = (given.rest * 2).min(LONGEST_REST);
                        given.rest
                    };
                    // Whichever comes first.
                    let _ = tokio::time::timeout(rest, self.options.appended.notified()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the intake does not answer");
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    async fn recorded(&self, through: Position) {
        let mut given = self.given.lock().await;
        let count = usize::try_from(through.saturating_sub(given.recorded)).unwrap_or(usize::MAX);
        // What was appended and never asked for has no position yet: it is asked for now.
        while given.entries.len() < count {
            match self.fetch(&mut given, count).await {
                Ok(fetched) if fetched.is_empty() => break,
                Ok(fetched) => {
                    if self.take_in(&mut given, fetched).await.is_err() {
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        let count = count.min(given.entries.len());
        let done: Vec<(String, Arc<Claim>)> = given.entries.drain(..count).collect();
        given.recorded = through;
        match self.gate.done(self.options.campaign, self.options.shard, GROUP, &done).await {
            Ok(depth) => self.depth.store(depth, Ordering::Release),
            // They come again, to this reader or another, and the ledger knows them.
            Err(error) => tracing::warn!(%error, "recorded entries could not be deleted"),
        }
    }

    async fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        let found: RedisResult<StreamRangeReply> = self.link.clone().xrange_all(&self.key).await;
        let entries = found.map(|reply| reply.ids).unwrap_or_default();
        let claims = entries.iter().filter_map(|entry| read_entry(entry).ok());
        claims
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: Arc::new(claim), durable: true })
            .collect()
    }

    fn depth(&self) -> usize {
        self.depth.load(Ordering::Acquire)
    }
}
