//! Claims without batching: every claim is a call of its own. Turned on by `cluster.batches = false`, to measure what
//! batching gains.

use tidegate_core::ClaimRequest;
use tokio::sync::oneshot;

use super::RedisGate;
use super::batcher::{QueuedClaim, SubmitOptions, SubmitResult};
use super::shard::ShardQueue;

impl RedisGate {
    /// Sends every claim as a call of its own.
    #[must_use]
    pub fn without_batches(mut self) -> Self {
        self.batches = false;
        self
    }

    /// Decides one claim in a task of its own, so that it is completed even if the buyer disconnects.
    pub(super) fn submit_unbatched(
        &self,
        shard: usize,
        queue: &ShardQueue,
        request: ClaimRequest,
        options: SubmitOptions,
    ) -> oneshot::Receiver<SubmitResult> {
        let (reply, result) = oneshot::channel();
        let batcher = self.batcher(request.campaign, shard, queue.view.clone());
        tokio::spawn(async move { batcher.decide(&mut vec![QueuedClaim { request, options, reply }]).await });
        result
    }
}
