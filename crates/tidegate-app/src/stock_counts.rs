//! A campaign's units by where they are: free at the gate, queued in the intake, held or paid in the ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_admission::Admission;
use tidegate_core::{Campaign, CampaignId};
use tidegate_ledger::Tally;

use crate::Refusal;
use crate::campaigns::Counters;
use crate::tables::DirectoryTables;

/// How old a cached tally may be.
const FRESH_FOR: Duration = Duration::from_secs(1);
const CACHED_TALLIES: usize = 1000;

#[derive(Debug)]
pub(crate) struct StockCounts {
    admission: Arc<Admission>,
    ledger: DirectoryTables,
    tallies: Cache<CampaignId, (Instant, Tally)>,
}

impl StockCounts {
    pub(crate) fn new(admission: Arc<Admission>, ledger: DirectoryTables) -> Self {
        Self { admission, ledger, tallies: Cache::new(CACHED_TALLIES) }
    }

    pub(crate) async fn counters(&self, campaign: &Campaign) -> Result<Counters, Refusal> {
        let tally = self.ledger.campaigns.tally(campaign.id).await?.unwrap_or_default();
        Ok(self.count(campaign, tally).await)
    }

    /// Like `counters`, with a tally that has already been read.
    pub(crate) async fn count(&self, campaign: &Campaign, tally: Tally) -> Counters {
        let queued = self.admission.unrecorded_units(campaign).await;
        let unheld = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid + queued);
        let available = self.admission.units_left(campaign.id).unwrap_or(unheld);
        Counters { tally, available, queued }
    }

    /// Units that buyers can get. Reads the ledger only if the gate does not know the pool.
    pub(crate) async fn available(&self, campaign: &Campaign) -> Result<u32, Refusal> {
        match self.admission.units_left(campaign.id) {
            Some(left) => Ok(left),
            None => Ok(self.counters(campaign).await?.available),
        }
    }

    /// A campaign's tally, at most a second old, so that many visitors cost one query.
    pub(crate) async fn recent_tally(&self, id: CampaignId) -> Result<Tally, Refusal> {
        if let Some((at, tally)) = self.tallies.get(&id)
            && at.elapsed() < FRESH_FOR
        {
            return Ok(tally);
        }
        let tally = self.ledger.campaigns.tally(id).await?.unwrap_or_default();
        self.tallies.insert(id, (Instant::now(), tally));
        Ok(tally)
    }
}
