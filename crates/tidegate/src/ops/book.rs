//! The book: the running campaigns, in memory, for the hot path. The ledger has the others.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use tidegate_core::{Campaign, CampaignId};

#[derive(Debug, Default)]
pub(super) struct Book {
    running: RwLock<HashMap<CampaignId, Arc<Campaign>>>,
}

impl Book {
    /// Takes in the campaign as it is now; one that does not run any more is struck out.
    pub(super) fn enter(&self, campaign: Campaign) {
        let mut running = self.running.write();
        if campaign.runs() {
            running.insert(campaign.id, Arc::new(campaign));
        } else {
            running.remove(&campaign.id);
        }
    }

    /// Forgets the campaign until it is found again.
    pub(super) fn strike(&self, id: CampaignId) {
        self.running.write().remove(&id);
    }

    pub(super) fn find(&self, id: CampaignId) -> Option<Arc<Campaign>> {
        self.running.read().get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Campaign>> {
        self.running.read().values().cloned().collect()
    }
}
