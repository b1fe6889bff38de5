//! Audits: the ledger against its own promises, and the gate against the ledger.

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_admission::{Admission, AdmissionState};
use tidegate_core::{Campaign, CampaignId, Rejection};
use tidegate_ledger::{Audit, LedgerError};

use crate::Refusal;
use crate::campaigns::Counters;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::gate_sync::GateSync;
use crate::live::BalanceState;
use crate::stock_counts::StockCounts;
use crate::tables::AuditTables;

/// How gate and ledger differ. `units` is zero when nothing is in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    /// Units free at the gate; `None` if the gate has no pool for the campaign.
    pub gate_free: Option<u32>,
    /// Units free according to the ledger.
    pub ledger_free: u32,
    /// Units accepted but not recorded.
    pub queued: u32,
    /// Surplus of units at the gate; negative for a deficit.
    pub units: i64,
    /// The gate had not applied the whole stock log, or claims arrived during the comparison: compare again.
    pub in_progress: bool,
}

#[derive(Clone, Debug)]
pub struct SaleAudit {
    pub ledger: Audit,
    pub drift: Drift,
}

/// A running campaign's units by where they are, and how gate and ledger compare, by their counts alone.
#[derive(Clone, Debug)]
pub struct UnitBalance {
    pub campaign: Arc<Campaign>,
    pub counters: Counters,
    pub drift: Drift,
}

impl UnitBalance {
    /// Sum of all counters; equals the stock if every unit is accounted for.
    pub fn sum(&self) -> u64 {
        let Counters { tally, available, queued } = self.counters;
        [tally.paid, tally.awaiting_payment, queued, available].into_iter().map(u64::from).sum()
    }

    pub fn light(&self) -> BalanceState {
        let holds = self.sum() == u64::from(self.counters.tally.stock) && self.drift.units == 0;
        match (holds, self.drift.in_progress) {
            (true, _) => BalanceState::Ok,
            (false, true) => BalanceState::Moving,
            (false, false) => BalanceState::Broken,
        }
    }
}

impl SaleAudit {
    pub fn is_ok(&self) -> bool {
        self.ledger.violations.is_empty() && (self.drift.units == 0 || self.drift.in_progress)
    }
}

#[derive(Debug)]
pub struct Auditing {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: AuditTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) gate: Arc<GateSync>,
    pub(crate) counts: Arc<StockCounts>,
    /// By how many units gate and ledger differed at the last reconciliation.
    pub(crate) last_drift: parking_lot::Mutex<HashMap<CampaignId, i64>>,
}

