//! The worker's part: every second a sample of each campaign that runs, and now and then what comes back soon.
//!
//! What always holds: a campaign that cannot be sampled keeps no other from it; whoever looks at figures waits for none of
//! this.

use std::time::{Duration, Instant};

use tidegate_core::Campaign;
use tidegate_store::ledger::LedgerError;

use super::{Expiring, SAMPLE_EVERY, Watched};
use crate::ops::App;

/// Deadlines are looked at no more often than this.
const EXPIRING_EVERY: Duration = Duration::from_secs(2);
/// Looking at them may take this part of the time.
const EXPIRING_SHARE: u32 = 20;

impl App {
    /// Takes every running campaign's sample of this second; gives how long it is until the next. What failed is told once
    /// all were looked at.
    pub async fn sample_live(&self) -> Result<Duration, LedgerError> {
        let mut first = self.book.in_order(self.now());
        first.retain(|campaign| self.is_near(campaign));
        self.live.make_room(&first, |id| self.book.find(id).is_some());
        let mut outcome = Ok(());
        for campaign in &first {
            if let Some(watched) = self.live.take_up(campaign.id) {
                watched.past.lock().closed = None;
                outcome = outcome.and(self.sample(campaign, &watched).await);
            }
        }
        outcome = outcome.and(self.sample_ended().await);
        self.live.forget_oldest();
        outcome?;
        let into_second = u64::try_from(self.now().millis().rem_euclid(1000)).unwrap_or(0);
        Ok(SAMPLE_EVERY.saturating_sub(Duration::from_millis(into_second)))
    }

    /// The last point of those that ended is how they ended.
    async fn sample_ended(&self) -> Result<(), LedgerError> {
        let mut outcome = Ok(());
        for (id, watched) in self.live.all() {
            if self.book.find(id).is_some() || watched.past.lock().closed.is_some() {
                continue;
            }
            let sampled = match self.ledger.campaign(id).await {
                Ok(Some(campaign)) => self.sample(&campaign, &watched).await,
                other => other.map(|_| ()),
            };
            if sampled.is_ok() {
                watched.past.lock().closed = Some(self.now());
            }
            outcome = outcome.and(sampled);
        }
        outcome
    }

    async fn sample(&self, campaign: &Campaign, watched: &Watched) -> Result<(), LedgerError> {
        let tally = self.ledger.tally(campaign.id).await?.unwrap_or_default();
        let counters = self.counted(campaign, tally).await;
        let waiting = self.waiting_in(campaign).await;
        let mut past = watched.past.lock();
        past.series.look(self.now(), &watched.meter.read(), &counters, waiting);
        past.sampled = Some(Instant::now());
        Ok(())
    }

    /// Counts what comes back soon, for all sales at once; gives how long to rest. The more unpaid orders there are, the more
    /// seldom it is done.
    pub async fn count_expiring(&self) -> Result<Duration, LedgerError> {
        if !self.book.all().iter().any(|campaign| campaign.sale().is_some()) {
            *self.live.expiring.write() = None;
            return Ok(EXPIRING_EVERY);
        }
        let (now, asked) = (self.now(), Instant::now());
        let by = [1, 5, 15].map(|minutes| now + Duration::from_secs(60 * minutes));
        let due = self.ledger.units_due(by).await;
        let found = due.as_ref().ok().map(|due| {
            let units = due.iter().map(|(id, [within_1m, within_5m, within_15m])| {
                (*id, Expiring { within_1m: *within_1m, within_5m: *within_5m, within_15m: *within_15m })
            });
            units.collect()
        });
        *self.live.expiring.write() = found;
        due?;
        Ok(EXPIRING_EVERY.max(asked.elapsed() * EXPIRING_SHARE))
    }
}
