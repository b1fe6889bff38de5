//! How fast a sale lets itself be asked: by everybody together, and by each buyer.

use std::time::{Duration, Instant};

use tidegate_core::{Campaign, UserId};

use super::{App, Refusal};
use crate::buckets::{Empty, Rate};

impl App {
    /// Counts one attempt at the sale.
    pub async fn count_attempt(&self, sale: &Campaign, now: Instant) -> Result<(), Refusal> {
        let per_s = sale.protect.sale_rate_per_s;
        let Some(rate) = Rate::per_second(per_s) else { return Ok(()) };
        self.rates.take(sale.id, rate, now)?;
        self.count_everywhere(|| format!("rate:{}", sale.id.raw()), per_s).await
    }

    /// Counts one attempt of this buyer at this node. Where there are many, the gate counts the claims of all of them, in the
    /// call that decides: a count of its own would be one more way to Redis and back for every order.
    pub fn count_attempt_of(&self, user: UserId, sale: &Campaign, now: Instant) -> Result<(), Refusal> {
        let Some(rate) = Rate::per_second(sale.protect.user_rate_per_s) else { return Ok(()) };
        self.rates.take((sale.id, user), rate, now)?;
        Ok(())
    }

    /// The same limit over all nodes, second by second. While they cannot be counted together each counts for itself.
    async fn count_everywhere(&self, name: impl FnOnce() -> String, per_s: u32) -> Result<(), Refusal> {
        let Some(cluster) = self.admission.cluster() else { return Ok(()) };
        let second = self.now().millis() / 1000;
        match Box::pin(cluster.count(&format!("{}:{second}", name()), WINDOW)).await {
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
