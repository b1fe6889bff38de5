//! How fast a sale lets itself be asked: by everybody together, and by each buyer.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use hashbrown::HashMap;
use parking_lot::RwLock;
use tidegate_core::{Campaign, CampaignId, UserId};

use super::{App, Refusal};

/// The buckets of running sales. Made when first asked for, forgotten with the sale.
#[derive(Debug, Default)]
pub(super) struct Rates(RwLock<HashMap<CampaignId, Arc<SaleRates>>>);

#[derive(Debug)]
struct SaleRates {
    everybody: Option<DefaultDirectRateLimiter>,
    each: Option<DefaultKeyedRateLimiter<UserId>>,
}

impl Rates {
    fn of(&self, sale: &Campaign) -> Arc<SaleRates> {
        if let Some(rates) = self.0.read().get(&sale.id) {
            return rates.clone();
        }
        let quota = |per_s| NonZeroU32::new(per_s).map(Quota::per_second);
        let rates = Arc::new(SaleRates {
            everybody: quota(sale.protect.sale_rate_per_s).map(RateLimiter::direct),
            each: quota(sale.protect.user_rate_per_s).map(RateLimiter::keyed),
        });
        self.0.write().entry(sale.id).or_insert(rates).clone()
    }

    pub(super) fn forget(&self, sale: CampaignId) {
        self.0.write().remove(&sale);
    }

    /// Forgets buyers whose buckets are full again.
    pub(super) fn tidy(&self) {
        for rates in self.0.read().values() {
            if let Some(each) = &rates.each {
                each.retain_recent();
            }
        }
    }
}

impl App {
    /// Counts one attempt at the sale.
    pub fn count_attempt(&self, sale: &Campaign) -> Result<(), Refusal> {
        if sale.protect.sale_rate_per_s == 0 {
            return Ok(());
        }
        let rates = self.rates.of(sale);
        let Some(Err(wait)) = rates.everybody.as_ref().map(RateLimiter::check) else { return Ok(()) };
        Err(Refusal::Slower { retry_after: rounded(wait.wait_time_from(DefaultClock::default().now())) })
    }

    /// Counts one attempt of this buyer.
    pub fn count_attempt_of(&self, user: UserId, sale: &Campaign) -> Result<(), Refusal> {
        if sale.protect.user_rate_per_s == 0 {
            return Ok(());
        }
        let rates = self.rates.of(sale);
        let Some(Err(wait)) = rates.each.as_ref().map(|each| each.check_key(&user)) else { return Ok(()) };
        Err(Refusal::Slower { retry_after: rounded(wait.wait_time_from(DefaultClock::default().now())) })
    }
}

/// `Retry-After` is in whole seconds.
fn rounded(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + 1)
}
