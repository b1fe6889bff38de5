//! Counting, where things happen: one meter for each campaign that runs or is about to.
//!
//! Invariants: counting takes a look-up without a lock and a few relaxed additions; the number of meters is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::{HashMap, HashSet};
use tidegate_core::{Campaign, CampaignId, Moment};

use super::meter::{Attempted, Meter};
use super::series::Series;
use super::{MOST_CLOSED, SAMPLE_EVERY};
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::running_campaigns::MOST_IN_ORDER;

/// A campaign is counted and sampled from this long before its start: a week of waiting would leave few points for the
/// campaign itself.
const LEAD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Meters {
    context: Arc<Context>,
    directory: Arc<CampaignDirectory>,
    /// Read by every attempt, changed by few: readers write nothing that another core has to fetch.
    campaigns: ArcSwap<HashMap<CampaignId, Arc<Watched>>>,
}

/// A campaign's meter and its past.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) meter: Meter,
    pub(super) past: parking_lot::Mutex<Past>,
}

#[derive(Debug)]
pub(super) struct Past {
    pub(super) series: Series,
    pub(super) sampled: Option<Instant>,
    pub(super) closed: Option<Moment>,
}

impl Watched {
    pub(super) fn new() -> Arc<Self> {
        let past = Past { series: Series::new(SAMPLE_EVERY), sampled: None, closed: None };
        Arc::new(Self { meter: Meter::default(), past: parking_lot::Mutex::new(past) })
    }
}

impl Meters {
    pub(crate) fn new(context: Arc<Context>, directory: Arc<CampaignDirectory>) -> Self {
        Self { context, directory, campaigns: ArcSwap::default() }
    }

    pub(super) fn find(&self, id: CampaignId) -> Option<Arc<Watched>> {
        self.campaigns.load().get(&id).cloned()
    }

    /// The campaign's meter, made if need be; `None` where there are too many. The sampler makes room each second.
    pub(super) fn take_up(&self, id: CampaignId) -> Option<Arc<Watched>> {
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

    pub(super) fn all(&self) -> Vec<(CampaignId, Arc<Watched>)> {
        self.campaigns.load().iter().map(|(id, watched)| (*id, watched.clone())).collect()
    }

    /// Drops campaigns that run and are not among the first any more.
    pub(super) fn make_room(&self, first: &[Arc<Campaign>], runs: impl Fn(CampaignId) -> bool) {
        let first: HashSet<CampaignId> = first.iter().map(|campaign| campaign.id).collect();
        let known = self.campaigns.load().keys().copied().collect::<Vec<_>>();
        let given_up: Vec<_> = known.into_iter().filter(|id| !first.contains(id) && runs(*id)).collect();
        if !given_up.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !given_up.contains(id)));
        }
    }

    /// Of the closed campaigns, keeps those that closed last.
    pub(super) fn forget_oldest(&self) {
        let kept = self.all();
        let closed = kept.iter().filter_map(|(id, watched)| Some((watched.past.lock().closed?, *id)));
        let mut closed: Vec<_> = closed.collect();
        closed.sort_unstable();
        let oldest = &closed[..closed.len().saturating_sub(MOST_CLOSED)];
        if !oldest.is_empty() {
            self.change(|campaigns| campaigns.retain(|id, _| !oldest.iter().any(|(_, old)| old == id)));
        }
    }

    /// Counts at a campaign's meter. Only campaigns that run or are about to get one: ids that clients make up take no
    /// memory.
    fn count(&self, id: CampaignId, count: impl Fn(&Meter)) {
        if let Some(watched) = self.campaigns.load().get(&id) {
            return count(&watched.meter);
        }
        if self.directory.running.find(id).is_some_and(|campaign| self.is_near(&campaign))
            && let Some(watched) = self.take_up(id)
        {
            count(&watched.meter);
        }
    }

    /// Whether a campaign has started or is about to.
    pub(super) fn is_near(&self, campaign: &Campaign) -> bool {
        self.context.now() + LEAD >= campaign.window.starts_at
    }

    /// A visitor has looked at the campaign's page.
    pub fn visited(&self, id: CampaignId) {
        self.count(id, Meter::visited);
    }

    /// An order or a play was attempted.
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
