//! Rate limits of a campaign: for all buyers together, and per buyer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_admission::Cluster;
use tidegate_core::{Campaign, UserId};

use crate::Refusal;
use crate::buckets::{Buckets, Exhausted, Rate};
use crate::context::Context;

#[derive(Debug)]
pub(crate) struct Rates {
    context: Arc<Context>,
    buckets: Buckets,
    /// Counters shared by all nodes; `None` in the embedded deployment.
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
        self.count_in_cluster(|| format!("rate:{}", sale.id.raw()), per_s).await
    }

    /// Counts one attempt of this buyer on this node. In a cluster the gate also counts a buyer's claims on all
    /// nodes, in the call that decides: a separate count would cost every order one more round trip to Redis.
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

    /// Applies the limit over all nodes, per second. While Redis does not answer, only each node's own limit applies.
    async fn count_in_cluster(&self, name: impl FnOnce() -> String, per_s: u32) -> Result<(), Refusal> {
        let Some(cluster) = &self.shared else { return Ok(()) };
        let second = self.context.now().millis() / 1000;
        match Box::pin(cluster.increment(&format!("{}:{second}", name()), WINDOW)).await {
            Ok(counted) if counted > u64::from(per_s) => {
                Err(Refusal::RateLimited { retry_after: Duration::from_secs(1) })
            }
            _ => Ok(()),
        }
    }
}

/// How long Redis keeps the count of one second.
const WINDOW: Duration = Duration::from_secs(3);

impl From<Exhausted> for Refusal {
    /// `Retry-After` is in whole seconds.
    fn from(Exhausted { wait, .. }: Exhausted) -> Self {
        Self::RateLimited { retry_after: Duration::from_secs(wait.as_secs() + 1) }
    }
}
