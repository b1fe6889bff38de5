//! One shard's caller: sends whatever waits for it, one call after the other, and knows what it has seen of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use redis::{RedisError, Script, Value};
use tidegate_core::{Claim, ClaimRequest, Rejection, Shown, Slots, Wanted};
use tokio::sync::{mpsc, oneshot};

use super::call;
use super::encoding::{arg, read};
use crate::intake::stream::entry_fields;
use crate::redis_link::Link;

/// Claims in one call: few enough that others are not kept waiting.
const MAX_BATCH: usize = 256;
/// Numbers the calls of this process, whatever they are for: no two have the same.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Where a call says that it is sent again.
const AGAIN: usize = 3;
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
    /// The ledger does not know its key.
    pub(super) looked: bool,
    pub(super) answer: oneshot::Sender<Result<Claim, Undecided>>,
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
        let (epoch, version) = line.seen();
        let mut args = vec![
            arg("claim"),
            arg(&self.node),
            arg(CALLS.fetch_add(1, Ordering::Relaxed)),
            arg(0),
            arg(epoch),
            arg(version),
        ];
        for Waiting { request, looked, .. } in batch {
            args.extend(claim_args(request, *looked));
        }
        let refuse = |why: Undecided| batch.iter().map(|_| Err(why.clone())).collect();
        let ask = async |again: bool| {
            let mut args = args.clone();
            args[AGAIN] = arg(u8::from(again));
            call::<Option<(u64, u64, u32, Vec<Vec<Value>>)>>(&self.link, &self.script, &self.keys, &args)
                .await
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
        match answer {
            Ok(Some((epoch, version, free, answers))) if answers.len() == batch.len() => {
                line.saw(epoch, version, free);
                let decided = batch.iter().zip(answers);
                decided.map(|(waiting, answer)| read_claim(&waiting.request, epoch, answer)).collect()
            }
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

/// A claim's arguments, in the script's order. The entry is the claim but for what the script adds.
fn claim_args(request: &ClaimRequest, looked: bool) -> [Vec<u8>; 11] {
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
        arg(request.id.raw()),
        arg(request.user.raw()),
        arg(request.quantity),
        arg(request.limit),
        pass,
        arg(now),
        arg(play),
        client_seed.as_bytes().to_vec(),
        request.key.map(|key| key.0.to_vec()).unwrap_or_default(),
        arg(u8::from(looked)),
        entry,
    ]
}

fn read_claim(request: &ClaimRequest, epoch: u64, answer: Vec<Value>) -> Result<Claim, Undecided> {
    let mut parts = answer.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let code: String = read(next()).unwrap_or_default();
    match code.as_str() {
        "" => {}
        "in_flight" => return Err(Undecided::InFlight),
        "look" => return Err(Undecided::Look),
        code => return Err(Rejection::from_code(code).unwrap_or(Rejection::NotReady).into()),
    }
    let (version, prize, slots): (Option<u64>, Option<u8>, Option<String>) =
        (read(next()), read(next()), read(next()));
    let slots = slots.as_deref().and_then(Slots::parse).ok_or(Rejection::NotReady)?;
    let epoch = u32::try_from(epoch).map_err(|_| Rejection::NotReady)?;
    let prize = prize.filter(|prize| *prize > 0);
    Ok(request.clone().granted(slots, prize, epoch, version.ok_or(Rejection::NotReady)?))
}
