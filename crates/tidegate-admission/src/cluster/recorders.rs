//! This node's recorders: one for the stream of every shard of the campaigns that may have claims.
//!
//! The stream of a sale is read by all nodes, each receiving different entries. The stream of a draw is read in
//! order, by the node that holds its lease.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Campaign, CampaignId, Claim, Moment};
use tidegate_ledger::{Fence, LedgerError, Position, RecordOutcome, Records, SqlLedger};
use tokio::sync::{Notify, OnceCell};
use tokio::task::AbortHandle;

use crate::Now;
use crate::cluster::gate::RedisGate;
use crate::cluster::stream::{Deferral, StreamIntake, StreamOptions};
use crate::intake::Intake;
use crate::recorder::{self, Listener};

/// A recorder that has not finished an entry for this long is considered dead.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// The lease of a draw's recorder; renewed by every `set_campaigns`.
const LEASE_MS: u32 = 3000;

struct Dependencies {
    ledger: Arc<SqlLedger>,
    listener: Arc<dyn Listener>,
    now: Now,
    deferral: Option<Deferral>,
}

#[derive(Default)]
pub(super) struct Recorders {
    dependencies: OnceCell<Dependencies>,
    /// By campaign and shard.
    running: Mutex<HashMap<(CampaignId, usize), Recorder>>,
    /// The campaigns that may have claims, whichever node records them.
    campaigns: Mutex<Vec<CampaignId>>,
}

struct Recorder {
    intake: Arc<StreamIntake>,
    task: AbortHandle,
    appended: Arc<Notify>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Recorders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorders").field("streams", &self.running.lock().len()).finish_non_exhaustive()
    }
}

impl Recorders {
    /// `deferral` is `None` if requests wait for their rows.
    pub(super) async fn start(
        &self,
        ledger: Arc<SqlLedger>,
        listener: Arc<dyn Listener>,
        now: Now,
        deferral: Option<Deferral>,
    ) {
        self.dependencies.get_or_init(|| async { Dependencies { ledger, listener, now, deferral } }).await;
    }

    pub(super) fn stop(&self) {
        self.running.lock().clear();
    }

    /// Starts recorders for these campaigns and stops those of all others.
    pub(super) async fn set_campaigns(
        &self,
        gate: &Arc<RedisGate>,
        node: &str,
        campaigns: &[Campaign],
    ) -> Result<(), LedgerError> {
        let Some(dependencies) = self.dependencies.get() else { return Ok(()) };
        *self.campaigns.lock() = campaigns.iter().map(|campaign| campaign.id).collect();
        self.running.lock().retain(|(running, _), _| campaigns.iter().any(|kept| kept.id == *running));
        for campaign in campaigns {
            let is_draw = campaign.draw().is_some();
            if is_draw {
                let lease = recording_lease(campaign.id, node);
                if !dependencies.ledger.leases.take(lease.name, lease.holder, LEASE_MS).await? {
                    self.running.lock().remove(&(campaign.id, 0));
                    continue;
                }
            }
            let shards = if is_draw { 1 } else { campaign.shards.max(1) as usize };
            for shard in 0..shards {
                let mut running = self.running.lock();
                running
                    .entry((campaign.id, shard))
                    .or_insert_with(|| start_recorder(dependencies, gate, node, campaign, shard));
            }
        }
        Ok(())
    }

    /// Claims of this node were appended to streams of this campaign: wakes its recorders.
    pub(super) fn wake(&self, campaign: CampaignId) {
        let running = self.running.lock();
        for shard in 0.. {
            match running.get(&(campaign, shard)) {
                Some(recorder) => recorder.appended.notify_one(),
                None => break,
            }
        }
    }

    /// Claims that wait to be recorded.
    pub(super) fn depth(&self) -> usize {
        self.running.lock().values().map(|recorder| recorder.intake.depth()).sum()
    }

    /// The campaigns that may have claims, whichever node records them.
    pub(super) fn campaigns(&self) -> Vec<CampaignId> {
        self.campaigns.lock().clone()
    }

    /// Campaigns with entries that could not be decoded since the last call.
    pub(super) fn take_poisoned(&self) -> Vec<CampaignId> {
        let running = self.running.lock();
        let poisoned = running.iter().filter(|(_, recorder)| recorder.intake.take_poisoned());
        poisoned.map(|((campaign, _), _)| *campaign).collect()
    }
}

fn recording_lease(campaign: CampaignId, node: &str) -> Fence {
    Fence { name: format!("record {}", campaign.raw()), holder: node.to_owned() }
}

fn start_recorder(
    dependencies: &Dependencies,
    gate: &Arc<RedisGate>,
    node: &str,
    campaign: &Campaign,
    shard: usize,
) -> Recorder {
    let is_draw = campaign.draw().is_some();
    let appended = Arc::new(Notify::new());
    let options = StreamOptions {
        campaign: campaign.id,
        shard,
        consumer: node.to_owned(),
        dead_after: DEAD_AFTER,
        in_order: is_draw,
        appended: appended.clone(),
        deferral: dependencies.deferral.clone(),
    };
    let intake = Arc::new(StreamIntake::new(gate.clone(), options, 0));
    let lease = is_draw.then(|| recording_lease(campaign.id, node));
    let ledger = Arc::new(SharedLedger { ledger: dependencies.ledger.clone(), lease });
    let (now, progress) = (dependencies.now.clone(), tokio::sync::watch::Sender::new(0));
    let run = recorder::run(intake.clone(), ledger, dependencies.listener.clone(), move || now(), progress);
    Recorder { intake, task: tokio::spawn(run).abort_handle(), appended }
}

/// The ledger of all nodes. Positions are not recorded: they mean something to one reader only.
struct SharedLedger {
    ledger: Arc<SqlLedger>,
    /// Must be held while recording, for a draw.
    lease: Option<Fence>,
}

impl Records for SharedLedger {
    async fn record(
        &self,
        _: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        match &self.lease {
            None => self.ledger.claims.record_from_stream(claims, now).await,
            Some(lease) => self.ledger.claims.record_fenced(claims, lease.clone(), now).await,
        }
    }

    async fn set_aside(
        &self,
        _: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<RecordOutcome, LedgerError> {
        self.ledger.claims.set_aside_from_stream(claim, why, self.lease.clone(), now).await
    }
}
