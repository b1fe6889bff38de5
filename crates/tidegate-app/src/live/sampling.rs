//! Periodic work: a sample of each running campaign every second, and a count of the units that expire soon.
//!
//! Invariants: a campaign that cannot be sampled does not stop the others; requests for figures never wait for the
//! sampler.

use std::time::{Duration, Instant};

use tidegate_core::Campaign;
use tidegate_ledger::LedgerError;

use super::meters::CampaignMeter;
use super::{Expiring, LiveFigures, SAMPLE_EVERY};

/// Minimum pause between two counts of expiring units.
const EXPIRING_EVERY: Duration = Duration::from_secs(2);
/// A count is followed by a pause of at least this many times its duration.
const EXPIRING_SHARE: u32 = 20;

impl LiveFigures {
    /// Samples every running campaign; returns the time until the next second begins. A failure is returned after
    /// all campaigns were tried.
    pub async fn sample_all(&self) -> Result<Duration, LedgerError> {
        let mut first = self.sources.directory.running.for_overview(self.sources.context.now());
        first.retain(|campaign| self.sources.meters.is_near(campaign));
        self.sources.meters.make_room(&first, |id| self.sources.directory.running.find(id).is_some());
        let mut outcome = Ok(());
        for campaign in &first {
            if let Some(watched) = self.sources.meters.get_or_create(campaign.id) {
                watched.history.lock().closed = None;
                outcome = outcome.and(self.sample(campaign, &watched).await);
            }
        }
        outcome = outcome.and(self.sample_ended().await);
        self.sources.meters.forget_oldest();
        outcome?;
        let into_second = u64::try_from(self.sources.context.now().millis().rem_euclid(1000)).unwrap_or(0);
        Ok(SAMPLE_EVERY.saturating_sub(Duration::from_millis(into_second)))
    }

    /// Takes a final sample of each campaign that has ended.
    async fn sample_ended(&self) -> Result<(), LedgerError> {
        let mut outcome = Ok(());
        for (id, watched) in self.sources.meters.all() {
            if self.sources.directory.running.find(id).is_some() || watched.history.lock().closed.is_some() {
                continue;
            }
            let sampled = match self.sources.ledger.campaigns.get(id).await {
                Ok(Some(campaign)) => self.sample(&campaign, &watched).await,
                other => other.map(|_| ()),
            };
            if sampled.is_ok() {
                watched.history.lock().closed = Some(self.sources.context.now());
            }
            outcome = outcome.and(sampled);
        }
        outcome
    }

    async fn sample(&self, campaign: &Campaign, watched: &CampaignMeter) -> Result<(), LedgerError> {
        let tally = self.sources.ledger.campaigns.tally(campaign.id).await?.unwrap_or_default();
        let counters = self.sources.counts.count(campaign, tally).await;
        let waiting = self.waiting_in(campaign).await;
        let mut history = watched.history.lock();
        history.series.observe(self.sources.context.now(), &watched.meter.read(), &counters, waiting);
        history.sampled = Some(Instant::now());
        Ok(())
    }

    /// Counts the units that expire soon, for all sales at once; returns the pause until the next count, which
    /// grows with the time that the query took.
    pub async fn count_expiring(&self) -> Result<Duration, LedgerError> {
        if !self.sources.directory.running.all().iter().any(|campaign| campaign.sale().is_some()) {
            *self.expiring.write() = None;
            return Ok(EXPIRING_EVERY);
        }
        let (now, asked) = (self.sources.context.now(), Instant::now());
        let by = [1, 5, 15].map(|minutes| now + Duration::from_secs(60 * minutes));
        let due = self.sources.ledger.orders.units_due(by).await;
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
