//! The figures of running campaigns, second by second: counted where things happen, sampled by a worker, shown to
//! whoever watches.
//!
//! What always holds: counting takes a look-up under a lock for reading and a few relaxed additions; everything kept is
//! bounded; figures are gathered at most once a second for each campaign, however many watch.

mod figures;
mod meter;
mod series;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::RwLock;
use tidegate_core::{Campaign, CampaignId, Moment};
use tidegate_store::ledger::LedgerError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::figures::{Expiring, Light, LiveFigures, Pace, Quantiles, Totals};
pub use self::meter::Attempted;
use self::meter::Meter;
use self::series::Series;
pub use self::series::{MOST as MOST_SAMPLES, Sample};
use super::campaigns::Counters;
use super::{App, Refusal};

/// Running campaigns whose figures are kept.
const MOST_RUNNING: usize = 100;
/// Closed ones that can still be looked at.
const MOST_CLOSED: usize = 50;
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// So long before its start a campaign is sampled: a week of waiting would leave few points for the sale itself.
const LEAD: Duration = Duration::from_secs(60);
/// What is older says nothing about the pace.
const STALE_AFTER: Duration = Duration::from_secs(3);
const EXPIRING_EVERY: Duration = Duration::from_secs(2);
/// Looking at deadlines may take this part of the time.
const EXPIRING_SHARE: u32 = 20;
/// Streams of figures at a time.
const MOST_STREAMS: usize = 64;

/// What is kept of every campaign.
#[derive(Debug)]
pub(super) struct Live {
    campaigns: RwLock<HashMap<CampaignId, Arc<Watched>>>,
    streams: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self { campaigns: RwLock::default(), streams: Arc::new(Semaphore::new(MOST_STREAMS)) }
    }
}

#[derive(Debug)]
struct Watched {
    meter: Meter,
    past: parking_lot::Mutex<Past>,
    shown: tokio::sync::Mutex<Shown>,
}

#[derive(Debug)]
struct Past {
    series: Series,
    closed: Option<Moment>,
}

/// What was last shown, for everybody who asks within the same second.
#[derive(Debug, Default)]
struct Shown {
    second: i64,
    figures: Option<LiveFigures>,
    /// And when it is looked up again.
    expiring: Option<(Expiring, Moment)>,
    /// By how many units gate and ledger differed in the last quiet moment.
    differed: i64,
}

impl Watched {
    fn new() -> Arc<Self> {
        let past = Past { series: Series::new(SAMPLE_EVERY), closed: None };
        Arc::new(Self {
            meter: Meter::default(),
            past: parking_lot::Mutex::new(past),
            shown: tokio::sync::Mutex::default(),
        })
    }
}

impl Live {
    fn find(&self, id: CampaignId) -> Option<Arc<Watched>> {
        self.campaigns.read().get(&id).cloned()
    }

    /// What is kept of a running campaign; `None` where there are too many.
    fn take_up(&self, id: CampaignId) -> Option<Arc<Watched>> {
        {
            let campaigns = self.campaigns.read();
            if let Some(watched) = campaigns.get(&id) {
                return Some(watched.clone());
            }
            if campaigns.len() >= MOST_RUNNING + MOST_CLOSED {
                return None;
            }
        }
        Some(self.campaigns.write().entry(id).or_insert_with(Watched::new).clone())
    }

    fn all(&self) -> Vec<(CampaignId, Arc<Watched>)> {
        self.campaigns.read().iter().map(|(id, watched)| (*id, watched.clone())).collect()
    }

    /// Keeps the closed ones that were closed last.
    fn forget_oldest(&self) {
        let kept = self.all();
        let closed = kept.iter().filter_map(|(id, watched)| Some((watched.past.lock().closed?, *id)));
        let mut closed: Vec<_> = closed.collect();
        closed.sort_unstable();
        let mut campaigns = self.campaigns.write();
        for (_, id) in closed.iter().take(closed.len().saturating_sub(MOST_CLOSED)) {
            campaigns.remove(id);
        }
    }
}

impl App {
    /// Counts at a campaign's meter. Only running campaigns get one: what anybody can name takes no memory.
    fn count(&self, id: CampaignId, count: impl Fn(&Meter)) {
        if let Some(watched) = self.live.campaigns.read().get(&id) {
            return count(&watched.meter);
        }
        if self.book.find(id).is_some()
            && let Some(watched) = self.live.take_up(id)
        {
            count(&watched.meter);
        }
    }

    /// Somebody has looked at the campaign's page.
    pub fn visited(&self, id: CampaignId) {
        self.count(id, Meter::visited);
    }

    /// Somebody has tried to order or to play.
    pub fn attempted(&self, id: CampaignId, outcome: Attempted, took: Duration) {
        self.count(id, |meter| meter.attempted(outcome, took));
    }

    pub(super) fn pass_issued(&self, id: CampaignId) {
        self.count(id, Meter::passed);
    }

    pub(super) fn place_taken(&self, id: CampaignId) {
        self.count(id, Meter::joined);
    }

    pub(super) fn order_paid(&self, id: CampaignId) {
        self.count(id, Meter::paid);
    }

    /// A place for a stream of figures; `None` when there are too many.
    pub fn watch_live(&self) -> Option<OwnedSemaphorePermit> {
        self.live.streams.clone().try_acquire_owned().ok()
    }

