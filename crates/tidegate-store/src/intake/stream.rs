//! The cluster's intake: a pool's stream on Redis or Valkey, appended by the gate's script, read by a consumer group.
//!
//! What always holds: an entry is deleted only after the ledger has it; entries of a consumer that died are taken over by
//! another; an entry that cannot be read goes to a stream of its own with the reason, and stops nobody. Entries may come
//! twice, after a crash between the commit and the deletion: the ledger knows an order it has by its id. Positions count
//! what this reader was given; they mean nothing to others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::streams::{StreamId, StreamRangeReply, StreamReadReply};
use redis::{AsyncCommands, Cmd, FromRedisValue, RedisError, RedisResult, Value, cmd, pipe};
use tidegate_core::{Claim, Granted, Slots, UserId};
use tokio::sync::Mutex;

use super::{AppendError, Intake, Position, Unrecorded};
use crate::redis_link::Link;

const GROUP: &str = "recorders";
/// How long a reader waits for something new before it looks at what others left behind.
const BLOCK: Duration = Duration::from_millis(500);
const AFTER_FAILURE: Duration = Duration::from_millis(300);

#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The stream's key; the gate names it.
    pub key: String,
    /// Unique among all readers of all nodes.
    pub consumer: String,
    /// A reader that has not finished with an entry for this long is taken to be dead.
    pub dead_after: Duration,
}

/// One reader of one stream. The link must be its own: reading blocks it.
#[derive(Debug)]
pub struct StreamIntake {
    link: Link,
    options: StreamOptions,
    /// What was given to this reader and is not recorded, with its entry's id.
    given: Mutex<Given>,
    depth: AtomicUsize,
}

#[derive(Debug)]
struct Given {
    recorded: Position,
    entries: VecDeque<(String, Arc<Claim>)>,
    /// When it was last looked for what dead readers left.
    looked: Option<Instant>,
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
fn read_entry(entry: &StreamId) -> Result<Claim, String> {
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
    pub async fn open(link: Link, options: StreamOptions, recorded: Position) -> RedisResult<Self> {
        let given = Mutex::new(Given { recorded, entries: VecDeque::new(), looked: None });
        let intake = Self { link, options, given, depth: AtomicUsize::new(0) };
        intake.make_group().await?;
        Ok(intake)
    }

    async fn make_group(&self) -> RedisResult<()> {
        let made: RedisResult<()> =
            self.link.clone().xgroup_create_mkstream(&self.options.key, GROUP, "0").await;
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.link.clone()).await
    }

    /// Entries for this reader: now and then what dead ones left, else what is new. Waits for that only if it has nothing
    /// to do.
    async fn fetch(&self, given: &mut Given, most: usize) -> RedisResult<Vec<StreamId>> {
        if given.looked.is_none_or(|looked| looked.elapsed() >= self.options.dead_after / 2) {
            let left = self.take_over(most.saturating_add(given.entries.len())).await?;
            let news: Vec<StreamId> = left.into_iter().filter(|entry| !given.has(&entry.id)).collect();
            if !news.is_empty() {
                return Ok(news);
            }
            given.looked = Some(Instant::now());
        }
        self.read(most, given.entries.is_empty().then_some(BLOCK)).await
    }

    async fn read(&self, most: usize, block: Option<Duration>) -> RedisResult<Vec<StreamId>> {
        let StreamOptions { key, consumer, .. } = &self.options;
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(consumer).arg("COUNT").arg(most);
        if let Some(block) = block {
            command.arg("BLOCK").arg(u64::try_from(block.as_millis()).unwrap_or(u64::MAX));
        }
        command.arg("STREAMS").arg(key).arg(">");
        let reply: Option<StreamReadReply> = self.ask(&command).await?;
        Ok(reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids).collect())
    }

    async fn take_over(&self, most: usize) -> RedisResult<Vec<StreamId>> {
        let StreamOptions { key, consumer, dead_after } = &self.options;
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
        let key = &self.options.key;
        if !entry.map.is_empty() {
            tracing::error!(key, id = entry.id, why, "an entry cannot be read and is set aside");
            let mut command = cmd("XADD");
            command.arg(format!("{key}:dead")).arg("*").arg("id").arg(&entry.id).arg("why").arg(why);
            for name in entry.map.keys() {
                command.arg(name).arg(entry.get::<Vec<u8>>(name).unwrap_or_default());
            }
            self.ask::<()>(&command).await?;
        }
        self.finish(std::slice::from_ref(&entry.id)).await
    }

    async fn finish(&self, ids: &[String]) -> RedisResult<()> {
        let key = &self.options.key;
        let (_, _, depth): (i64, i64, usize) = pipe()
            .atomic()
            .xack(key, GROUP, ids)
            .xdel(key, ids)
            .xlen(key)
            .query_async(&mut self.link.clone())
            .await?;
        self.depth.store(depth, Ordering::Release);
        Ok(())
    }

    async fn next_given(&self, most: usize) -> RedisResult<Option<(Position, Vec<Arc<Claim>>)>> {
        let mut given = self.given.lock().await;
        if given.entries.len() < most {
            let missing = most - given.entries.len();
            let fetched = match self.fetch(&mut given, missing).await {
                // The stream is gone with its group: the server has forgotten, or it is new.
                Err(error) if error.code() == Some("NOGROUP") => {
                    self.make_group().await?;
                    Vec::new()
                }
                // What was given before can be recorded meanwhile.
                Err(error) if !given.entries.is_empty() => {
                    tracing::warn!(%error, "the intake does not answer");
                    Vec::new()
                }
                fetched => fetched?,
            };
            self.take_in(&mut given, fetched).await?;
        }
        let claims: Vec<_> = given.entries.iter().take(most).map(|(_, claim)| claim.clone()).collect();
        Ok((!claims.is_empty()).then_some((given.recorded + 1, claims)))
    }

    async fn appended(&self, claim: &Claim) -> RedisResult<()> {
        let mut add = cmd("XADD");
        add.arg(&self.options.key).arg("*");
        for (name, value) in entry_fields(claim) {
            add.arg(name).arg(value);
        }
        let (_, depth): (String, usize) =
            pipe().add_command(add).xlen(&self.options.key).query_async(&mut self.link.clone()).await?;
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
                Ok(Some(given)) => return given,
                Ok(None) => {}
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
        let ids: Vec<String> = given.entries.drain(..count).map(|(id, _)| id).collect();
        given.recorded = through;
        if let Err(error) = self.finish(&ids).await {
            // They come again, to this reader or another, and the ledger knows them.
            tracing::warn!(%error, "recorded entries could not be deleted");
        }
    }

    async fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        let found: RedisResult<StreamRangeReply> = self.link.clone().xrange_all(&self.options.key).await;
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