impl Auditing {
    pub async fn audit(&self, id: CampaignId) -> Result<SaleAudit, Refusal> {
        let before = self.admission.state(id).await?;
        let ledger = self.ledger.campaigns.audit(id).await?.ok_or(Rejection::NotFound)?;
        let after = self.admission.state(id).await?;
        let tally = ledger.tally;
        let ledger_free = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid);
        let (queued, gate_free) = (after.queued, after.figures.map(|figures| figures.free));
        let units = difference(&after, ledger_free);
        let in_progress = before != after
            || ledger.recorded < after.end
            || after.figures.is_some_and(|figures| figures.applied != ledger.log_end);
        Ok(SaleAudit { ledger, drift: Drift { gate_free, ledger_free, queued, units, in_progress } })
    }

    /// The books of the running campaigns, in the order of the overview.
    pub async fn books(&self) -> Result<Vec<UnitBalance>, Refusal> {
        let running = self.directory.running.for_overview(self.context.now());
        let mut books = Vec::with_capacity(running.len());
        for campaign in running {
            let counters = self.counts.counters(&campaign).await?;
            books.push(UnitBalance { drift: self.drift(campaign.id).await?, counters, campaign });
        }
        Ok(books)
    }

    async fn drift(&self, id: CampaignId) -> Result<Drift, Refusal> {
        let before = self.admission.state(id).await?;
        let tally = self.ledger.campaigns.tally(id).await?.unwrap_or_default();
        let behind = match before.figures {
            Some(figures) => !self.ledger.stock.log(id, figures.applied, 1).await?.is_empty(),
            None => false,
        };
        let after = self.admission.state(id).await?;
        let ledger_free = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid);
        Ok(Drift {
            gate_free: after.figures.map(|figures| figures.free),
            ledger_free,
            queued: after.queued,
            units: difference(&after, ledger_free),
            in_progress: before != after || behind || after.queued > 0,
        })
    }

    /// Puts units back on sale that neither gate nor ledger has.
    pub async fn return_missing_units(&self) -> Result<(), LedgerError> {
        self.gate.return_missing_units().await
    }

    /// Compares gate and ledger for every running campaign, by their counts alone. A difference that is found twice
    /// with nothing in progress is logged, and a cluster's gate is rebuilt.
    pub async fn reconcile(&self) -> Result<(), LedgerError> {
        let (mut total, mut differing) = (0, HashMap::new());
        for campaign in self.directory.running.all() {
            let Some(units) = self.settled_drift(campaign.id).await?.filter(|units| *units != 0) else {
                continue;
            };
            total += units.abs();
            differing.insert(campaign.id, units);
            if self.last_drift.lock().get(&campaign.id) == Some(&units) {
                let id = self.context.print_campaign(&campaign);
                tracing::error!(id, units, "gate and ledger differ: the gate has too many units, or too few");
                self.gate.mark_suspect(&campaign);
            }
        }
        *self.last_drift.lock() = differing;
        self.context.metrics.set_drift(total);
        Ok(())
    }

    /// Whether gate and ledger differed at the last reconciliation.
    pub(crate) fn differs(&self, id: CampaignId) -> bool {
        self.last_drift.lock().contains_key(&id)
    }

    /// Surplus or deficit of units at the gate; `None` while something is in progress.
    pub(crate) async fn settled_drift(&self, id: CampaignId) -> Result<Option<i64>, LedgerError> {
        let Ok(before) = self.admission.state(id).await else { return Ok(None) };
        let Some(figures) = before.figures.filter(|_| before.queued == 0) else { return Ok(None) };
        let behind = !self.ledger.stock.log(id, figures.applied, 1).await?.is_empty();
        let tally = self.ledger.campaigns.tally(id).await?.unwrap_or_default();
        if behind || self.admission.state(id).await.ok() != Some(before) {
            return Ok(None);
        }
        let free = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid);
        Ok(Some(difference(&before, free)))
    }
}

/// Units at the gate (free, in transit or queued) minus the units free according to the ledger.
fn difference(standing: &AdmissionState, ledger_free: u32) -> i64 {
    let Some(figures) = standing.figures else { return 0 };
    let there = i64::from(figures.free) + i64::from(figures.in_transit) + i64::from(standing.queued);
    there - i64::from(ledger_free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ledger::Tally;
    use tidegate_testing::conformance;

    fn light(available: u32, units: i64, in_progress: bool) -> BalanceState {
        let tally = Tally { stock: 10, awaiting_payment: 3, paid: 2, returned: 0 };
        let counters = Counters { tally, available, queued: 1 };
        let drift = Drift { units, in_progress, ..Drift::default() };
        UnitBalance { campaign: Arc::new(conformance::campaign(10, 1)), counters, drift }.light()
    }

    #[test]
    fn books_are_broken_only_where_nothing_is_on_its_way() {
        assert_eq!(light(4, 0, false), BalanceState::Ok);
        assert_eq!(light(4, 0, true), BalanceState::Ok);
        assert_eq!(light(5, 0, true), BalanceState::Moving);
        assert_eq!(light(5, 0, false), BalanceState::Broken);
        assert_eq!(light(4, -1, false), BalanceState::Broken);
    }
}
