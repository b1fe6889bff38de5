//! Rebuilds gates of a cluster after Redis has lost state.
//!
//! Invariant: a gate that knows less than the ledger takes no claims until one node has rebuilt it, in a new epoch.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_admission::gate::PoolFigures;
use tidegate_admission::{AdmissionState, Cluster, News};
use tidegate_core::pool::GateState;
use tidegate_core::{Campaign, CampaignId, Seed};
use tidegate_ledger::LedgerError;

use super::GateSync;
use crate::node::millis;

/// Lease on rebuilding a gate, renewed while the rebuild runs; once it ends, another node may try.
const RESEED_LEASE: Duration = Duration::from_secs(20);
/// Recorders run for a campaign at least this long after it has closed, and until its streams are empty.
const RECORD_AFTER_CLOSE: Duration = Duration::from_secs(60);
/// Closed campaigns whose streams are read at the same time.
const MAX_UNDRAINED: u32 = 100;
/// A node may set a gate state and die before the change is recorded. After this time the ledger's state is restored.
const RESTORE_STATE_AFTER: Duration = Duration::from_secs(10);

/// What a node needs to rebuild gates.
#[derive(Debug)]
pub(crate) struct Repair {
    pub(super) cluster: Cluster,
    /// This node's name, as holder of leases.
    node: String,
    /// Serialise `keep_recorders` and `repair_pool` within this process; leases exclude the other nodes.
    keeping: tokio::sync::Mutex<()>,
    repairing: tokio::sync::Mutex<()>,
    /// When a campaign's gate state was first seen to differ from the ledger's.
    wrong_state_since: Mutex<HashMap<CampaignId, Instant>>,
}

impl Repair {
    pub(crate) fn new(cluster: Cluster, node: String) -> Self {
        let (keeping, repairing) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Self { cluster, node, keeping, repairing, wrong_state_since: Mutex::default() }
    }

    pub(crate) fn mark_suspect(&self, campaign: &Campaign) {
        self.cluster.mark_suspect(campaign.id, campaign.epoch);
    }
}

impl GateSync {
    /// Runs recorders for campaigns that may have claims and releases those that no longer run. Returns the running
    /// ones.
    pub(super) async fn keep_recorders(&self, repair: &Repair) -> Result<Vec<Campaign>, LedgerError> {
        // Otherwise a slow round could act on older data after a newer one.
        let _keeping = repair.keeping.lock().await;
        let running = self.ledger.campaigns.running().await?;
        let mut kept = self.ledger.campaigns.undrained(MAX_UNDRAINED).await?;
        for closed in &kept {
            self.finish_closed(repair, closed).await?;
        }
        kept.extend_from_slice(&running);
        repair.cluster.set_campaigns(&kept).await?;
        for entered in self.directory.running.all() {
            if running.iter().all(|campaign| campaign.id != entered.id) {
                self.release(entered.id);
            }
        }
        Ok(running)
    }

    /// Ends the recording of a closed campaign once its streams are empty, and rejects claims that the gate has lost:
    /// they will never be recorded.
    async fn finish_closed(&self, repair: &Repair, closed: &Campaign) -> Result<(), LedgerError> {
        if repair.cluster.has_overdue_claims(closed.id) {
            if matches!(self.admission.state(closed.id).await, Ok(AdmissionState { queued: 0, .. }))
                && let Some(seed) = self.ledger.stock.reseed(closed.id, self.context.now()).await?
            {
                repair.cluster.reject_claims_before(closed.id, seed.epoch).await?;
            }
            return Ok(());
        }
        let is_over = closed.updated_at + RECORD_AFTER_CLOSE <= self.context.now();
        if is_over && repair.cluster.has_empty_streams(closed).await.unwrap_or(false) {
            self.ledger.campaigns.set_drained(closed).await?;
        }
        Ok(())
    }

    /// Rebuilds the campaign's pool if it does not match the ledger. Returns whether the pool is sound now.
    pub(super) async fn repair_pool(
        &self,
        repair: &Repair,
        campaign: &Campaign,
    ) -> Result<bool, LedgerError> {
        let id = campaign.id;
        let _repairing = repair.repairing.lock().await;
        let Ok(figures) = self.admission.figures(id).await else { return Ok(false) };
        let suspect_epoch = repair.cluster.take_suspect_epoch(id);
        // A fault of an earlier epoch does not concern the current one.
        let is_suspect = suspect_epoch.is_some_and(|then| figures.is_none_or(|now| now.epoch <= then));
        if is_sound(figures, campaign) && !is_suspect {
            repair.cluster.reject_claims_before(id, campaign.epoch).await?;
            self.fix_gate_state(repair, campaign, figures).await;
            return Ok(true);
        }
        let rebuilt = self.rebuild_alone(repair, id, figures, is_suspect).await;
        if let Some(then) = suspect_epoch.filter(|_| is_suspect && !matches!(rebuilt, Ok(true))) {
            repair.cluster.mark_suspect(id, then);
        }
        rebuilt
    }

