//! How a claim is asked for: at its buyer's shard, with whatever else waits there; and once more where units had to be brought
//! to that shard.

use tidegate_core::{CampaignId, Claim, ClaimRequest, Rejection};
use tokio::sync::oneshot;

use super::caller::{Answer, Asked, Refused, Undecided, Waiting};
use super::encoding::shard_of;
use super::{MORE_MOVES, PoolLines, RedisGate};

impl RedisGate {
    /// Decides a claim.
    pub async fn decide(&self, request: ClaimRequest, asked: Asked) -> Result<Claim, Undecided> {
        let answer = self.ask(request, asked).await;
        answer.map(|given| (*given.claim).clone()).map_err(|refused| refused.why)
    }

    /// Decides a claim; an answer that was lost is told apart from a refusal.
    pub(crate) async fn ask(&self, request: ClaimRequest, asked: Asked) -> Answer {
        let answer = match self.send(request, asked) {
            Ok(waits) => waits.await.unwrap_or(Err(Rejection::NotReady.into())),
            // Boxed: few go this way, and every claim would carry the room it takes about with it.
            Err(request) => Box::pin(self.ask_alone(*request, asked)).await,
        };
        match answer {
            Err(Refused { why: Undecided::Refused(Rejection::SoldOut), request: Some(request) })
                if self.is_split(request.campaign) =>
            {
                Box::pin(self.ask_again(*request, asked)).await
            }
            answer => answer,
        }
    }

    /// Sends a claim to its shard. `Err` where the way there is not known yet, or claims go one by one.
    fn send(
        &self,
        request: ClaimRequest,
        asked: Asked,
    ) -> Result<oneshot::Receiver<Answer>, Box<ClaimRequest>> {
        match self.pools.load().get(&request.campaign) {
            Some(lines) if self.batches => {
                let shard = shard_of(request.user, lines.shards.len());
                Ok(lines.shards[shard].send(request, asked))
            }
            _ => Err(Box::new(request)),
        }
    }

    fn is_split(&self, campaign: CampaignId) -> bool {
        self.pools.load().get(&campaign).is_some_and(|lines| lines.shards.len() > 1)
    }

    async fn ask_alone(&self, request: ClaimRequest, asked: Asked) -> Answer {
        let lines = self.lines(request.campaign).await.ok().flatten().ok_or(Rejection::NotReady)?;
        self.ask_at(&lines, request, asked).await
    }

    async fn ask_at(&self, lines: &PoolLines, request: ClaimRequest, asked: Asked) -> Answer {
        let shard = shard_of(request.user, lines.shards.len());
        let line = &lines.shards[shard];
        let answer = if self.batches {
            line.send(request, asked)
        } else {
            let (answer, decided) = oneshot::channel();
            let caller = self.caller(request.campaign, shard, line.sight.clone());
            // By itself: whoever asks may hang up.
            tokio::spawn(async move { caller.decide(&mut vec![Waiting { request, asked, answer }]).await });
            decided
        };
        answer.await.unwrap_or(Err(Rejection::NotReady.into()))
    }

    /// Its shard had too little: brings units there.
    async fn ask_again(&self, mut request: ClaimRequest, asked: Asked) -> Answer {
        let lines = self.lines(request.campaign).await.ok().flatten().ok_or(Rejection::NotReady)?;
        let shard = shard_of(request.user, lines.shards.len());
        for _ in 0..lines.shards.len() + MORE_MOVES {
            self.bring_units(request.campaign, &lines, shard, request.quantity).await?;
            // It was counted.
            match self.ask_at(&lines, request, Asked { per_s: 0, ..asked }).await {
                Err(Refused { why: Undecided::Refused(Rejection::SoldOut), request: Some(again) }) => {
                    request = *again;
                }
                answer => return answer,
            }
        }
        Err(Rejection::Busy.into())
    }
}
