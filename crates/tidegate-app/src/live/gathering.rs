//! Gathers the figures of one campaign or of all; concurrent requests share one result.

use std::time::{Duration, Instant};

use tidegate_core::{Campaign, CampaignId};
use tidegate_ledger::LedgerError;

use super::meters::CampaignMeter;
use super::{BalanceState, CampaignFigures, Expiring, LiveFigures, Pace, Quantiles, Totals};
use crate::Refusal;
use crate::campaigns::Counters;

/// How long gathered figures are reused.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Older samples are not shown as the current pace.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// The figures of a campaign as last gathered.
#[derive(Debug, Default)]
pub(crate) struct CachedFigures {
    last: Option<Gathered>,
    /// By how many units gate and ledger differed at the last comparison with nothing in progress.
    last_drift: i64,
}

#[derive(Debug)]
struct Gathered {
    figures: CampaignFigures,
    /// When they were complete.
    done: Instant,
    /// The second of the wall clock they belong to.
    second: i64,
}

/// Whether figures are recent enough for a request made at `asked`; `second` is the current second of the wall
/// clock. A request that waited while they were gathered accepts them, however long that took; otherwise all
/// waiting requests would gather one after the other.
fn is_fresh_for(of: i64, done: Instant, asked: Instant, second: i64) -> bool {
    done >= asked || (asked.duration_since(done) < FRESH_FOR && of == second)
}

impl LiveFigures {
    /// The figures of all running campaigns: those that have started, then those that will.
    pub async fn overview(&self) -> Result<Vec<CampaignFigures>, Refusal> {
        let mut all = Vec::new();
        for campaign in self.sources.directory.running.for_overview(self.sources.context.now()) {
            all.push(self.figures(campaign.id).await?);
        }
        Ok(all)
    }

    /// The figures of one campaign.
    pub async fn figures(&self, id: CampaignId) -> Result<CampaignFigures, Refusal> {
        let asked = Instant::now();
        let shown = self.shown(id);
        let mut shown = shown.lock().await;
        let second = self.sources.context.now().millis().div_euclid(1000);
        if let Some(last) =
            shown.last.as_ref().filter(|last| is_fresh_for(last.second, last.done, asked, second))
        {
            return Ok(last.figures.clone());
        }
        // A campaign without a meter gets an empty one: figures without a series.
        let watched = self.sources.meters.find(id).unwrap_or_else(CampaignMeter::new);
        let figures = self.gather(id, &watched, &mut shown.last_drift).await?;
        shown.last = Some(Gathered { figures: figures.clone(), done: Instant::now(), second });
        Ok(figures)
    }

    async fn gather(
        &self,
        id: CampaignId,
        watched: &CampaignMeter,
        last_drift: &mut i64,
    ) -> Result<CampaignFigures, Refusal> {
        let campaign = self.sources.directory.campaign(id).await?;
        let counters = self.sources.counts.counters(&campaign).await?;
        let reading = watched.meter.read();
        let (series, every, latest) = {
            let history = watched.history.lock();
            let is_fresh = history.sampled.is_some_and(|sampled| sampled.elapsed() <= STALE_AFTER);
            (history.series.points(), history.series.every(), history.series.latest().filter(|_| is_fresh))
        };
        Ok(CampaignFigures {
            id,
            noun: campaign.kind.noun(),
            state: campaign.state,
            window: campaign.window,
            at: self.sources.context.now(),
            node: self.sources.node.clone(),
            counters,
            waiting: self.waiting_in(&campaign).await,
            revenue: campaign.sale().map(|sale| sale.price.times(counters.tally.paid)),
            expiring: self.expiring(&campaign),
            light: self.light(id, &counters, last_drift).await?,
            totals: Totals::from(&reading),
            refusals: reading.by_reason(),
            latency: Quantiles::of(&reading.latencies),
            pace: latest.map(Pace::from),
            series,
            every,
        })
    }

    /// Units that expire soon, as last counted.
    fn expiring(&self, campaign: &Campaign) -> Option<Expiring> {
        campaign.sale()?;
        let counted = self.expiring.read();
        counted.as_ref().map(|counted| counted.get(&campaign.id).copied().unwrap_or_default())
    }

    /// Whether every unit is accounted for. The sum is checked each time; gate and ledger are compared only if the
    /// sum is wrong or the last reconciliation found a difference.
    async fn light(
        &self,
        id: CampaignId,
        counters: &Counters,
        last_drift: &mut i64,
    ) -> Result<BalanceState, LedgerError> {
        let Counters { tally, available, queued } = *counters;
        let (stock, held) =
            (u64::from(tally.stock), u64::from(tally.awaiting_payment) + u64::from(tally.paid));
        if held > stock {
            return Ok(BalanceState::Broken);
        }
        let adds_up = held + u64::from(queued) + u64::from(available) == stock;
        if adds_up && !self.sources.auditing.differs(id) {
            *last_drift = 0;
            return Ok(BalanceState::Ok);
        }
        Ok(judge_drift(self.sources.auditing.settled_drift(id).await?, last_drift))
    }
}

/// Judges a comparison of gate and ledger given the previous one; `drift` is `None` if something was in progress.
fn judge_drift(drift: Option<i64>, last_drift: &mut i64) -> BalanceState {
    let Some(units) = drift else { return BalanceState::Moving };
    let before = std::mem::replace(last_drift, units);
    match units {
        0 => BalanceState::Ok,
        units if units == before => BalanceState::Broken,
        _ => BalanceState::Moving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_for_figures_takes_them() {
        let (asked, second) = (Instant::now(), Duration::from_secs(1));
        assert!(is_fresh_for(7, asked + 3 * second, asked, 10), "they came while one waited");
        assert!(is_fresh_for(7, asked, asked + second / 2, 7), "they are fresh");
        assert!(!is_fresh_for(7, asked, asked + second, 7), "they are not");
        assert!(!is_fresh_for(7, asked, asked + second / 2, 3), "the clock was set back");
    }

    #[test]
    fn only_two_looks_in_a_row_that_differ_alike_are_a_fault() {
        let mut last_drift = 0;
        let looks = [Some(2), None, Some(2), Some(0), Some(2), Some(3), Some(3)];
        let said = looks.map(|drift| judge_drift(drift, &mut last_drift));
        let (ok, moving, broken) = (BalanceState::Ok, BalanceState::Moving, BalanceState::Broken);
        assert_eq!(said, [moving, moving, broken, ok, moving, moving, broken]);
    }
}
