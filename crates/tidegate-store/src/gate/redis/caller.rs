//! One shard's caller: sends whatever waits for it, one call after the other, and knows what it has seen of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use redis::{RedisError, Script};
use tidegate_core::{Claim, ClaimRequest, Rejection};
use tokio::sync::{mpsc, oneshot};

use super::encoding::{ClaimArgs, read_claims};
use super::script::call;
use crate::redis_link::Link;

/// Claims in one call: few enough that others are not kept waiting.
const MAX_BATCH: usize = 256;
/// Numbers the calls of this process, whatever they are for: no two have the same.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// How often the answer of a call is asked for again.
const ASK_AGAIN: usize = 1;

/// What a server says before it has done anything.
const NOTHING_DONE: &[&str] = &[
    "OOM",
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "NOREPLICAS",
    "MISCONF",
    "CLUSTERDOWN",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "BUSY",
];

/// The way to one shard: what waits for it, and what this node has seen of it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) waiting: mpsc::Sender<Waiting>,
    /// The last epoch and version that were seen of it.
    pub(super) seen: Mutex<(u64, u64)>,
    /// Units it had when it was last heard of, those on their way to another shard included.
    pub(super) free: AtomicU32,
}

impl Line {
    /// The last epoch and version that were seen of the shard.
    pub(super) fn seen(&self) -> (u64, u64) {
        *self.seen.lock()
    }

    /// Takes note of what was seen; answers may come in another order than they were given.
    pub(super) fn saw(&self, epoch: u64, version: u64, free: u32) {
        let mut seen = self.seen.lock();
        if (epoch, version) >= *seen {
            *seen = (epoch, version);
            self.free.store(free, Ordering::Release);
        }
    }
}

/// Why there is no claim.
#[derive(Clone, Debug)]
pub enum Undecided {
    Refused(Rejection),
    /// A claim with its key is on its way to the ledger.
    InFlight,
    /// The ledger may know its key: it has to be looked up first.
    Look,
    /// Its buyer has asked too often in this second, at all nodes together.
    TooOften,
    /// The answer was lost: if the claim was granted it is in the stream, and becomes an order.
    Unknown(String),
}

impl From<Rejection> for Undecided {
    fn from(rejection: Rejection) -> Self {
        Self::Refused(rejection)
    }
}

pub(super) struct Waiting {
    pub(super) request: ClaimRequest,
    pub(super) asked: Asked,
    pub(super) answer: oneshot::Sender<Result<Claim, Undecided>>,
}

/// How it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The ledger does not know the claim's key.
    pub looked: bool,
    /// How often its buyer may ask in a second, at all nodes together; 0 for as often as they like, and where this attempt was
    /// counted already.
    pub per_s: u32,
}

/// Sends whatever waits for one pool, one call after the other.
pub(super) struct Caller {
    pub(super) link: Link,
    pub(super) script: Arc<Script>,
    pub(super) keys: Vec<String>,
    pub(super) node: String,
    pub(super) line: std::sync::Weak<Line>,
}

impl Caller {
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
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

    /// Whether the server said so before it had done anything. A cluster's client tries several times by itself, and tells only
    /// how the last one went.
    fn did_nothing(&self, error: &RedisError) -> bool {
        !matches!(self.link, Link::Cluster(_))
            && error.code().is_some_and(|code| NOTHING_DONE.contains(&code))
    }

    pub(super) async fn decide(&self, line: &Line, batch: &[Waiting]) -> Vec<Result<Claim, Undecided>> {
        let (seen, number) = (line.seen(), CALLS.fetch_add(1, Ordering::Relaxed));
        let refuse = |why: Undecided| batch.iter().map(|_| Err(why.clone())).collect();
        let claims = ClaimArgs::of(batch.iter().map(|waiting| (&waiting.request, waiting.asked)));
        let ask = async |again: bool| {
            let (link, script, keys) = (&self.link, &self.script, &self.keys);
            let filled = call::<Option<(u64, u64, u32, String)>>(link, script, keys, |command| {
                command.arg("claim").arg(&self.node).arg(number).arg(u8::from(again)).arg(seen.0).arg(seen.1);
                claims.write(command);
            });
            filled.await
        };
        let mut answer = ask(false).await;
        // Whether a first try may have been carried out although its answer was lost.
        let maybe_done = answer.as_ref().is_err_and(|error| !self.did_nothing(error));
        // An answer that was lost is asked for again: the script knows the call, and decides nothing twice.
        let mut again = false;
        for _ in 0..ASK_AGAIN {
            if answer.is_ok() {
                break;
            }
            again = true;
            answer = ask(true).await;
        }
        let answer = answer.map(|told| {
            let (epoch, version, free, answers) = told?;
            let requests = batch.iter().map(|waiting| &waiting.request);
            let decided = read_claims(requests, (epoch, version), &answers)?;
            line.saw(epoch, version, free);
            Some(decided)
        });
        match answer {
            Ok(Some(decided)) => decided,
            // The pool that may have granted them is gone.
            Ok(_) if again => refuse(Undecided::Unknown("the gate was rebuilt meanwhile".into())),
            Ok(_) => refuse(Rejection::NotReady.into()),
            Err(error) if !maybe_done && self.did_nothing(&error) => refuse(Rejection::NotReady.into()),
            Err(error) => {
                tracing::debug!(%error, "the gate did not decide");
                refuse(Undecided::Unknown(error.to_string()))
            }
        }
    }
}
