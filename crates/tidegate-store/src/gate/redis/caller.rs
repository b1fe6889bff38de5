//! One shard's caller: sends whatever waits for it, one call after the other, and knows what it has seen of it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use redis::{RedisError, Script};
use tidegate_core::{CampaignId, Claim, ClaimId, ClaimRequest, Rejection};
use tokio::sync::{mpsc, oneshot};

use super::encoding::{ClaimArgs, Decision, read_decisions};
use super::script::call;
use crate::intake::AppendError;
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

/// The way to one shard. Once it is gone nothing more waits for its caller, who still decides what did.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) waiting: mpsc::Sender<Waiting>,
    pub(super) sight: Arc<Sight>,
}

/// What this node has seen of a shard.
#[derive(Debug)]
pub(super) struct Sight {
    /// The last epoch and version.
    pub(super) seen: Mutex<(u64, u64)>,
    /// Units it had when it was last heard of, those on their way to another shard included.
    pub(super) free: AtomicU32,
    /// Set when it is empty, where it is all there is of its pool.
    pub(super) sold_out: Option<Arc<AtomicBool>>,
}

impl Line {
    /// Has a claim decided with whatever else waits. More than may wait are told so at once.
    pub(super) fn send(&self, request: ClaimRequest, asked: Asked) -> oneshot::Receiver<Answer> {
        let (answer, decided) = oneshot::channel();
        if let Err(unsent) = self.waiting.try_send(Waiting { request, asked, answer }) {
            let waiting = unsent.into_inner();
            // Whoever asked is here.
            let _ = waiting.answer.send(Err(Rejection::Busy.into()));
        }
        decided
    }
}

impl Sight {
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
            if let Some(sold_out) = self.sold_out.as_ref().filter(|_| free == 0) {
                sold_out.store(true, Ordering::Release);
            }
        }
    }
}

/// Resolves with what became of a claim.
pub(crate) type Outcome = oneshot::Receiver<Result<(), AppendError>>;

/// Knows what becomes of claims: told before they are decided, since the ledger may have them before the answer is read.
pub(crate) trait Watch: Debug + Send + Sync {
    /// They are about to be decided. Gives what each is waited for with; nothing where nobody waits.
    fn expect(&self, claims: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<Outcome>;

    /// They were, and those that were granted are in the intake.
    fn decided(&self, campaign: CampaignId, claims: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>);
}

/// A claim that was granted, and what it is waited for with, where anybody does.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) claim: Arc<Claim>,
    pub(crate) outcome: Option<Outcome>,
}

/// Why there is no claim, and the request, for whoever asks again; none where it was not kept.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: Undecided,
    pub(crate) request: Option<Box<ClaimRequest>>,
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Self { why: rejection.into(), request: None }
    }
}

pub(super) type Answer = Result<Given, Refused>;

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
    pub(super) answer: oneshot::Sender<Answer>,
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
    pub(super) campaign: CampaignId,
    pub(super) keys: Vec<String>,
    pub(super) node: String,
    pub(super) sight: Arc<Sight>,
    pub(super) watch: Option<Weak<dyn Watch>>,
}

impl Caller {
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        while queue.recv_many(&mut batch, MAX_BATCH).await > 0 {
            self.decide(&mut batch).await;
        }
    }

    /// Has a batch decided and answers it.
    pub(super) async fn decide(&self, batch: &mut Vec<Waiting>) {
        let watch = self.watch.as_ref().and_then(Weak::upgrade);
        let ids = &mut batch.iter().map(|waiting| waiting.request.id);
        let mut outcomes = watch.as_ref().map(|watch| watch.expect(ids)).unwrap_or_default().into_iter();
        let decisions = self.ask(batch).await;
        let answered: Vec<(_, Answer)> = std::iter::zip(batch.drain(..), decisions)
            .map(|(Waiting { request, answer, .. }, decision)| {
                (answer, answer_to(request, decision, outcomes.next()))
            })
            .collect();
        if let Some(watch) = watch {
            watch.decided(
                self.campaign,
                &mut answered.iter().filter_map(|(_, answer)| match answer {
                    Ok(given) => Some((given.claim.id, Some(&given.claim))),
                    Err(refused) => refused.request.as_ref().map(|request| (request.id, None)),
                }),
            );
        }
        for (waiting, answer) in answered {
            // A buyer who hung up still has their claim: it is in the intake.
            let _ = waiting.send(answer);
        }
    }

    /// Whether the server said so before it had done anything. A cluster's client tries several times by itself, and tells only
    /// how the last one went.
    fn did_nothing(&self, error: &RedisError) -> bool {
        !matches!(self.link, Link::Cluster(_))
            && error.code().is_some_and(|code| NOTHING_DONE.contains(&code))
    }

    async fn ask(&self, batch: &[Waiting]) -> Vec<Decision> {
        let (seen, number) = (self.sight.seen(), CALLS.fetch_add(1, Ordering::Relaxed));
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
            let decided = read_decisions(batch.len(), (epoch, version), &answers)?;
            self.sight.saw(epoch, version, free);
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

fn answer_to(request: ClaimRequest, decision: Decision, outcome: Option<Outcome>) -> Answer {
    match decision {
        Ok(grant) => Ok(Given { claim: Arc::new(grant.granted(request)), outcome }),
        Err(why) => Err(Refused { why, request: Some(Box::new(request)) }),
    }
}
