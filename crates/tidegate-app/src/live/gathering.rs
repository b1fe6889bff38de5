//! Gathers the figures of one campaign or of all, once for everybody who asks.

use std::time::{Duration, Instant};

use tidegate_core::{Campaign, CampaignId};
use tidegate_ledger::LedgerError;

use super::meters::Watched;
use super::{CampaignFigures, Expiring, Light, LiveFigures, Pace, Quantiles, Totals};
use crate::Refusal;
use crate::campaigns::Counters;

/// Figures are good for this long.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// What is older says nothing about the pace.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// What was last shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    last: Option<Gathered>,
    /// By how many units gate and ledger differed in the last quiet moment.
    differed: i64,
}

#[derive(Debug)]
struct Gathered {
    figures: CampaignFigures,
    /// When they were complete.
    done: Instant,
    /// The second of the wall clock they belong to.
    second: i64,
}

/// Whether figures answer a request made at that moment; `second` is that of the wall clock now. A request that waited
/// while they were gathered takes them, however long that took: else all that wait would gather one after the other.
fn answers(of: i64, done: Instant, asked: Instant, second: i64) -> bool {
    done >= asked || (asked.duration_since(done) < FRESH_FOR && of == second)
}

impl LiveFigures {
    /// The figures of all running campaigns: those that have started, then those that will.
    pub async fn overview(&self) -> Result<Vec<CampaignFigures>, Refusal> {
        let mut all = Vec::new();
        for campaign in self.from.directory.running.in_order(self.from.context.now()) {
            all.push(self.figures(campaign.id).await?);
        }
        Ok(all)
    }

    /// The figures of one campaign.
    pub async fn figures(&self, id: CampaignId) -> Result<CampaignFigures, Refusal> {
        let asked = Instant::now();
        let shown = self.shown(id);
        let mut shown = shown.lock().await;
        let second = self.from.context.now().millis().div_euclid(1000);
        if let Some(last) = shown.last.as_ref().filter(|last| answers(last.second, last.done, asked, second))
        {
            return Ok(last.figures.clone());
        }
        // A campaign without a meter is shown as well, without a past.
        let watched = self.from.meters.find(id).unwrap_or_else(Watched::new);
        let figures = self.gather(id, &watched, &mut shown.differed).await?;
        shown.last = Some(Gathered { figures: figures.clone(), done: Instant::now(), second });
        Ok(figures)
    }

    async fn gather(
        &self,
        id: CampaignId,
        watched: &Watched,
        differed: &mut i64,
    ) -> Result<CampaignFigures, Refusal> {
        let campaign = self.from.directory.campaign(id).await?;
        let counters = self.from.counts.counters(&campaign).await?;
        let reading = watched.meter.read();
        let (series, every, latest) = {
            let past = watched.past.lock();
            let is_fresh = past.sampled.is_some_and(|sampled| sampled.elapsed() <= STALE_AFTER);
            (past.series.points(), past.series.every(), past.series.latest().filter(|_| is_fresh))
        };
        Ok(CampaignFigures {
            id,
            noun: campaign.kind.noun(),
            state: campaign.state,
            window: campaign.window,
            at: self.from.context.now(),
            node: self.from.node.clone(),
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
        let counted = self.expiring.read();
        counted.as_ref().map(|counted| counted.get(&campaign.id).copied().unwrap_or_default())
    }

    /// Whether every unit is accounted for. The sum is looked at each time; gate and ledger only where it is not
    /// right, or the reconciler saw them differ.
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
        if adds_up && !self.from.auditing.differs(id) {
            *differed = 0;
            return Ok(Light::Ok);
        }
        Ok(judged(self.from.auditing.quiet_drift(id).await?, differed))
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
