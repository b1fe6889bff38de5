//! Submitting a claim: to the queue of the buyer's shard, and again after a transfer if that shard had too few units.

use tidegate_core::{CampaignId, Claim, ClaimRequest, Rejection};
use tokio::sync::oneshot;

use super::batcher::{DecideError, FailedClaim, SubmitOptions, SubmitResult};
use super::encoding::shard_of;
use super::{EXTRA_TRANSFERS, PoolHandle, RedisGate};

impl RedisGate {
    /// Decides a claim.
    pub async fn decide(&self, request: ClaimRequest, options: SubmitOptions) -> Result<Claim, DecideError> {
        let result = self.submit(request, options).await;
        result.map(|granted| (*granted.claim).clone()).map_err(|failed| failed.error)
    }

    pub(crate) async fn submit(&self, request: ClaimRequest, options: SubmitOptions) -> SubmitResult {
        let result = match self.try_enqueue(request, options) {
            Ok(result) => result.await.unwrap_or(Err(Rejection::NotReady.into())),
            // Boxed because it is rare: the future of every claim would be as large as this one.
            Err(request) => Box::pin(self.open_and_submit(*request, options)).await,
        };
        match result {
            Err(FailedClaim { error: DecideError::Rejected(Rejection::SoldOut), request: Some(request) })
                if self.has_several_shards(request.campaign) =>
            {
                Box::pin(self.submit_after_transfer(*request, options)).await
            }
            result => result,
        }
    }

    /// Queues a claim without waiting. `Err` if this node has no handle of the pool yet.
    fn try_enqueue(
        &self,
        request: ClaimRequest,
        options: SubmitOptions,
    ) -> Result<oneshot::Receiver<SubmitResult>, Box<ClaimRequest>> {
        match self.pools.load().get(&request.campaign) {
            Some(pool) => {
                let shard = shard_of(request.user, pool.shards.len());
                Ok(pool.shards[shard].push(request, options))
            }
            None => Err(Box::new(request)),
        }
    }

    fn has_several_shards(&self, campaign: CampaignId) -> bool {
        self.pools.load().get(&campaign).is_some_and(|pool| pool.shards.len() > 1)
    }

    async fn open_and_submit(&self, request: ClaimRequest, options: SubmitOptions) -> SubmitResult {
        let pool = self.pool(request.campaign).await.ok().flatten().ok_or(Rejection::NotReady)?;
        submit_to(&pool, request, options).await
    }

    /// Moves units to the buyer's shard and submits again, until the claim is decided or the attempts are used up.
    async fn submit_after_transfer(&self, mut request: ClaimRequest, options: SubmitOptions) -> SubmitResult {
        let pool = self.pool(request.campaign).await.ok().flatten().ok_or(Rejection::NotReady)?;
        let shard = shard_of(request.user, pool.shards.len());
        // The first attempt was counted.
        let options = SubmitOptions { rate_per_s: 0, ..options };
        for _ in 0..pool.shards.len() + EXTRA_TRANSFERS {
            self.transfer_to(request.campaign, &pool, shard, request.quantity).await?;
            match submit_to(&pool, request, options).await {
                Err(FailedClaim {
                    error: DecideError::Rejected(Rejection::SoldOut),
                    request: Some(again),
                }) => request = *again,
                result => return result,
            }
        }
        Err(Rejection::Busy.into())
    }
}

async fn submit_to(pool: &PoolHandle, request: ClaimRequest, options: SubmitOptions) -> SubmitResult {
    let shard = shard_of(request.user, pool.shards.len());
    pool.shards[shard].push(request, options).await.unwrap_or(Err(Rejection::NotReady.into()))
}
