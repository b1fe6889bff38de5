//! Rebuilds a gate that has lost something, on many nodes.
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
use crate::health::Part;
use crate::node::millis;

/// How long a gate may take to be rebuilt before another node tries.
const RESEED_LEASE: Duration = Duration::from_secs(20);
/// Claims on a closed campaign may be recorded this long after it closed.
const LATE: Duration = Duration::from_secs(3600);
/// A node may set a gate state and die before its change is recorded. Such a state is set right after this.
const WRONG_DOOR_AFTER: Duration = Duration::from_secs(10);

/// What a node needs to rebuild gates.
#[derive(Debug)]
pub(crate) struct Repair {
    cluster: Cluster,
    /// This node's name, which holds its leases.
    node: String,
    /// One round over what runs, and one look at a gate, at a time in this process; leases keep the other nodes out.
    keeping: tokio::sync::Mutex<()>,
    mending: tokio::sync::Mutex<()>,
    /// Since when a gate's gate state is not what the ledger says.
    doors: Mutex<HashMap<CampaignId, Instant>>,
}

impl Repair {
    pub(crate) fn new(cluster: Cluster, node: String) -> Self {
        let (keeping, mending) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Self { cluster, node, keeping, mending, doors: Mutex::default() }
    }

    pub(crate) fn distrust(&self, campaign: &Campaign) {
        self.cluster.mark_suspect(campaign.id, campaign.epoch);
    }
}

impl GateSync {
    /// Runs recorders where there may be claims, and releases campaigns that run no more; returns those that run.
    pub(super) async fn keep_recorders(&self, repair: &Repair) -> Result<Vec<Campaign>, LedgerError> {
        // What was read earlier must not be acted upon later.
        let _keeping = repair.keeping.lock().await;
        let running = self.ledger.campaigns.running().await?;
        let problem = repair.cluster.ping().await.err().map(|error| error.to_string());
        self.context.health.set(Part::Gate, problem.as_deref());
        let mut kept = self.ledger.campaigns.closed_since(self.context.now() - LATE).await?;
        for closed in kept.iter().filter(|closed| repair.cluster.has_overdue_claims(closed.id)) {
            // Claims that the gate has lost will never be recorded.
            if matches!(self.admission.state(closed.id).await, Ok(AdmissionState { queued: 0, .. }))
                && let Some(seed) = self.ledger.stock.reseed(closed.id, self.context.now()).await?
            {
                repair.cluster.reject_claims_before(closed.id, seed.epoch).await?;
            }
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

    /// Rebuilds the campaign's pool if it is not what the ledger says it must be; whether it is now.
    pub(super) async fn mend(&self, repair: &Repair, campaign: &Campaign) -> Result<bool, LedgerError> {
        let id = campaign.id;
        let _mending = repair.mending.lock().await;
        let Ok(figures) = self.admission.figures(id).await else { return Ok(false) };
        let caught_out_in = repair.cluster.take_suspect_epoch(id);
        // A fault of an epoch that is over is over with it.
        let caught_out = caught_out_in.is_some_and(|then| figures.is_none_or(|now| now.epoch <= then));
        if is_sound(figures, campaign) && !caught_out {
            repair.cluster.reject_claims_before(id, campaign.epoch).await?;
            self.mend_door(repair, campaign, figures).await;
            return Ok(true);
        }
        let rebuilt = self.rebuild_alone(repair, id, figures, caught_out).await;
        if let Some(then) = caught_out_in.filter(|_| caught_out && !matches!(rebuilt, Ok(true))) {
            repair.cluster.mark_suspect(id, then);
        }
        rebuilt
    }

    /// Corrects a gate state that is not what the ledger says.
    async fn mend_door(&self, repair: &Repair, campaign: &Campaign, figures: Option<PoolFigures>) {
        if figures.is_none_or(|figures| figures.gate_state == Some(campaign.gate_state())) {
            repair.doors.lock().remove(&campaign.id);
            return;
        }
        let since = *repair.doors.lock().entry(campaign.id).or_insert_with(Instant::now);
        let as_of = if since.elapsed() > WRONG_DOOR_AFTER { self.context.now() } else { campaign.updated_at };
        self.enter(campaign.clone(), as_of).await;
    }

    /// Rebuilds the pool, unless another node does so.
    async fn rebuild_alone(
        &self,
        repair: &Repair,
        id: CampaignId,
        figures: Option<PoolFigures>,
        caught_out: bool,
    ) -> Result<bool, LedgerError> {
        let (lease, holder) = (format!("reseed {}", id.raw()), repair.node.clone());
        let take = || self.ledger.leases.take(lease.clone(), holder.clone(), millis(RESEED_LEASE));
        if !take().await? {
            return Ok(false);
        }
        let mut working = std::pin::pin!(self.rebuild_if_needed(repair, id, figures, caught_out));
        let rebuilt = loop {
            tokio::select! {
                rebuilt = &mut working => break rebuilt,
                // A pool of millions takes a while.
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
        caught_out: bool,
    ) -> Result<bool, LedgerError> {
        // The previous holder of the lease may have rebuilt it.
        let Some(current) = self.ledger.campaigns.get(id).await? else { return Ok(false) };
        let again = self.admission.figures(id).await.ok().flatten();
        let changed = again.map(|now| now.epoch) != figures.map(|then| then.epoch);
        if is_sound(again, &current) && (changed || !caught_out) {
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
        // A ledger that was restored from a backup is behind its gate.
        while seed.as_ref().is_none_or(|seed| seed.epoch <= above) {
            seed = self.ledger.stock.reseed(id, self.context.now()).await?;
            if seed.is_none() {
                return Ok(false);
            }
        }
        let Some(seed) = seed else { return Ok(false) };
        let (epoch, taken) = (seed.epoch, seed.taken.len());
        // Behind a paused gate, which opens once the ledger's state was read again.
        if let Err(error) = self.admission.install(id, Seed { gate_state: GateState::Paused, ..seed }).await {
            tracing::warn!(%error, campaign = id.raw(), "the gate could not be rebuilt yet");
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
