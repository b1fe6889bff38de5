//! The cluster's intake: a shard's stream on Redis or Valkey, appended by the gate's script, read by a consumer group.
//!
//! What always holds: an entry is deleted only after the ledger has it; entries of a consumer that died are taken over by
//! another; an entry that cannot be read goes to a stream of its own with the reason, and stops nobody. Entries may come
//! twice, after a crash between the commit and the deletion: the ledger knows an order it has by its id. Positions count
//! what this reader was given; they mean nothing to others.
//!
//! A draw's plays must be recorded in the order in which they were dealt: its stream has one reader at a time (whoever has
//! the lease), who reads from the front, and no group.

mod entry;
mod rush;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{AsyncCommands, Cmd, FromRedisValue, RedisResult, Value, cmd};
use tidegate_core::{CampaignId, Claim, UserId};
use tokio::sync::{Mutex, Notify};

pub(crate) use self::entry::Entries;
use self::entry::{Entry, Read, Unreadable};
pub use self::rush::Rush;
use super::{AppendError, Intake, Position, Unrecorded};
use crate::gate::GateError;
use crate::gate::redis::{Done, RedisGate};
use crate::redis_link::Link;

const GROUP: &str = "recorders";
/// How long a reader rests when there is nothing new: longer and longer, until something comes. Claims of its own node wake
/// it at once.
const SHORTEST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(200);
const AFTER_FAILURE: Duration = Duration::from_millis(300);
/// Entries asked for at first: each may hold as many claims as go to the gate in one call.
const FIRST_ENTRIES: usize = 8;

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
    /// What it makes way for, where nobody waits for what it does.
    pub rush: Option<Arc<Rush>>,
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
    /// Claims with their entry. An entry's are next to each other.
    entries: VecDeque<(Arc<str>, Arc<Claim>)>,
    /// Claims that are recorded, of an entry that has others.
    half: Vec<(Arc<str>, Arc<Claim>)>,
    /// When it was last looked for what dead readers left.
    looked: Option<Instant>,
    rest: Duration,
    /// Entries to ask for: as many as held enough claims the last time.
    at_once: usize,
    /// Has waited, and not seen the end of the stream since.
    behind: bool,
}

impl Given {
    fn has(&self, id: &str) -> bool {
        self.entries.iter().any(|(known, _)| **known == *id)
    }

    /// Takes the first so many as recorded; gives those whose entries are over with them.
    fn finish(&mut self, count: usize) -> Vec<(Arc<str>, Arc<Claim>)> {
        let mut done = std::mem::take(&mut self.half);
        done.extend(self.entries.drain(..count));
        if let Some((next, _)) = self.entries.front() {
            let over = done.iter().position(|(entry, _)| entry == next).unwrap_or(done.len());
            self.half = done.split_off(over);
        }
        done
    }

    /// Asks for more entries where they held few claims, for fewer where they held many.
    fn learn(&mut self, claims: usize, wanted: usize) {
        if claims < wanted {
            self.at_once = (self.at_once * 2).min(wanted.max(FIRST_ENTRIES));
        } else if claims > wanted {
            self.at_once = (self.at_once / 2).max(1);
        }
    }
}

