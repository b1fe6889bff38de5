//! The figures of running campaigns, second by second: counted where things happen, sampled by a worker, shown to
//! whoever watches.
//!
//! What always holds: counting takes a look-up without a lock and a few relaxed additions; everything kept is
//! bounded; figures are gathered at most once a second for each campaign, however many watch. Whether something is
//! fresh is told by a clock that nobody sets.

mod figures;
mod gathering;
mod meter;
mod sampling;
mod series;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use quick_cache::sync::Cache;
use tidegate_core::{Campaign, CampaignId, Moment};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::figures::{Expiring, Light, LiveFigures, Pace, Quantiles, Totals};
use self::gathering::Shown;
pub use self::meter::Attempted;
use self::meter::Meter;
pub use self::series::Sample;
use self::series::Series;
use super::App;
use super::book::MOST_IN_ORDER;

/// Closed campaigns that can still be looked at.
const MOST_CLOSED: usize = 50;
/// Campaigns whose figures are at hand for whoever asks next.
const MOST_SHOWN: usize = 2 * (MOST_IN_ORDER + MOST_CLOSED);
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// So long before its start a campaign is counted and sampled: a week of waiting would leave few points for the sale itself.
const LEAD: Duration = Duration::from_secs(60);
/// Streams of figures at a time.
const MOST_STREAMS: usize = 64;

/// What is kept of every campaign.
#[derive(Debug)]
pub(super) struct Live {
    /// Read by every attempt, changed by few: readers write nothing that another core has to fetch.
    campaigns: ArcSwap<HashMap<CampaignId, Arc<Watched>>>,
    /// What was last shown of each, whether or not something is kept of it.
    shown: Cache<CampaignId, Arc<tokio::sync::Mutex<Shown>>>,
    /// What comes back soon, by campaign; `None` while that is not known.
    expiring: RwLock<Option<HashMap<CampaignId, Expiring>>>,
    streams: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            campaigns: ArcSwap::default(),
            shown: Cache::new(MOST_SHOWN),
            expiring: RwLock::default(),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }
}

#[derive(Debug)]
struct Watched {
    meter: Meter,
    past: parking_lot::Mutex<Past>,
}

#[derive(Debug)]
struct Past {
    series: Series,
    sampled: Option<Instant>,
    closed: Option<Moment>,
}

impl Watched {
    fn new() -> Arc<Self> {
        let past = Past { series: Series::new(SAMPLE_EVERY), sampled: None, closed: None };
        Arc::new(Self { meter: Meter::default(), past: parking_lot::Mutex::new(past) })
    }
}

impl Live {
    fn find(&self, id: CampaignId) -> Option<Arc<Watched>> {
        self.campaigns.load().get(&id).cloned()
    }

    /// What is kept of a campaign from now on; `None` where there are too many. The sampler makes room each second.
    fn take_up(&self, id: CampaignId) -> Option<Arc<Watched>> {
        if self.campaigns.load().len() < MOST_IN_ORDER + MOST_CLOSED {
            let watched = Watched::new();
            self.change(|campaigns| {
                campaigns.entry(id).or_insert_with(|| watched.clone());
            });
        }
        self.find(id)
    }

    /// `change` may run more than once.
    fn change(&self, change: impl Fn(&mut HashMap<CampaignId, Arc<Watched>>)) {
        self.campaigns.rcu(|campaigns| {
            let mut campaigns = HashMap::clone(campaigns);
            change(&mut campaigns);
            campaigns
        });
    }

    fn shown(&self, id: CampaignId) -> Arc<tokio::sync::Mutex<Shown>> {
        let made = self.shown.get_or_insert_with(&id, || Ok::<_, Infallible>(Arc::default()));
        made.unwrap_or_else(|never| match never {})
    }

    fn all(&self) -> Vec<(CampaignId, Arc<Watched>)> {
        self.campaigns.load().iter().map(|(id, watched)| (*id, watched.clone())).collect()
    }

    /// Gives up those that run and are not among the first any more.
    fn make_room(&self, first: &[Arc<Campaign>], runs: impl Fn(CampaignId) -> bool) {
        let first: HashSet<CampaignId> = first.iter().map(|campaign| campaign.id).collect();
        let known = self.campaigns.load().keys().copied().collect::<Vec<_>>();
        let given_up: Vec<_> = known.into_iter().filter(|id| !first.contains(id) && runs(*id)).collect();
        if !given_up.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !given_up.contains(id)));
        }
    }

    /// Keeps the closed ones that were closed last.
    fn forget_oldest(&self) {
        let kept = self.all();
        let closed = kept.iter().filter_map(|(id, watched)| Some((watched.past.lock().closed?, *id)));
        let mut closed: Vec<_> = closed.collect();
        closed.sort_unstable();
        let oldest = &closed[..closed.len().saturating_sub(MOST_CLOSED)];
        if !oldest.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !oldest.iter().any(|(_, old)| old == id)));
        }
    }
}

impl App {
    /// Counts at a campaign's meter. Only those that run, or are about to, get one: what anybody can name takes no memory.
    fn count(&self, id: CampaignId, count: impl Fn(&Meter)) {
        if let Some(watched) = self.live.campaigns.load().get(&id) {
            return count(&watched.meter);
        }
        if self.book.find(id).is_some_and(|campaign| self.is_near(&campaign))
            && let Some(watched) = self.live.take_up(id)
        {
            count(&watched.meter);
        }
    }

    /// Whether a campaign has started or is about to.
    fn is_near(&self, campaign: &Campaign) -> bool {
        self.now() + LEAD >= campaign.window.starts_at
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
}
