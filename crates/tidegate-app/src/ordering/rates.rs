//! Rate limits of a campaign: for all buyers together, and for each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_admission::Cluster;
use tidegate_core::{Campaign, UserId};

use crate::Refusal;
use crate::buckets::{Buckets, Empty, Rate};
use crate::context::Context;

#[derive(Debug)]
pub(crate) struct Rates {
    context: Arc<Context>,
    buckets: Buckets,
    /// Counts for all nodes together; none where there is one process.
    shared: Option<Cluster>,
}

impl Rates {
    pub(crate) fn new(context: Arc<Context>, shared: Option<Cluster>) -> Self {
        Self { context, buckets: Buckets::default(), shared }
    }

    /// Counts one attempt at the sale.
    pub(crate) async fn count_attempt(&self, sale: &Campaign, now: Instant) -> Result<(), Refusal> {
        let per_s = sale.protect.sale_rate_per_s;
        let Some(rate) = Rate::per_second(per_s) else { return Ok(()) };
        self.buckets.take(sale.id, rate, now)?;
        self.count_everywhere(|| format!("rate:{}", sale.id.raw()), per_s).await
    }

    /// Counts one attempt of this buyer at this node. On many nodes the gate counts a buyer's claims at all of them,
    /// in the call that decides: a separate count would be one more round trip to Redis for every order.
    pub(crate) fn count_attempt_of(
        &self,
        user: UserId,
        sale: &Campaign,
        now: Instant,
    ) -> Result<(), Refusal> {
        let Some(rate) = Rate::per_second(sale.protect.user_rate_per_s) else { return Ok(()) };
        self.buckets.take((sale.id, user), rate, now)?;
        Ok(())
    }

    /// The same limit over all nodes, second by second. While Redis does not answer, each node counts for itself.
    async fn count_everywhere(&self, name: impl FnOnce() -> String, per_s: u32) -> Result<(), Refusal> {
        let Some(cluster) = &self.shared else { return Ok(()) };
        let second = self.context.now().millis() / 1000;
        match Box::pin(cluster.increment(&format!("{}:{second}", name()), WINDOW)).await {
            Ok(counted) if counted > u64::from(per_s) => {
                Err(Refusal::Slower { retry_after: Duration::from_secs(1) })
            }
            _ => Ok(()),
        }
    }
}

/// How long a second's count is kept.
const WINDOW: Duration = Duration::from_secs(3);

impl From<Empty> for Refusal {
    /// `Retry-After` is in whole seconds.
    fn from(Empty { wait, .. }: Empty) -> Self {
        Self::Slower { retry_after: Duration::from_secs(wait.as_secs() + 1) }
    }
}
