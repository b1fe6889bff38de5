//! The running campaigns, in memory, for the hot path. The ledger has the others.

use std::cmp::Reverse;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use tidegate_core::{Campaign, CampaignId, Moment};

/// Maximum number of running campaigns that are shown together and whose figures are kept.
pub(crate) const MAX_IN_OVERVIEW: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct RunningCampaigns {
    /// Read by every request and rarely changed: readers write to no shared cache line.
    running: ArcSwap<HashMap<CampaignId, Arc<Campaign>>>,
}

impl RunningCampaigns {
    /// Inserts or updates the campaign; removes it if it no longer runs.
    pub(crate) fn insert(&self, campaign: Campaign) {
        let campaign = Arc::new(campaign);
        self.change(|running| {
            if campaign.runs() {
                running.insert(campaign.id, campaign.clone());
            } else {
                running.remove(&campaign.id);
            }
        });
    }

    pub(crate) fn remove(&self, id: CampaignId) {
        self.change(|running| {
            running.remove(&id);
        });
    }

    /// `change` may run more than once.
    fn change(&self, change: impl Fn(&mut HashMap<CampaignId, Arc<Campaign>>)) {
        self.running.rcu(|running| {
            let mut running = HashMap::clone(running);
            change(&mut running);
            running
        });
    }

    pub(crate) fn find(&self, id: CampaignId) -> Option<Arc<Campaign>> {
        self.running.load().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Campaign>> {
        self.running.load().values().cloned().collect()
    }

    /// The first `MAX_IN_OVERVIEW` campaigns: started ones, latest start first; then upcoming ones, earliest start
    /// first.
    pub(crate) fn for_overview(&self, now: Moment) -> Vec<Arc<Campaign>> {
        let mut all = self.all();
        all.sort_by_key(|campaign| {
            let starts = campaign.window.starts_at.millis();
            let is_coming = campaign.window.starts_at > now;
            (is_coming, if is_coming { starts } else { -starts }, Reverse(campaign.id))
        });
        all.truncate(MAX_IN_OVERVIEW);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::{CampaignState, Window};
    use tidegate_testing::conformance;
    use tidegate_testing::conformance::NOW;

    use super::*;

    #[test]
    fn what_runs_comes_before_what_will_and_a_hundred_are_enough() {
        let running = RunningCampaigns::default();
        let minute = |minutes: u64| Duration::from_secs(60 * minutes);
        let insert = |id: u64, starts_at: Moment| {
            running.insert(Campaign {
                id: CampaignId::from_raw(id),
                state: CampaignState::Live,
                window: Window { starts_at, ends_at: starts_at + minute(600) },
                ..conformance::campaign(10, 1)
            });
        };
        insert(1, NOW - minute(9));
        insert(2, NOW + minute(9));
        insert(3, NOW);
        insert(4, NOW + minute(1));
        let order = |running: &RunningCampaigns| {
            running.for_overview(NOW).iter().map(|one| one.id.raw()).collect::<Vec<_>>()
        };
        assert_eq!(order(&running), [3, 1, 4, 2]);
        (5..205).for_each(|id| insert(id, NOW + minute(id)));
        let shown = order(&running);
        assert_eq!((shown.len(), &shown[..3]), (MAX_IN_OVERVIEW, &[3, 1, 4][..]));
    }
}