    /// Corrects a gate state that differs from the ledger's.
    async fn fix_gate_state(&self, repair: &Repair, campaign: &Campaign, figures: Option<PoolFigures>) {
        if figures.is_none_or(|figures| figures.gate_state == Some(campaign.gate_state())) {
            repair.wrong_state_since.lock().remove(&campaign.id);
            return;
        }
        let since = *repair.wrong_state_since.lock().entry(campaign.id).or_insert_with(Instant::now);
        let as_of =
            if since.elapsed() > RESTORE_STATE_AFTER { self.context.now() } else { campaign.updated_at };
        self.enter(campaign.clone(), as_of).await;
    }

    /// Rebuilds the pool under a lease; does nothing if another node holds it.
    async fn rebuild_alone(
        &self,
        repair: &Repair,
        id: CampaignId,
        figures: Option<PoolFigures>,
        is_suspect: bool,
    ) -> Result<bool, LedgerError> {
        let (lease, holder) = (format!("reseed {}", id.raw()), repair.node.clone());
        let take = || self.ledger.leases.take(lease.clone(), holder.clone(), millis(RESEED_LEASE));
        if !take().await? {
            return Ok(false);
        }
        let mut working = std::pin::pin!(self.rebuild_if_needed(repair, id, figures, is_suspect));
        let rebuilt = loop {
            tokio::select! {
                rebuilt = &mut working => break rebuilt,
                // Renews the lease: rebuilding a pool of millions of units takes a while.
                () = tokio::time::sleep(RESEED_LEASE / 4) => {
                    take().await?;
                }
            }
        };
        self.ledger.leases.release(lease.clone(), holder.clone()).await?;
        rebuilt
    }

    async fn rebuild_if_needed(
        &self,
        repair: &Repair,
        id: CampaignId,
        figures: Option<PoolFigures>,
        is_suspect: bool,
    ) -> Result<bool, LedgerError> {
        // The previous holder of the lease may have rebuilt it.
        let Some(current) = self.ledger.campaigns.get(id).await? else { return Ok(false) };
        let again = self.admission.figures(id).await.ok().flatten();
        let changed = again.map(|now| now.epoch) != figures.map(|then| then.epoch);
        if is_sound(again, &current) && (changed || !is_suspect) {
            return Ok(true);
        }
        self.rebuild(repair, id, figures).await
    }

    /// Begins a new epoch, built from the ledger.
    async fn rebuild(
        &self,
        repair: &Repair,
        id: CampaignId,
        figures: Option<PoolFigures>,
    ) -> Result<bool, LedgerError> {
        let above = figures.map_or(0, |figures| figures.epoch);
        let mut seed: Option<Seed> = None;
        // A ledger restored from a backup may be behind its gate: raise the epoch above the gate's.
        while seed.as_ref().is_none_or(|seed| seed.epoch <= above) {
            seed = self.ledger.stock.reseed(id, self.context.now()).await?;
            if seed.is_none() {
                return Ok(false);
            }
        }
        let Some(seed) = seed else { return Ok(false) };
        let (epoch, taken) = (seed.epoch, seed.taken.len());
        // The gate stays paused until the ledger's state has been read again.
        if let Err(error) = self.admission.install(id, Seed { gate_state: GateState::Paused, ..seed }).await {
            tracing::warn!(%error, campaign = id.raw(), "could not rebuild the gate; will retry");
            return Ok(false);
        }
        tracing::warn!(campaign = id.raw(), epoch, taken, "the gate was rebuilt from the ledger");
        self.context.metrics.reseeds.inc();
        if let Some(campaign) = self.ledger.campaigns.get(id).await? {
            let as_of = campaign.updated_at;
            self.enter(campaign, as_of).await;
        }
        repair.cluster.reject_claims_before(id, epoch).await?;
        self.admission.publish(News::Campaign(id)).await;
        Ok(true)
    }
}

fn is_sound(figures: Option<PoolFigures>, campaign: &Campaign) -> bool {
    figures.is_some_and(|figures| figures.epoch >= campaign.epoch)
}
