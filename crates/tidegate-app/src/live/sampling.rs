//! The worker's part: every second a sample of each running campaign, and from time to time the units that expire soon.
//!
//! Invariants: a campaign that cannot be sampled does not stop the others; requests for figures never wait for the
//! sampler.

use std::time::{Duration, Instant};

use tidegate_core::Campaign;
use tidegate_ledger::LedgerError;

use super::meters::Watched;
use super::{Expiring, LiveFigures, SAMPLE_EVERY};

/// Deadlines are looked at no more often than this.
const EXPIRING_EVERY: Duration = Duration::from_secs(2);
/// Looking at them may take this part of the time.
const EXPIRING_SHARE: u32 = 20;

impl LiveFigures {
    /// Takes every running campaign's sample of this second; gives how long it is until the next. What failed is told
    /// once all were looked at.
    pub async fn sample_all(&self) -> Result<Duration, LedgerError> {
        let mut first = self.from.directory.running.in_order(self.from.context.now());
        first.retain(|campaign| self.from.meters.is_near(campaign));
        self.from.meters.make_room(&first, |id| self.from.directory.running.find(id).is_some());
        let mut outcome = Ok(());
        for campaign in &first {
            if let Some(watched) = self.from.meters.take_up(campaign.id) {
                watched.past.lock().closed = None;
                outcome = outcome.and(self.sample(campaign, &watched).await);
            }
        }
        outcome = outcome.and(self.sample_ended().await);
        self.from.meters.forget_oldest();
        outcome?;
        let into_second = u64::try_from(self.from.context.now().millis().rem_euclid(1000)).unwrap_or(0);
        Ok(SAMPLE_EVERY.saturating_sub(Duration::from_millis(into_second)))
    }

    /// The last point of those that ended is how they ended.
    async fn sample_ended(&self) -> Result<(), LedgerError> {
        let mut outcome = Ok(());
        for (id, watched) in self.from.meters.all() {
            if self.from.directory.running.find(id).is_some() || watched.past.lock().closed.is_some() {
                continue;
            }
            let sampled = match self.from.ledger.campaigns.get(id).await {
                Ok(Some(campaign)) => self.sample(&campaign, &watched).await,
                other => other.map(|_| ()),
            };
            if sampled.is_ok() {
                watched.past.lock().closed = Some(self.from.context.now());
            }
            outcome = outcome.and(sampled);
        }
        outcome
    }

    async fn sample(&self, campaign: &Campaign, watched: &Watched) -> Result<(), LedgerError> {
        let tally = self.from.ledger.campaigns.tally(campaign.id).await?.unwrap_or_default();
        let counters = self.from.counts.count(campaign, tally).await;
        let waiting = self.waiting_in(campaign).await;
        let mut past = watched.past.lock();
        past.series.look(self.from.context.now(), &watched.meter.read(), &counters, waiting);
        past.sampled = Some(Instant::now());
        Ok(())
    }

    /// Counts what comes back soon, for all sales at once; gives how long to rest. The more unpaid orders there are,
    /// the more seldom it is done.
    pub async fn count_expiring(&self) -> Result<Duration, LedgerError> {
        if !self.from.directory.running.all().iter().any(|campaign| campaign.sale().is_some()) {
            *self.expiring.write() = None;
            return Ok(EXPIRING_EVERY);
        }
        let (now, asked) = (self.from.context.now(), Instant::now());
        let by = [1, 5, 15].map(|minutes| now + Duration::from_secs(60 * minutes));
        let due = self.from.ledger.orders.units_due(by).await;
        let found = due.as_ref().ok().map(|due| {
            let units = due.iter().map(|(id, [within_1m, within_5m, within_15m])| {
                (*id, Expiring { within_1m: *within_1m, within_5m: *within_5m, within_15m: *within_15m })
            });
            units.collect()
        });
        *self.expiring.write() = found;
        due?;
        Ok(EXPIRING_EVERY.max(asked.elapsed() * EXPIRING_SHARE))
    }
}
