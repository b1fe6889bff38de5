//! Finds campaigns: running ones in memory, all others in the ledger.

use std::sync::Arc;

use tidegate_core::{Campaign, CampaignId, Rejection};

use crate::Refusal;
use crate::running_campaigns::RunningCampaigns;
use crate::tables::DirectoryTables;

#[derive(Debug)]
pub(crate) struct CampaignDirectory {
    pub(crate) running: RunningCampaigns,
    ledger: DirectoryTables,
}

impl CampaignDirectory {
    pub(crate) fn new(ledger: DirectoryTables) -> Self {
        Self { running: RunningCampaigns::default(), ledger }
    }

    pub(crate) async fn campaign(&self, id: CampaignId) -> Result<Arc<Campaign>, Refusal> {
        match self.running.find(id) {
            Some(campaign) => Ok(campaign),
            None => Ok(Arc::new(self.ledger.campaigns.get(id).await?.ok_or(Rejection::NotFound)?)),
        }
    }
}
