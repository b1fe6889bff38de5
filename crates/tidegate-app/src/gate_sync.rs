//! Keeps the gate and the running campaigns in step with the ledger, which is the authority.
//!
//! Invariants: a campaign is among the running campaigns only after its gate state was set to the ledger's.
//! Messages to other nodes may be lost: they only speed up what each node's poll, twice a second, finds.

mod missing;
mod repair;

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::gate::GateError;
use tidegate_admission::{Admission, News};
use tidegate_core::pool::GateState;
use tidegate_core::{Campaign, CampaignId, Moment, Order, Rejection, Seed};
use tidegate_ledger::LedgerError;

pub(crate) use self::repair::Repair;
use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::order_watchers::Watchers;
use crate::recording::wait_drained;
use crate::tables::GateTables;

/// Stock log entries applied at once.
const FOLLOW_BATCH: u32 = 1000;
/// Pause between attempts to install a pool at startup.
const GATE_RETRY: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(crate) struct GateSync {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: GateTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) watchers: Arc<Watchers>,
    /// Cluster only: rebuilds a gate that Redis has lost. The embedded gate lives as long as the process.
    pub(crate) repair: Option<Repair>,
}

impl GateSync {
    /// Builds the gate from the ledger before the first claim.
    pub(crate) async fn start(&self) -> Result<(), LedgerError> {
        if self.repair.is_some() {
            // Redis keeps its pools while nodes come and go; only what is missing is rebuilt.
            return self.sync_all().await;
        }
        for campaign in self.ledger.campaigns.running().await? {
            while let Err(error) = self.reinstall(&campaign).await? {
                tracing::warn!(%error, "could not rebuild the gate; will retry");
                tokio::time::sleep(GATE_RETRY).await;
            }
        }
        Ok(())
    }

    /// Begins a new epoch: passes of the previous process are invalid, and its claims are all recorded by now.
    async fn reinstall(&self, campaign: &Campaign) -> Result<Result<(), GateError>, LedgerError> {
        let seed = self.ledger.stock.reseed(campaign.id, self.context.now()).await?;
        let Some(seed) = seed else { return Ok(Ok(())) };
        let epoch = seed.epoch;
        let installed = self.admission.install(campaign.id, seed).await;
        if installed.is_ok() {
            self.directory.running.insert(Campaign { epoch, ..campaign.clone() });
        }
        Ok(installed)
    }

    /// Applies the stock log entries that the gate does not have. A gate that does not answer gets them later.
    pub(crate) async fn apply_stock_log(&self, campaign: CampaignId) -> Result<(), LedgerError> {
        while let Some(figures) = answered(self.admission.figures(campaign).await).flatten() {
            let entries = self.ledger.stock.log(campaign, figures.applied, FOLLOW_BATCH).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let applied = answered(self.admission.follow(campaign, &entries).await);
            if applied.is_none_or(|applied| applied == Some(figures.applied)) {
                // Another node applied them, or the pool was replaced. The next round finds anything that is missing.
                return Ok(());
            }
        }
        Ok(())
    }

    /// After a commit that changed a campaign's stock: applies it to the gate and notifies the other nodes. The change
    /// stands whatever fails here: `sync_all` applies what the gate has missed.
    pub(crate) async fn stock_changed(&self, campaign: CampaignId) {
        if let Err(error) = self.apply_stock_log(campaign).await {
            tracing::warn!(%error, "the gate does not have a change of the stock yet; will retry");
        }
        self.admission.publish(News::Campaign(campaign)).await;
    }

    /// After a commit that returned an order's units: puts them on sale at the gate and wakes the order's watchers.
    pub(crate) async fn units_returned(&self, order: &Order) {
        self.stock_changed(order.campaign).await;
        self.watchers.changed(order.id);
    }