    /// Takes every running campaign's sample of this second; gives how long it is until the next.
    pub async fn sample_live(&self) -> Result<Duration, LedgerError> {
        let mut running = self.book.all();
        running.retain(|campaign| self.now() + LEAD >= campaign.window.starts_at);
        for campaign in running.iter().take(MOST_RUNNING) {
            if let Some(watched) = self.live.take_up(campaign.id) {
                watched.past.lock().closed = None;
                self.sample(campaign, &watched).await?;
            }
        }
        for (id, watched) in self.live.all() {
            if self.book.find(id).is_none() && watched.past.lock().closed.is_none() {
                // The last point is how it ended.
                if let Some(campaign) = self.ledger.campaign(id).await? {
                    self.sample(&campaign, &watched).await?;
                }
                watched.past.lock().closed = Some(self.now());
            }
        }
        self.live.forget_oldest();
        let into_second = u64::try_from(self.now().millis().rem_euclid(1000)).unwrap_or(0);
        Ok(SAMPLE_EVERY.saturating_sub(Duration::from_millis(into_second)))
    }

    async fn sample(&self, campaign: &Campaign, watched: &Watched) -> Result<(), LedgerError> {
        let tally = self.ledger.tally(campaign.id).await?.unwrap_or_default();
        let counters = self.counted(campaign, tally).await;
        let waiting = self.waiting_in(campaign).await;
        watched.past.lock().series.look(self.now(), &watched.meter.read(), &counters, waiting);
        Ok(())
    }

    /// The figures of all running campaigns, those that started last first.
    pub async fn live_overview(&self) -> Result<Vec<LiveFigures>, Refusal> {
        let mut running = self.book.all();
        running.sort_by_key(|campaign| std::cmp::Reverse((campaign.window.starts_at, campaign.id)));
        let mut all = Vec::new();
        for campaign in running.iter().take(MOST_RUNNING) {
            all.push(self.live(campaign.id).await?);
        }
        Ok(all)
    }

    /// The figures of one campaign.
    pub async fn live(&self, id: CampaignId) -> Result<LiveFigures, Refusal> {
        let kept = if self.book.find(id).is_some() { self.live.take_up(id) } else { self.live.find(id) };
        // One of which nothing is kept is shown all the same, without a past.
        let watched = kept.unwrap_or_else(Watched::new);
        let mut shown = watched.shown.lock().await;
        let second = self.now().millis().div_euclid(1000);
        if let Some(figures) = shown.figures.as_ref().filter(|_| shown.second == second) {
            return Ok(figures.clone());
        }
        let figures = self.gather(id, &watched, &mut shown).await?;
        shown.second = second;
        shown.figures = Some(figures.clone());
        Ok(figures)
    }

    async fn gather(
        &self,
        id: CampaignId,
        watched: &Watched,
        shown: &mut Shown,
    ) -> Result<LiveFigures, Refusal> {
        let campaign = self.campaign(id).await?;
        let counters = self.counters(&campaign).await?;
        let reading = watched.meter.read();
        let at = self.now();
        let (series, every, latest) = {
            let past = watched.past.lock();
            (past.series.points(), past.series.every(), past.series.latest())
        };
        Ok(LiveFigures {
            id,
            noun: campaign.kind.noun(),
            state: campaign.state,
            window: campaign.window,
            at,
            node: self.node.name.clone(),
            counters,
            waiting: self.waiting_in(&campaign).await,
            revenue: campaign.sale().map(|sale| sale.price.times(counters.tally.paid)),
            expiring: self.expiring(&campaign, shown).await?,
            light: self.light(id, &counters, shown).await?,
            totals: Totals::from(&reading),
            refusals: reading.by_reason(),
            latency: Quantiles::of(&reading.latencies),
            pace: latest.filter(|latest| latest.at + STALE_AFTER >= at).map(Pace::from).unwrap_or_default(),
            series,
            every,
        })
    }

    /// What comes back soon. The more unpaid orders there are, the more seldom it is looked up.
    async fn expiring(
        &self,
        campaign: &Campaign,
        shown: &mut Shown,
    ) -> Result<Option<Expiring>, LedgerError> {
        if campaign.sale().is_none() {
            return Ok(None);
        }
        let (now, asked) = (self.now(), Instant::now());
        if let Some((known, _)) = shown.expiring.filter(|(_, again)| now < *again) {
            return Ok(Some(known));
        }
        let by = [1, 5, 15].map(|minutes| now + Duration::from_secs(60 * minutes));
        let [within_1m, within_5m, within_15m] = self.ledger.units_due(campaign.id, by).await?;
        let found = Expiring { within_1m, within_5m, within_15m };
        let again = now + EXPIRING_EVERY.max(asked.elapsed() * EXPIRING_SHARE);
        shown.expiring = Some((found, again));
        Ok(Some(found))
    }

    /// Whether every unit is accounted for. The sum is looked at each time; gate and ledger only where it is not right, or the
    /// reconciler saw them differ.
    async fn light(
        &self,
        id: CampaignId,
        counters: &Counters,
        shown: &mut Shown,
    ) -> Result<Light, LedgerError> {
        let Counters { tally, available, queued } = *counters;
        let (stock, held) =
            (u64::from(tally.stock), u64::from(tally.awaiting_payment) + u64::from(tally.paid));
        if held > stock {
            return Ok(Light::Broken);
        }
        let adds_up = held + u64::from(queued) + u64::from(available) == stock;
        if adds_up && !self.differed.lock().contains_key(&id) {
            shown.differed = 0;
            return Ok(Light::Ok);
        }
        Ok(match self.quiet_drift(id).await? {
            None => Light::Moving,
            Some(0) => Light::Ok,
            Some(units) if units == shown.differed => Light::Broken,
            Some(units) => {
                shown.differed = units;
                Light::Moving
            }
        })
    }
}
