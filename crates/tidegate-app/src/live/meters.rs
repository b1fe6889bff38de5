//! Counters on the hot path: one meter for each campaign that runs or is about to start.
//!
//! Invariants: counting costs one lock-free lookup and a few relaxed additions; the number of meters is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use tidegate_core::{Campaign, CampaignId, Moment};

use super::meter::{Attempted, Meter};
use super::series::Series;
use super::{MAX_CLOSED, SAMPLE_EVERY};
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::running_campaigns::MAX_IN_OVERVIEW;

/// Counting and sampling begin this long before the start: a week of waiting would leave few points for the
/// campaign itself.
const LEAD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Meters {
    context: Arc<Context>,
    directory: Arc<CampaignDirectory>,
    /// Read by every attempt and rarely changed: readers write to no shared cache line.
    campaigns: ArcSwap<HashMap<CampaignId, Arc<CampaignMeter>>>,
}

/// A campaign's meter and its history.
#[derive(Debug)]
pub(super) struct CampaignMeter {
    pub(super) meter: Meter,
    pub(super) history: parking_lot::Mutex<History>,
}

#[derive(Debug)]
pub(super) struct History {
    pub(super) series: Series,
    pub(super) sampled: Option<Instant>,
    pub(super) closed: Option<Moment>,
}

impl CampaignMeter {
    pub(super) fn new() -> Arc<Self> {
        let history = History { series: Series::new(SAMPLE_EVERY), sampled: None, closed: None };
        Arc::new(Self { meter: Meter::default(), history: parking_lot::Mutex::new(history) })
    }
}

impl Meters {
    pub(crate) fn new(context: Arc<Context>, directory: Arc<CampaignDirectory>) -> Self {
        Self { context, directory, campaigns: ArcSwap::default() }
    }

    pub(super) fn find(&self, id: CampaignId) -> Option<Arc<CampaignMeter>> {
        self.campaigns.load().get(&id).cloned()
    }

    /// The campaign's meter, created if missing; `None` if there are too many. The sampler makes room every second.
    pub(super) fn get_or_create(&self, id: CampaignId) -> Option<Arc<CampaignMeter>> {
        if self.campaigns.load().len() < MAX_IN_OVERVIEW + MAX_CLOSED {
            let watched = CampaignMeter::new();
            self.change(|campaigns| {
                campaigns.entry(id).or_insert_with(|| watched.clone());
            });
        }
        self.find(id)
    }

    /// `change` may run more than once.
    fn change(&self, change: impl Fn(&mut HashMap<CampaignId, Arc<CampaignMeter>>)) {
        self.campaigns.rcu(|campaigns| {
            let mut campaigns = HashMap::clone(campaigns);
            change(&mut campaigns);
            campaigns
        });
    }

    pub(super) fn all(&self) -> Vec<(CampaignId, Arc<CampaignMeter>)> {
        self.campaigns.load().iter().map(|(id, watched)| (*id, watched.clone())).collect()
    }

    /// Drops the meters of running campaigns that are not in `first`.
    pub(super) fn make_room(&self, first: &[Arc<Campaign>], runs: impl Fn(CampaignId) -> bool) {
        let first: HashSet<CampaignId> = first.iter().map(|campaign| campaign.id).collect();
        let known = self.campaigns.load().keys().copied().collect::<Vec<_>>();
        let given_up: Vec<_> = known.into_iter().filter(|id| !first.contains(id) && runs(*id)).collect();
        if !given_up.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !given_up.contains(id)));
        }
    }

    /// Of the closed campaigns, keeps the `MAX_CLOSED` that closed last.
    pub(super) fn forget_oldest(&self) {
        let kept = self.all();
        let closed = kept.iter().filter_map(|(id, watched)| Some((watched.history.lock().closed?, *id)));
        let mut closed: Vec<_> = closed.collect();
        closed.sort_unstable();
        let oldest = &closed[..closed.len().saturating_sub(MAX_CLOSED)];
        if !oldest.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !oldest.iter().any(|(_, old)| old == id)));
        }
    }

    /// Counts at a campaign's meter. Only campaigns that run or are about to start get one, so that ids invented by
    /// clients take no memory.
    fn count(&self, id: CampaignId, count: impl Fn(&Meter)) {
        if let Some(watched) = self.campaigns.load().get(&id) {
            return count(&watched.meter);
        }
        if self.directory.running.find(id).is_some_and(|campaign| self.is_near(&campaign))
            && let Some(watched) = self.get_or_create(id)
        {
            count(&watched.meter);
        }
    }

    /// Whether a campaign has started or is about to.
    pub(super) fn is_near(&self, campaign: &Campaign) -> bool {
        self.context.now() + LEAD >= campaign.window.starts_at
    }

    /// Counts a visit to the campaign's page.
    pub fn visited(&self, id: CampaignId) {
        self.count(id, Meter::visited);
    }

    /// Counts an attempt to order or to play.
    pub fn attempted(&self, id: CampaignId, outcome: Attempted, took: Duration) {
        self.count(id, |meter| meter.attempted(outcome, took));
    }

    pub(crate) fn pass_issued(&self, id: CampaignId) {
        self.count(id, Meter::passed);
    }

    pub(crate) fn place_taken(&self, id: CampaignId) {
        self.count(id, Meter::joined);
    }

    pub(crate) fn order_paid(&self, id: CampaignId) {
        self.count(id, Meter::paid);
    }
}
