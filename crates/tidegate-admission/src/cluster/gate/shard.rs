//! A shard as this node knows it: the queue of claims for its batcher, and the newest figures seen of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tidegate_core::{ClaimRequest, Rejection};
use tokio::sync::{mpsc, oneshot};

use super::batcher::{QueuedClaim, SubmitOptions, SubmitResult};
use super::replies::PoolVersion;

/// Claims for one shard that wait for their call; beyond this, claims are rejected as busy.
const MAX_QUEUED: usize = 20_000;

/// The queue to a shard's batcher. When it is dropped, the batcher still decides the claims in it.
#[derive(Debug)]
pub(super) struct ShardQueue {
    sender: mpsc::Sender<QueuedClaim>,
    pub(super) view: Arc<ShardView>,
}

impl ShardQueue {
    /// The queue, and the end that the batcher reads.
    pub(super) fn new(view: Arc<ShardView>) -> (Self, mpsc::Receiver<QueuedClaim>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        (Self { sender, view }, receiver)
    }

    /// Queues a claim for the next batch; a full queue rejects it at once.
    pub(super) fn push(
        &self,
        request: ClaimRequest,
        options: SubmitOptions,
    ) -> oneshot::Receiver<SubmitResult> {
        let (reply, result) = oneshot::channel();
        if let Err(unsent) = self.sender.try_send(QueuedClaim { request, options, reply }) {
            // The receiver is in this function, so it cannot be gone.
            let _ = unsent.into_inner().reply.send(Err(Rejection::Busy.into()));
        }
        result
    }
}

/// The newest state of a shard that this node has seen.
#[derive(Debug)]
pub(super) struct ShardView {
    version: Mutex<PoolVersion>,
    /// Free units, those in transit to another shard included.
    free: AtomicU32,
    /// The pool's sold-out flag, set when this shard is empty; `None` unless this is the pool's only shard.
    sold_out: Option<Arc<AtomicBool>>,
}

impl ShardView {
    pub(super) fn new(version: PoolVersion, sold_out: Option<Arc<AtomicBool>>) -> Self {
        Self { version: Mutex::new(version), free: AtomicU32::new(0), sold_out }
    }

    pub(super) fn version(&self) -> PoolVersion {
        *self.version.lock()
    }

    pub(super) fn free(&self) -> u32 {
        self.free.load(Ordering::Acquire)
    }

    /// Takes in a reply, unless a newer one arrived first.
    pub(super) fn update(&self, version: PoolVersion, free: u32) {
        let mut newest = self.version.lock();
        if version >= *newest {
            *newest = version;
            self.free.store(free, Ordering::Release);
            if let Some(sold_out) = self.sold_out.as_ref().filter(|_| free == 0) {
                sold_out.store(true, Ordering::Release);
            }
        }
    }
}
