//! The batcher of one shard: sends all queued claims as one call of the script, one call at a time.
//!
//! A call whose reply was lost is sent once more under the same number. The script returns the first reply, so no
//! claim is decided twice. If the second reply is lost too, the outcome is unknown: a granted claim is in the stream
//! and becomes an order. A call that arrives after a later one, or in an epoch that it does not name, decides nothing.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use redis::{RedisError, Script};
use tidegate_core::{CampaignId, Claim, ClaimId, ClaimRequest, Rejection};
use tokio::sync::{mpsc, oneshot};

use super::encoding::ClaimArgs;
use super::replies::{BatchReply, Decision};
use super::script::{Operation, ShardKeys, call};
use super::shard::ShardView;
use crate::cluster::redis_link::Link;
use crate::intake::AppendError;

/// Claims in one call: a script blocks the server while it runs.
pub(super) const MAX_BATCH: usize = 256;
/// The number of the next caller of this process.
static NEXT_CALLER: AtomicU64 = AtomicU64::new(0);

/// Errors that a server returns before it has executed anything.
const NOT_EXECUTED: &[&str] = &[
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

/// Resolves with the outcome of a claim: recorded, or why not.
pub(crate) type OutcomeReceiver = oneshot::Receiver<Result<(), AppendError>>;

/// Follows claims from the gate to the ledger. It hears of them before they are decided, because another node may
/// record them before this node has read the gate's reply.
pub(crate) trait DecisionObserver: Debug + Send + Sync {
    /// These claims are about to be decided. Returns a receiver for each; none if nobody waits for outcomes.
    fn register(&self, claims: &mut dyn ExactSizeIterator<Item = ClaimId>) -> Vec<OutcomeReceiver>;

    /// These claims were decided; the granted ones are in the intake.
    fn decided(&self, campaign: CampaignId, claims: &mut dyn Iterator<Item = (ClaimId, Option<&Arc<Claim>>)>);
}

/// How a claim is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmitOptions {
    /// The ledger was asked for the idempotency key and does not know it.
    pub key_checked: bool,
    /// Attempts per second that the buyer has on all nodes together. 0 for no limit, and if this attempt was counted
    /// before.
    pub rate_per_s: u32,
}

/// Why a claim was not granted.
#[derive(Clone, Debug)]
pub enum DecideError {
    Rejected(Rejection),
    /// A claim with the same key is on its way to the ledger.
    InFlight,
    /// The ledger may know the key: it must be looked up before the claim is submitted again.
    KeyUnchecked,
    /// The buyer exceeds the rate limit, counted over all nodes.
    RateLimited,
    /// The reply was lost. If the claim was granted it is in the stream and becomes an order.
    Unknown(String),
}

impl From<Rejection> for DecideError {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// A granted claim, and the receiver of its outcome if somebody waits for it.
#[derive(Debug)]
pub(crate) struct GrantedClaim {
    pub(crate) claim: Arc<Claim>,
    pub(crate) outcome: Option<OutcomeReceiver>,
}

/// A claim that was not granted. The request is returned for another attempt; `None` if it was dropped.
#[derive(Debug)]
pub(crate) struct FailedClaim {
    pub(crate) error: DecideError,
    pub(crate) request: Option<Box<ClaimRequest>>,
}

impl From<Rejection> for FailedClaim {
    fn from(rejection: Rejection) -> Self {
        Self { error: rejection.into(), request: None }
    }
}

pub(super) type SubmitResult = Result<GrantedClaim, FailedClaim>;

/// A claim that waits for the next call.
pub(super) struct QueuedClaim {
    pub(super) request: ClaimRequest,
    pub(super) options: SubmitOptions,
    pub(super) reply: oneshot::Sender<SubmitResult>,
}

pub(super) struct Batcher {
    pub(super) link: Link,
    pub(super) script: Arc<Script>,
    pub(super) campaign: CampaignId,
    pub(super) keys: ShardKeys,
    pub(super) caller: String,
    /// Claims in one call.
    pub(super) max_batch: usize,
    pub(super) view: Arc<ShardView>,
    pub(super) observer: Option<Weak<dyn DecisionObserver>>,
}

/// A name under which this node calls the script, unique among all callers there ever were. A batcher has its own: a
/// shard can have a second batcher while the first still empties its queue.
pub(super) fn caller(node: &str) -> String {
    format!("{node}-{}", NEXT_CALLER.fetch_add(1, Ordering::Relaxed))
}

impl Batcher {
    /// Runs until the queue is closed and empty.
    pub(super) async fn run(self, mut queue: mpsc::Receiver<QueuedClaim>) {
        let mut batch = Vec::with_capacity(self.max_batch);
        let mut calls = 0;
        while queue.recv_many(&mut batch, self.max_batch).await > 0 {
            self.decide(&mut batch, &mut calls).await;
        }
    }