impl StreamIntake {
    /// `recorded` is where this reader's positions start.
    pub fn new(gate: Arc<RedisGate>, options: StreamOptions, recorded: Position) -> Self {
        let given = Given {
            recorded,
            entries: VecDeque::new(),
            half: Vec::new(),
            looked: None,
            rest: SHORTEST_REST,
            at_once: FIRST_ENTRIES,
            behind: false,
        };
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
    async fn fetch(&self, given: &mut Given, most: usize) -> RedisResult<Vec<Entry>> {
        match self.fetch_of_group(given, most).await {
            Err(error) if error.code() == Some("NOGROUP") => {
                self.make_group().await?;
                self.fetch_of_group(given, most).await
            }
            fetched => fetched,
        }
    }

    /// Now and then what dead readers left, else what is new.
    async fn fetch_of_group(&self, given: &mut Given, most: usize) -> RedisResult<Vec<Entry>> {
        if self.options.in_order {
            let after = given.entries.back().map_or("-".to_owned(), |(last, _)| format!("({last}"));
            let found: Entries = self.link.clone().xrange_count(&self.key, after, "+", most).await?;
            return Ok(found.0);
        }
        if given.looked.is_none_or(|looked| looked.elapsed() >= self.options.dead_after / 2) {
            let left = self.take_over(most.saturating_add(given.entries.len())).await?;
            let news: Vec<Entry> = left.into_iter().filter(|entry| !given.has(&entry.id)).collect();
            if !news.is_empty() {
                return Ok(news);
            }
            given.looked = Some(Instant::now());
        }
        self.read(most).await
    }

    async fn read(&self, most: usize) -> RedisResult<Vec<Entry>> {
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(&self.options.consumer).arg("COUNT").arg(most);
        command.arg("STREAMS").arg(&self.key).arg(">");
        Ok(self.ask::<Read>(&command).await?.0)
    }

    async fn take_over(&self, most: usize) -> RedisResult<Vec<Entry>> {
        let (key, StreamOptions { consumer, dead_after, .. }) = (&self.key, &self.options);
        let idle = u64::try_from(dead_after.as_millis()).unwrap_or(u64::MAX);
        let mut command = cmd("XAUTOCLAIM");
        command.arg(key).arg(GROUP).arg(consumer).arg(idle).arg("0-0").arg("COUNT").arg(most);
        let reply: Vec<Value> = self.ask(&command).await?;
        let entries = reply.into_iter().nth(1).unwrap_or(Value::Nil);
        Ok(Entries::from_redis_value(entries)?.0)
    }

    /// Adds what was fetched to what is given; what cannot be read is set aside.
    async fn take_in(&self, given: &mut Given, fetched: Vec<Entry>) -> Result<(), GateError> {
        for entry in fetched {
            let id = entry.id.clone();
            let (claims, unreadable) = entry.claims();
            if claims.is_empty() || !unreadable.is_empty() {
                self.set_aside(&id, &unreadable, claims.is_empty()).await?;
            }
            given.entries.extend(claims.into_iter().map(|claim| (id.clone(), Arc::new(claim))));
        }
        Ok(())
    }

    /// To the dead letters, with the reason; an entry in which nothing else is left is deleted.
    async fn set_aside(&self, id: &str, unreadable: &[Unreadable], is_all: bool) -> Result<(), GateError> {
        let key = &self.key;
        let mut done = Done::default();
        for field in unreadable {
            let why = &field.why;
            tracing::error!(key, id, why, "a claim cannot be read and is set aside");
            self.poison.store(true, Ordering::Release);
            let mut command = cmd("XADD");
            command.arg(format!("{key}:dead")).arg("*").arg("id").arg(id).arg("why").arg(why).arg(field);
            self.ask::<()>(&command).await?;
        }
        if is_all {
            done.entry(id, 0, 0);
        }
        self.gate.done(self.options.campaign, self.options.shard, GROUP, &done).await?;
        Ok(())
    }

    /// Waits for the end of a rush, within a bound; then everything is read before it waits again.
    async fn make_way(&self) {
        if let Some(rush) = &self.options.rush
            && !self.given.lock().await.behind
        {
            rush.end().await;
            self.given.lock().await.behind = true;
        }
    }

    async fn next_given(&self, most: usize) -> Result<Option<(Position, Vec<Arc<Claim>>)>, GateError> {
        let mut given = self.given.lock().await;
        while given.entries.len() < most {
            let (asked, before) = (given.at_once, given.entries.len());
            let fetched = match self.fetch(&mut given, asked).await {
                // What was given before can be recorded meanwhile.
                Err(error) if !given.entries.is_empty() => {
                    tracing::warn!(%error, "the intake does not answer");
                    break;
                }
                fetched => fetched?,
            };
            if fetched.is_empty() && given.entries.is_empty() {
                let depth = self.gate.unrecorded(self.options.campaign, self.options.shard).await?;
                self.depth.store(depth, Ordering::Release);
            }
            let entries = fetched.len();
            self.take_in(&mut given, fetched).await?;
            if entries < asked {
                given.behind = false;
                // What one entry holds in quiet times says nothing about a rush.
                given.at_once = FIRST_ENTRIES;
                break;
            }
            let claims = given.entries.len() - before;
            given.learn(claims, most - before);
        }
        let claims: Vec<_> = given.entries.iter().take(most).map(|(_, claim)| claim.clone()).collect();
        Ok((!claims.is_empty()).then_some((given.recorded + 1, claims)))
    }
}

fn failed(error: GateError) -> AppendError {
    AppendError::Failed(error.0)
}

impl Intake for StreamIntake {
    /// The gate's script appends by itself; this is for what has no gate.
    async fn append(&self, claim: Claim) -> Result<Arc<Claim>, AppendError> {
        let StreamOptions { campaign, shard, .. } = self.options;
        let appended = self.gate.append(campaign, shard, &claim, entry::print(&claim)).await;
        let depth = appended.map_err(failed)?;
        self.depth.store(depth, Ordering::Release);
        Ok(Arc::new(claim))
    }

    async fn next(&self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        loop {
            self.make_way().await;
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
        let done = Done::of(&given.finish(count));
        given.recorded = through;
        // Who reads from the front must not read before these are gone.
        let _front = self.options.in_order.then_some(given);
        match self.gate.done(self.options.campaign, self.options.shard, GROUP, &done).await {
            Ok(Some(depth)) => self.depth.store(depth, Ordering::Release),
            Ok(None) => {}
            // They come again, to this reader or another, and the ledger knows them.
            Err(error) => tracing::warn!(%error, "recorded entries could not be deleted"),
        }
    }

    async fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        let found: RedisResult<Entries> = self.link.clone().xrange_all(&self.key).await;
        let claims = found.unwrap_or_default().0.into_iter().flat_map(|entry| entry.claims().0);
        claims
            .filter(|claim| claim.user == user)
            .map(|claim| Unrecorded { claim: Arc::new(claim), durable: true })
            .collect()
    }

    fn depth(&self) -> usize {
        self.depth.load(Ordering::Acquire)
    }
}
