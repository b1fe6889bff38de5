//! What is shown: the figures of one campaign or of all, gathered once for everybody who asks.

use std::time::{Duration, Instant};

use tidegate_core::{Campaign, CampaignId};
use tidegate_store::ledger::LedgerError;

use super::{Expiring, Light, LiveFigures, Pace, Quantiles, Totals, Watched};
use crate::ops::campaigns::Counters;
use crate::ops::{App, Refusal};

/// Figures are good for this long.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// What is older says nothing about the pace.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// What was last shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    last: Option<Gathered>,
    /// By how many units gate and ledger differed in the last quiet moment.
    differed: i64,
}

#[derive(Debug)]
struct Gathered {
    figures: LiveFigures,
    /// When they were complete.
    done: Instant,
    /// The second of the day's clock they belong to.
    second: i64,
}

/// Whether figures answer who asked at that moment, `second` being the one of the day's clock now. Whoever waited while they
/// were gathered takes them, however long that took: else all who wait would gather one after the other.
fn answers(of: i64, done: Instant, asked: Instant, second: i64) -> bool {
    done >= asked || (asked.duration_since(done) < FRESH_FOR && of == second)
}

impl App {
    /// The figures of all running campaigns: those that have started, then those that will.
    pub async fn live_overview(&self) -> Result<Vec<LiveFigures>, Refusal> {
        let mut all = Vec::new();
        for campaign in self.book.in_order(self.now()) {
            all.push(self.live(campaign.id).await?);
        }
        Ok(all)
    }

    /// The figures of one campaign.
    pub async fn live(&self, id: CampaignId) -> Result<LiveFigures, Refusal> {
        let asked = Instant::now();
        let shown = self.live.shown(id);
        let mut shown = shown.lock().await;
        let second = self.now().millis().div_euclid(1000);
        if let Some(last) = shown.last.as_ref().filter(|last| answers(last.second, last.done, asked, second))
        {
            return Ok(last.figures.clone());
        }
        // One of which nothing is kept is shown all the same, without a past.
        let watched = self.live.find(id).unwrap_or_else(Watched::new);
        let figures = self.gather(id, &watched, &mut shown.differed).await?;
        shown.last = Some(Gathered { figures: figures.clone(), done: Instant::now(), second });
        Ok(figures)
    }

    async fn gather(
        &self,
        id: CampaignId,
        watched: &Watched,
        differed: &mut i64,
    ) -> Result<LiveFigures, Refusal> {
        let campaign = self.campaign(id).await?;
        let counters = self.counters(&campaign).await?;
        let reading = watched.meter.read();
        let (series, every, latest) = {
            let past = watched.past.lock();
            let is_fresh = past.sampled.is_some_and(|sampled| sampled.elapsed() <= STALE_AFTER);
            (past.series.points(), past.series.every(), past.series.latest().filter(|_| is_fresh))
        };
        Ok(LiveFigures {
            id,
            noun: campaign.kind.noun(),
            state: campaign.state,
            window: campaign.window,
            at: self.now(),
            node: self.node.name.clone(),
            counters,
            waiting: self.waiting_in(&campaign).await,
            revenue: campaign.sale().map(|sale| sale.price.times(counters.tally.paid)),
            expiring: self.expiring(&campaign),
            light: self.light(id, &counters, differed).await?,
            totals: Totals::from(&reading),
            refusals: reading.by_reason(),
            latency: Quantiles::of(&reading.latencies),
            pace: latest.map(Pace::from),
            series,
            every,
        })
    }

    /// What comes back soon, as it was last counted.
    fn expiring(&self, campaign: &Campaign) -> Option<Expiring> {
        campaign.sale()?;
        let counted = self.live.expiring.read();
        counted.as_ref().map(|counted| counted.get(&campaign.id).copied().unwrap_or_default())
    }

    /// Whether every unit is accounted for. The sum is looked at each time; gate and ledger only where it is not right, or the
    /// reconciler saw them differ.
    async fn light(
        &self,
        id: CampaignId,
        counters: &Counters,
        differed: &mut i64,
    ) -> Result<Light, LedgerError> {
        let Counters { tally, available, queued } = *counters;
        let (stock, held) =
            (u64::from(tally.stock), u64::from(tally.awaiting_payment) + u64::from(tally.paid));
        if held > stock {
            return Ok(Light::Broken);
        }
        let adds_up = held + u64::from(queued) + u64::from(available) == stock;
        if adds_up && !self.differed.lock().contains_key(&id) {
            *differed = 0;
            return Ok(Light::Ok);
        }
        Ok(judged(self.quiet_drift(id).await?, differed))
    }
}

/// What a look at gate and ledger means after the one before; `None` where something was on its way.
fn judged(drift: Option<i64>, differed: &mut i64) -> Light {
    let Some(units) = drift else { return Light::Moving };
    let before = std::mem::replace(differed, units);
    match units {
        0 => Light::Ok,
        units if units == before => Light::Broken,
        _ => Light::Moving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_for_figures_takes_them() {
        let (asked, second) = (Instant::now(), Duration::from_secs(1));
        assert!(answers(7, asked + 3 * second, asked, 10), "they came while one waited");
        assert!(answers(7, asked, asked + second / 2, 7), "they are fresh");
        assert!(!answers(7, asked, asked + second, 7), "they are not");
        assert!(!answers(7, asked, asked + second / 2, 3), "the clock was set back");
    }

    #[test]
    fn only_two_looks_in_a_row_that_differ_alike_are_a_fault() {
        let mut differed = 0;
        let looks = [Some(2), None, Some(2), Some(0), Some(2), Some(3), Some(3)];
        let said = looks.map(|drift| judged(drift, &mut differed));
        let (ok, moving, broken) = (Light::Ok, Light::Moving, Light::Broken);
        assert_eq!(said, [moving, moving, broken, ok, moving, moving, broken]);
    }
}
