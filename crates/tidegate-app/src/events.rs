//! The event log: what happened, by whom and when. It is the ledger's outbox, read as the operators' audit log.

use tidegate_core::CampaignId;
use tidegate_ledger::{Event, Page};

use crate::Refusal;
use crate::tables::EventTables;

#[derive(Debug)]
pub struct EventLog {
    pub(crate) ledger: EventTables,
}

impl EventLog {
    /// Newest first; of one campaign, or of all.
    pub async fn list(&self, campaign: Option<CampaignId>, page: Page) -> Result<Vec<Event>, Refusal> {
        Ok(self.ledger.events.list(campaign, page).await?)
    }
}
