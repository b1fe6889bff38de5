//! Units that nobody has: neither held in the ledger, nor free at the gate, nor in a claim on its way.
//!
//! A call or an entry of a stream that was lost can leave such units behind. They are counted while the sale goes on: a
//! count may find fewer than there are, never more, and then the slots are compared. What is still missing a moment
//! later goes back on sale through the stock log.

use std::time::Duration;

use tidegate_admission::cluster::Cluster;
use tidegate_core::Campaign;
use tidegate_ledger::LedgerError;

use super::{GateSync, Repair};

/// Counts per round. A claim that is recorded during a count hides a missing unit.
const COUNTS: usize = 4;
/// A withdrawal takes units from the gate just before the ledger knows of it.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Where claims are recorded all the time, the slots of pools up to this size are compared one by one: that hides
/// nothing, and reads every held slot.
const MAX_COMPARED: u32 = 50_000;

impl GateSync {
    /// Counts the missing units of every running campaign, and puts those back on sale that are still missing a moment
    /// later. A cluster only: the embedded gate and its journal cannot lose one without the other.
    pub(crate) async fn return_missing_units(&self) -> Result<(), LedgerError> {
        let Some(repair) = &self.repair else { return Ok(()) };
        let mut total = 0;
        for campaign in self.directory.running.all() {
            let missing = self.missing_units(&repair.cluster, &campaign).await?;
            total += missing;
            if missing > 0 {
                tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                self.return_missing_slots(repair, &campaign).await?;
            }
        }
        self.context.metrics.set_missing_units(total);
        Ok(())
    }

    async fn missing_units(&self, cluster: &Cluster, campaign: &Campaign) -> Result<u64, LedgerError> {
        let (mut most, mut is_certain) = (0, false);
        for _ in 0..COUNTS {
            let before = self.ledger.campaigns.tally(campaign.id).await?;
            let Ok(Some(gate)) = cluster.count_units(campaign.id).await else { continue };
            // After the gate: see `count_units`.
            let ledger = self.ledger.stock.units(campaign.id, gate.applied).await?;
            let Some(ledger) = ledger.filter(|ledger| ledger.epoch == gate.epoch) else { continue };
            most = most.max(u64::from(ledger.stock).saturating_sub(ledger.accounted + gate.units));
            // Nothing was recorded or returned meanwhile: the count is exact.
            is_certain = before == self.ledger.campaigns.tally(campaign.id).await?;
            if is_certain || most > 0 {
                break;
            }
        }
        if is_certain || most > 0 || campaign.top > MAX_COMPARED || campaign.draw().is_some() {
            return Ok(most);
        }
        let Ok(Some(unsold)) = cluster.unsold_slots(campaign.id).await else { return Ok(0) };
        let stock = &self.ledger.stock;
        let missing = stock.missing_slots(campaign.id, unsold.epoch, unsold.applied, unsold.slots).await?;
        Ok(missing.len() as u64)
    }

    async fn return_missing_slots(&self, repair: &Repair, campaign: &Campaign) -> Result<(), LedgerError> {
        if campaign.draw().is_some() {
            if self.missing_units(&repair.cluster, campaign).await? > 0 {
                // A seat may have taken a prize along: only a rebuilt gate is certain to have it.
                repair.mark_suspect(campaign);
            }
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
