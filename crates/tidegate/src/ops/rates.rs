//! How fast a sale lets itself be asked: by everybody together, and by each buyer.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use hashbrown::{DefaultHashBuilder, HashMap};
use tidegate_core::{Campaign, CampaignId, UserId};

use super::{App, Refusal};

/// The buckets of running sales. Made when first asked for, forgotten with the sale.
#[derive(Debug, Default)]
pub(super) struct Rates(ArcSwap<HashMap<CampaignId, Arc<SaleRates>>>);

/// Ids are ours: nobody can choose them so that they meet in the same place of the map.
type PerBuyer = RateLimiter<UserId, DefaultKeyedStateStore<UserId, DefaultHashBuilder>, DefaultClock>;

#[derive(Debug)]
struct SaleRates {
    everybody: Option<DefaultDirectRateLimiter>,
    each: Option<PerBuyer>,
}

fn per_buyer(quota: Quota) -> PerBuyer {
    RateLimiter::dashmap_with_clock_and_hasher(quota, DefaultClock::default(), DefaultHashBuilder::default())
}

impl Rates {
    /// Asks a sale's buckets.
    fn ask<T>(&self, sale: &Campaign, ask: impl Fn(&SaleRates) -> T) -> T {
        if let Some(rates) = self.0.load().get(&sale.id) {
            return ask(rates);
        }
        let quota = |per_s| NonZeroU32::new(per_s).map(Quota::per_second);
        let rates = Arc::new(SaleRates {
            everybody: quota(sale.protect.sale_rate_per_s).map(RateLimiter::direct),
            each: quota(sale.protect.user_rate_per_s).map(per_buyer),
        });
        self.0.rcu(|all| {
            let mut all = HashMap::clone(all);
            all.entry(sale.id).or_insert_with(|| rates.clone());
            all
        });
        ask(self.0.load().get(&sale.id).unwrap_or(&rates))
    }

    pub(super) fn forget(&self, sale: CampaignId) {
        self.0.rcu(|all| {
            let mut all = HashMap::clone(all);
            all.remove(&sale);
            all
        });
    }

    /// Forgets buyers whose buckets are full again.
    pub(super) fn tidy(&self) {
        for rates in self.0.load().values() {
            if let Some(each) = &rates.each {
                each.retain_recent();
                each.shrink_to_fit();
            }
        }
    }
}

impl App {
    /// Counts one attempt at the sale.
    pub async fn count_attempt(&self, sale: &Campaign) -> Result<(), Refusal> {
        if sale.protect.sale_rate_per_s == 0 {
            return Ok(());
        }
        let asked = self.rates.ask(sale, |rates| rates.everybody.as_ref().map(RateLimiter::check));
        let Some(Err(wait)) = asked else {
            let name = || format!("rate:{}", sale.id.raw());
            return self.count_everywhere(name, sale.protect.sale_rate_per_s).await;
        };
        Err(Refusal::Slower { retry_after: rounded(wait.wait_time_from(DefaultClock::default().now())) })
    }

    /// Counts one attempt of this buyer at this node. Where there are many, the gate counts the claims of all of them, in the
    /// call that decides: a count of its own would be one more way to Redis and back for every order.
    pub fn count_attempt_of(&self, user: UserId, sale: &Campaign) -> Result<(), Refusal> {
        if sale.protect.user_rate_per_s == 0 {
            return Ok(());
        }
        let asked = self.rates.ask(sale, |rates| rates.each.as_ref().map(|each| each.check_key(&user)));
        let Some(Err(wait)) = asked else { return Ok(()) };
        Err(Refusal::Slower { retry_after: rounded(wait.wait_time_from(DefaultClock::default().now())) })
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

/// `Retry-After` is in whole seconds.
fn rounded(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + 1)
}