    /// Sets the campaign's gate state and adds it to the running campaigns. If the gate does not answer, the
    /// campaign is removed from them until `sync_all` enters it again.
    pub(crate) async fn enter(&self, campaign: Campaign, as_of: Moment) {
        match self.admission.set_gate_state(campaign.id, campaign.gate_state(), as_of).await {
            Ok(()) => self.directory.running.insert(campaign),
            Err(error) => {
                let id = self.context.print_campaign(&campaign);
                tracing::warn!(id, %error, "a campaign's gate state could not be set yet");
                self.directory.running.remove(campaign.id);
            }
        }
    }

    /// Frees what is kept in memory for a campaign that no longer runs.
    pub(crate) fn release(&self, id: CampaignId) {
        self.directory.running.remove(id);
        self.admission.remove(id);
    }

    /// Installs the pool behind a closed gate, in a new epoch: claims of earlier epochs are recorded by then.
    pub(crate) async fn prewarm(&self, id: CampaignId, now: Moment) -> Result<(), Refusal> {
        wait_drained(&self.admission, id).await?;
        let seed = self.ledger.stock.reseed(id, now).await?.ok_or(Rejection::NotFound)?;
        Ok(self.admission.install(id, Seed { gate_state: GateState::Closed, ..seed }).await?)
    }

    /// After a step of a campaign's lifecycle: updates the recorders and notifies the other nodes. The step stands
    /// whatever fails here.
    pub(crate) async fn after_step(&self, id: CampaignId) {
        if let Some(repair) = &self.repair
            // So that the next orders need not wait for the next round of `sync_all`.
            && let Err(error) = self.keep_recorders(repair).await
        {
            tracing::warn!(%error, "the recorders could not be updated yet; will retry");
        }
        self.admission.publish(News::Campaign(id)).await;
    }

    /// Brings gate and running campaigns up to date with the ledger: completes interrupted steps and applies the
    /// stock log of every running campaign.
    pub(crate) async fn sync_all(&self) -> Result<(), LedgerError> {
        let running = match &self.repair {
            Some(repair) => self.keep_recorders(repair).await?,
            None => self.ledger.campaigns.running().await?,
        };
        for campaign in running {
            self.sync_campaign(&campaign).await?;
        }
        Ok(())
    }

    /// Like `sync_all`, for one campaign as read from the ledger.
    pub(crate) async fn sync_campaign(&self, campaign: &Campaign) -> Result<(), LedgerError> {
        if let Some(repair) = &self.repair
            && !self.repair_pool(repair, campaign).await?
        {
            return Ok(());
        }
        if self.directory.running.find(campaign.id).is_none_or(|entered| *entered != *campaign) {
            self.enter_current(campaign.id).await?;
        }
        self.apply_stock_log(campaign.id).await
    }

    async fn enter_current(&self, id: CampaignId) -> Result<(), LedgerError> {
        let _one_at_a_time = self.changes.lock().await;
        if let Some(campaign) = self.ledger.campaigns.get(id).await? {
            let as_of = campaign.updated_at;
            self.enter(campaign, as_of).await;
        }
        Ok(())
    }

    /// Handles another node's message that the campaign has changed.
    pub(crate) async fn on_campaign_message(&self, id: CampaignId) -> Result<(), LedgerError> {
        match self.ledger.campaigns.get(id).await? {
            Some(campaign) if campaign.runs() => self.sync_campaign(&campaign).await,
            _ => {
                self.release(id);
                Ok(())
            }
        }
    }

    /// Marks the pool as wrong. A cluster then rebuilds it; the embedded gate cannot be rebuilt while it sells.
    pub(crate) fn mark_suspect(&self, campaign: &Campaign) {
        if let Some(repair) = &self.repair {
            repair.mark_suspect(campaign);
        }
    }
}

/// The gate's answer. A failure is logged, and the next round retries.
fn answered<T>(answer: Result<T, GateError>) -> Option<T> {
    answer.inspect_err(|error| tracing::warn!(%error, "the gate did not answer; will retry")).ok()
}
