//! Units that nobody has: neither held in the ledger, nor free at the gate, nor in a claim on its way.
//!
//! A call or an entry of a stream that was lost can leave such units behind. They are counted while the sale goes on:
//! a count may find fewer than there are, never more. What two rounds find goes back on sale through the stock log.

use tidegate_admission::cluster::Cluster;
use tidegate_core::Campaign;
use tidegate_ledger::LedgerError;

use super::{GateSync, Repair};

/// Counts per round. A claim that is recorded during a count hides a missing unit; hardly ever from all of them.
const COUNTS: usize = 8;

impl GateSync {
    /// Counts the missing units of every running campaign, and puts those back on sale that the last round has found,
    /// too. A cluster only: the embedded gate and its journal cannot lose one without the other.
    pub(crate) async fn return_missing_units(&self) -> Result<(), LedgerError> {
        let Some(repair) = &self.repair else { return Ok(()) };
        let mut total = 0;
        for campaign in self.directory.running.all() {
            let missing = self.missing_units(&repair.cluster, &campaign).await?;
            let before = repair.missing.lock().remove(&campaign.id).unwrap_or(0);
            total += missing;
            if missing == 0 {
                continue;
            }
            if before > 0 {
                self.return_missing_slots(repair, &campaign).await?;
            } else {
                repair.missing.lock().insert(campaign.id, missing);
            }
        }
        self.context.metrics.set_missing_units(total);
        Ok(())
    }

    async fn missing_units(&self, cluster: &Cluster, campaign: &Campaign) -> Result<u64, LedgerError> {
        let (mut most, mut last) = (0, None);
        for _ in 0..COUNTS {
            let Ok(Some(gate)) = cluster.count_units(campaign.id).await else { continue };
            // After the gate: see `count_units`.
            let ledger = self.ledger.stock.units(campaign.id, gate.applied).await?;
            let Some(ledger) = ledger.filter(|ledger| ledger.epoch == gate.epoch) else { continue };
            let missing = u64::from(ledger.stock).saturating_sub(ledger.accounted + gate.units);
            most = most.max(missing);
            if last.replace(missing) == Some(missing) {
                break;
            }
        }
        Ok(most)
    }

    async fn return_missing_slots(&self, repair: &Repair, campaign: &Campaign) -> Result<(), LedgerError> {
        if campaign.draw().is_some() {
            // A seat may have taken a prize along: only a rebuilt gate is certain to have it.
            repair.mark_suspect(campaign);
            return Ok(());
        }
        let Ok(Some(unsold)) = repair.cluster.unsold_slots(campaign.id).await else { return Ok(()) };
        let now = self.context.now();
        let stock = &self.ledger.stock;
        let found =
            stock.return_missing(campaign.id, unsold.epoch, unsold.applied, unsold.slots, now).await?;
        if !found.is_empty() {
            let (id, slots) = (self.context.print_campaign(campaign), format!("{found:?}"));
            tracing::error!(id, slots, "units were neither held nor on sale; they are on sale again");
            self.stock_changed(campaign.id).await;
        }
        Ok(())
    }
}