    /// Has a batch decided and replies to its claims. `calls` is the number of calls so far.
    async fn decide(&self, batch: &mut Vec<QueuedClaim>, calls: &mut u64) {
        let observer = self.observer.as_ref().and_then(Weak::upgrade);
        let ids = &mut batch.iter().map(|queued| queued.request.id);
        let outcomes = observer.as_ref().map(|observer| observer.register(ids)).unwrap_or_default();
        let mut outcomes = outcomes.into_iter();
        let decisions = self.decisions(batch, calls).await;
        let results: Vec<(_, SubmitResult)> = std::iter::zip(batch.drain(..), decisions)
            .map(|(QueuedClaim { request, reply, .. }, decision)| {
                (reply, submit_result(request, decision, outcomes.next()))
            })
            .collect();
        if let Some(observer) = observer {
            observer.decided(
                self.campaign,
                &mut results.iter().filter_map(|(_, result)| match result {
                    Ok(granted) => Some((granted.claim.id, Some(&granted.claim))),
                    Err(failed) => failed.request.as_ref().map(|request| (request.id, None)),
                }),
            );
        }
        for (reply, result) in results {
            // A buyer who has disconnected keeps the claim: it is in the intake.
            let _ = reply.send(result);
        }
    }

    /// Whether the server refused the call before it executed anything. A cluster client retries by itself and
    /// reports only the last attempt, so its errors prove nothing.
    fn was_not_executed(&self, error: &RedisError) -> bool {
        !matches!(self.link, Link::Cluster(_))
            && error.code().is_some_and(|code| NOT_EXECUTED.contains(&code))
    }

    async fn decisions(&self, batch: &[QueuedClaim], calls: &mut u64) -> Vec<Decision> {
        let claims = ClaimArgs::of(batch.iter().map(|queued| (&queued.request, queued.options)));
        for _ in 0..MAX_EPOCHS {
            match self.call(&claims, batch.len(), calls).await {
                Ok(Some(decisions)) => return decisions,
                Ok(None) => {}
                Err(error) => return refuse_all(batch, &error),
            }
        }
        refuse_all(batch, &Rejection::NotReady.into())
    }

    /// One call, repeated once if its reply is lost. `Ok(None)` if the script has decided nothing because this batcher
    /// had not seen its epoch, which it has now.
    async fn call(
        &self,
        claims: &ClaimArgs,
        count: usize,
        calls: &mut u64,
    ) -> Result<Option<Vec<Decision>>, DecideError> {
        *calls += 1;
        let (seen, number) = (self.view.version(), *calls);
        let send = async |is_retry: bool| {
            let (link, script, keys) = (&self.link, &self.script, &self.keys);
            call::<Option<BatchReply>>(link, script, keys, Operation::Claim, |command| {
                command
                    .arg(&self.caller)
                    .arg(number)
                    .arg(u8::from(is_retry))
                    .arg(seen.epoch)
                    .arg(seen.version);
                claims.write(command);
            })
            .await
        };
        let first = send(false).await;
        let is_retry = first.is_err();
        // Whether the first attempt may have been executed although its reply was lost.
        let maybe_executed = first.as_ref().is_err_and(|error| !self.was_not_executed(error));
        let reply = if is_retry { send(true).await } else { first };
        match reply {
            Ok(Some(reply)) => {
                let decisions = if reply.has_decided() {
                    Some(reply.decisions(count).ok_or(Rejection::NotReady)?)
                } else {
                    None
                };
                self.view.update(reply.version, reply.free);
                Ok(decisions)
            }
            // The pool that may have granted the claims was replaced between the attempts.
            Ok(None) if is_retry => Err(DecideError::Unknown("the gate was rebuilt meanwhile".into())),
            Ok(None) => Err(Rejection::NotReady.into()),
            Err(error) if !maybe_executed && self.was_not_executed(&error) => Err(Rejection::NotReady.into()),
            Err(error) => {
                tracing::debug!(%error, "the outcome of a batch of claims is unknown");
                Err(DecideError::Unknown(error.to_string()))
            }
        }
    }
}

/// How often a batch is sent again because the gate has begun another epoch.
const MAX_EPOCHS: usize = 3;

fn refuse_all(batch: &[QueuedClaim], error: &DecideError) -> Vec<Decision> {
    batch.iter().map(|_| Err(error.clone())).collect()
}

fn submit_result(
    request: ClaimRequest,
    decision: Decision,
    outcome: Option<OutcomeReceiver>,
) -> SubmitResult {
    match decision {
        Ok(grant) => Ok(GrantedClaim { claim: Arc::new(grant.apply_to(request)), outcome }),
        Err(error) => Err(FailedClaim { error, request: Some(Box::new(request)) }),
    }
}
