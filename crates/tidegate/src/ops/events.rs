//! What happened, by whom, when: the outbox as the operators' audit log.

use tidegate_core::CampaignId;
use tidegate_store::ledger::Page;
use tidegate_store::ledger::sql::Event;

use super::{App, Refusal};

impl App {
    pub async fn events(&self, campaign: Option<CampaignId>, page: Page) -> Result<Vec<Event>, Refusal> {
        Ok(self.ledger.events(campaign, page).await?)
    }
}
