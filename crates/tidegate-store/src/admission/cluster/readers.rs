//! This node's recorders: one for every shard's stream of the campaigns that may have claims.
//!
//! A sale's stream is read by all nodes together, each getting entries of its own. A draw's is read by the one that has its
//! lease, in order.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Campaign, CampaignId, Claim, Moment};
use tokio::sync::{Notify, OnceCell};
use tokio::task::AbortHandle;

use crate::admission::Now;
use crate::gate::redis::RedisGate;
use crate::intake::stream::{Rush, StreamIntake, StreamOptions};
use crate::intake::{Intake, Position};
use crate::ledger::sql::SqlLedger;
use crate::ledger::{Fence, LedgerError, Recorded, Records};
use crate::recorder::{self, Listener};

/// A recorder that has not finished with an entry for this long is taken to be dead.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// How long a draw's recorder has its lease.
const LEASE_MS: u32 = 3000;

struct Tools {
    ledger: Arc<SqlLedger>,
    listener: Arc<dyn Listener>,
    now: Now,
    rush: Option<Arc<Rush>>,
}

#[derive(Default)]
pub(super) struct Readers {
    tools: OnceCell<Tools>,
    running: Mutex<HashMap<(CampaignId, usize), Reader>>,
    /// Campaigns that may have claims.
    kept: Mutex<Vec<CampaignId>>,
}

struct Reader {
    intake: Arc<StreamIntake>,
    task: AbortHandle,
    appended: Arc<Notify>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").field("streams", &self.running.lock().len()).finish_non_exhaustive()
    }
}

impl Readers {
    /// `rush` is what recording makes way for, where nobody waits for it.
    pub(super) async fn start(
        &self,
        ledger: Arc<SqlLedger>,
        listener: Arc<dyn Listener>,
        now: Now,
        rush: Option<Arc<Rush>>,
    ) {
        self.tools.get_or_init(|| async { Tools { ledger, listener, now, rush } }).await;
    }

    pub(super) fn stop(&self) {
        self.running.lock().clear();
    }

    pub(super) async fn keep(
        &self,
        gate: &Arc<RedisGate>,
        node: &str,
        campaigns: &[Campaign],
    ) -> Result<(), LedgerError> {
        let Some(tools) = self.tools.get() else { return Ok(()) };
        *self.kept.lock() = campaigns.iter().map(|campaign| campaign.id).collect();
        self.running.lock().retain(|(campaign, _), _| campaigns.iter().any(|kept| kept.id == *campaign));
        for campaign in campaigns {
            let in_order = campaign.draw().is_some();
            if in_order {
                let lease = fence(campaign.id, node);
                if !tools.ledger.take_lease(lease.name, lease.holder, LEASE_MS).await? {
                    self.running.lock().remove(&(campaign.id, 0));
                    continue;
                }
            }
            let shards = if in_order { 1 } else { campaign.shards.max(1) as usize };
            for shard in 0..shards {
                let mut running = self.running.lock();
                running
                    .entry((campaign.id, shard))
                    .or_insert_with(|| reader(tools, gate, node, campaign, shard));
            }
        }
        Ok(())
    }

    /// This node's claims were appended to some of this campaign's streams: they are read at once.
    pub(super) fn expect_claims(&self, campaign: CampaignId) {
        let running = self.running.lock();
        for shard in 0.. {
            match running.get(&(campaign, shard)) {
                Some(reader) => reader.appended.notify_one(),
                None => break,
            }
        }
    }

    /// Claims that wait to be recorded.
    pub(super) fn depth(&self) -> usize {
        self.running.lock().values().map(|reader| reader.intake.depth()).sum()
    }

    /// Campaigns that may have claims, whichever node reads them.
    pub(super) fn campaigns(&self) -> Vec<CampaignId> {
        self.kept.lock().clone()
    }

    /// Campaigns some of whose entries could not be read since this was last asked.
    pub(super) fn poisoned(&self) -> Vec<CampaignId> {
        let running = self.running.lock();
        let poisoned = running.iter().filter(|(_, reader)| reader.intake.met_poison());
        poisoned.map(|((campaign, _), _)| *campaign).collect()
    }
}

/// Who may record a draw's plays.
fn fence(campaign: CampaignId, node: &str) -> Fence {
    Fence { name: format!("record {}", campaign.raw()), holder: node.to_owned() }
}

fn reader(tools: &Tools, gate: &Arc<RedisGate>, node: &str, campaign: &Campaign, shard: usize) -> Reader {
    let in_order = campaign.draw().is_some();
    let appended = Arc::new(Notify::new());
    let options = StreamOptions {
        campaign: campaign.id,
        shard,
        consumer: node.to_owned(),
        dead_after: DEAD_AFTER,
        in_order,
        appended: appended.clone(),
        rush: tools.rush.clone(),
    };
    let intake = Arc::new(StreamIntake::new(gate.clone(), options, 0));
    let records =
        Arc::new(Shared { ledger: tools.ledger.clone(), fence: in_order.then(|| fence(campaign.id, node)) });
    let (now, progress) = (tools.now.clone(), tokio::sync::watch::Sender::new(0));
    let run = recorder::run(intake.clone(), records, tools.listener.clone(), move || now(), progress);
    Reader { intake, task: tokio::spawn(run).abort_handle(), appended }
}

/// The ledger, for a recorder whose positions mean nothing to others.
struct Shared {
    ledger: Arc<SqlLedger>,
    fence: Option<Fence>,
}

impl Records for Shared {
    async fn record(
        &self,
        _: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        match &self.fence {
            None => self.ledger.record_unplaced(claims, now).await,
            Some(fence) => self.ledger.record_fenced(claims, fence.clone(), now).await,
        }
    }

    async fn set_aside(
        &self,
        _: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<Recorded, LedgerError> {
        self.ledger.set_aside_unplaced(claim, why, self.fence.clone(), now).await
    }
}
