//! What nodes do for each other: mend the gate from the ledger, keep recorders running, hear and tell news, and have one
//! of them do what only one should.
//!
//! What always holds: a gate that knows less than the ledger takes no claims until it is rebuilt, by one node, in a new epoch;
//! news can be lost, and only makes things sooner.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::pool::Door;
use tidegate_core::{Campaign, CampaignId, Seed};
use tidegate_store::admission::{Cluster, News, Standing};
use tidegate_store::gate::PoolFigures;
use tidegate_store::ledger::{Ledger, LedgerError};

use super::App;
use crate::cluster::NUMBER_LEASE;
use crate::health::Part;

/// Which of the nodes this is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique among all processes there ever were.
    pub name: String,
    /// What its ids carry; unique among those that run.
    pub number: u16,
}

impl Node {
    /// The only one.
    pub fn alone() -> Self {
        Self { name: "alone".into(), number: 0 }
    }
}

/// How long a timer is one node's after it last said so.
const LEASE: Duration = Duration::from_secs(3);
/// How long a gate may take to be rebuilt before another node tries.
const RESEED_LEASE: Duration = Duration::from_secs(20);
/// Claims of a campaign that was closed may be recorded so long after.
const LATE: Duration = Duration::from_secs(3600);
/// For so long after it asked a node is sure of its number: less than its lease.
const NUMBER_SURE: Duration = Duration::from_secs(25);
/// A door that was set before its change was recorded, by a node that did not live to see it, is set right after this.
const WRONG_DOOR_AFTER: Duration = Duration::from_secs(10);

/// What this node remembers of what it does for the others.
#[derive(Debug, Default)]
pub(super) struct Duties {
    /// The timers it has, and until when it need not ask again.
    leads: Mutex<HashMap<&'static str, Instant>>,
    /// Until when the node's number is sure to be its own, once that was looked at.
    number_until: Mutex<Option<Instant>>,
    /// One look at what runs, and at one gate, at a time in this process; leases are for the others.
    keeping: tokio::sync::Mutex<()>,
    mending: tokio::sync::Mutex<()>,
    /// Since when a gate's door is not what the ledger says.
    doors: Mutex<HashMap<CampaignId, Instant>>,
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

impl App {
    /// Whether there may be other nodes.
    pub fn is_cluster(&self) -> bool {
        self.admission.cluster().is_some()
    }

    /// Whether this node is the one that does this now. Where there is one process, it is.
    pub async fn leads(&self, what: &'static str) -> Result<bool, LedgerError> {
        if self.admission.is_embedded() {
            return Ok(true);
        }
        if self.duties.leads.lock().get(what).is_some_and(|until| Instant::now() < *until) {
            return Ok(true);
        }
        let asked = Instant::now();
        let mine = self.ledger.take_lease(what.to_owned(), self.node.name.clone(), millis(LEASE)).await?;
        if mine {
            // Asked again long before it ends.
            self.duties.leads.lock().insert(what, asked + LEASE / 3);
        }
        Ok(mine)
    }

    /// Keeps this node's number and its clock.
    pub async fn keep_node(&self) -> Result<(), LedgerError> {
        let (name, asked) = (format!("node {}", self.node.number), Instant::now());
        let kept = self.ledger.take_lease(name, self.node.name.clone(), millis(NUMBER_LEASE)).await?;
        if kept {
            *self.duties.number_until.lock() = Some(asked + NUMBER_SURE);
        }
        // Somebody else has it: two nodes would give the same ids.
        let problem = (!kept).then_some("another node has this one's number; it must be restarted");
        self.health.set(Part::Node, problem);
        let before = crate::clock::Clock::System.now();
        if let Some(there) = self.ledger.time().await? {
            self.clock.set_right(before, there, crate::clock::Clock::System.now());
        }
        Ok(())
    }

    /// Whether ids of this node's number are its own: not after it has slept for longer than its lease.
    pub(super) fn has_its_number(&self) -> bool {
        self.admission.is_embedded()
            || self.duties.number_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Tells all nodes; where there is one process there is nobody to tell.
    pub(super) async fn tell(&self, news: News) {
        if let Some(cluster) = self.admission.cluster() {
            cluster.tell(&news).await;
        }
    }

    /// What another node, or this one, has told.
    pub async fn hear(&self, news: News) -> Result<(), LedgerError> {
        match news {
            News::Campaign(id) => match self.ledger.campaign(id).await? {
                Some(campaign) if campaign.runs() => self.follow_one(&campaign).await?,
                _ => self.let_go(id),
            },
            News::Item(id) => {
                self.items.remove(&id);
            }
            News::SessionEnded(digest) => self.sessions.forget(&digest),
            News::Anything => {
                self.items.clear();
                self.sessions.clear();
                self.follow_all().await?;
            }
        }
        Ok(())
    }

    /// Lets recorders run where there may be claims, and lets go what runs no more; gives what runs.
    pub(super) async fn keep_up(&self, cluster: &Cluster) -> Result<Vec<Campaign>, LedgerError> {
        // Whoever looked earlier must not act later.
        let _keeping = self.duties.keeping.lock().await;
        let running = self.ledger.running().await?;
        let problem = cluster.ping().await.err().map(|error| error.to_string());
        self.health.set(Part::Gate, problem.as_deref());
        let mut kept = self.ledger.closed_since(self.now() - LATE).await?;
        for closed in kept.iter().filter(|closed| cluster.waits_long_for(closed.id)) {
            // What the gate has lost of it will never be recorded.
            if matches!(self.admission.standing(closed.id).await, Ok(Standing { queued: 0, .. }))
                && let Some(seed) = self.ledger.reseed(closed.id, self.now()).await?
            {
                cluster.began(closed.id, seed.epoch).await?;
            }
        }
        kept.extend_from_slice(&running);
        cluster.keep(&kept).await?;
        for entered in self.book.all() {
            if running.iter().all(|campaign| campaign.id != entered.id) {
                self.let_go(entered.id);
            }
        }
        Ok(running)
    }

    /// Rebuilds the campaign's pool if it is not what the ledger says it must be; whether it is now.
    pub(super) async fn mend(&self, cluster: &Cluster, campaign: &Campaign) -> Result<bool, LedgerError> {
        let id = campaign.id;
        let _mending = self.duties.mending.lock().await;
        let Ok(figures) = self.admission.figures(id).await else { return Ok(false) };
        let caught_out_in = cluster.caught_out_in(id);
        // What it did in an epoch that is over is over with it.
        let caught_out = caught_out_in.is_some_and(|then| figures.is_none_or(|now| now.epoch <= then));
        if is_sound(figures, campaign) && !caught_out {
            cluster.began(id, campaign.epoch).await?;
            self.mend_door(campaign, figures).await;
            return Ok(true);
        }
        let rebuilt = self.rebuild_alone(cluster, id, figures, caught_out).await;
        if let Some(then) = caught_out_in.filter(|_| caught_out && !matches!(rebuilt, Ok(true))) {
            cluster.distrust(id, then);
        }
        rebuilt
    }

    /// Sets a door right that is not what the ledger says.
    async fn mend_door(&self, campaign: &Campaign, figures: Option<PoolFigures>) {
        if figures.is_none_or(|figures| figures.door == Some(campaign.door())) {
            self.duties.doors.lock().remove(&campaign.id);
            return;
        }
        let since = *self.duties.doors.lock().entry(campaign.id).or_insert_with(Instant::now);
        let as_of = if since.elapsed() > WRONG_DOOR_AFTER { self.now() } else { campaign.updated_at };
        self.enter(campaign.clone(), as_of).await;
    }

    /// Rebuilds it, unless another node is about it.
    async fn rebuild_alone(
        &self,
        cluster: &Cluster,
        id: CampaignId,
        figures: Option<PoolFigures>,
        caught_out: bool,
    ) -> Result<bool, LedgerError> {
        let (lease, holder) = (format!("reseed {}", id.raw()), self.node.name.clone());
        let take = || self.ledger.take_lease(lease.clone(), holder.clone(), millis(RESEED_LEASE));
        if !take().await? {
            return Ok(false);
        }
        let mut working = std::pin::pin!(self.rebuild_if_needed(cluster, id, figures, caught_out));
        let rebuilt = loop {
            tokio::select! {
                rebuilt = &mut working => break rebuilt,
                // A pool of millions takes a while.
                () = tokio::time::sleep(RESEED_LEASE / 4) => {
                    take().await?;
                }
            }
        };
        self.ledger.drop_lease(lease.clone(), holder.clone()).await?;
        rebuilt
    }

    async fn rebuild_if_needed(
        &self,
        cluster: &Cluster,
        id: CampaignId,
        figures: Option<PoolFigures>,
        caught_out: bool,
    ) -> Result<bool, LedgerError> {
        // Whoever had the lease before may have done it.
        let Some(current) = self.ledger.campaign(id).await? else { return Ok(false) };
        let again = self.admission.figures(id).await.ok().flatten();
        let changed = again.map(|now| now.epoch) != figures.map(|then| then.epoch);
        if is_sound(again, &current) && (changed || !caught_out) {
            return Ok(true);
        }
        self.rebuild(cluster, id, figures).await
    }

    /// A new epoch from the ledger.
    async fn rebuild(
        &self,
        cluster: &Cluster,
        id: CampaignId,
        figures: Option<PoolFigures>,
    ) -> Result<bool, LedgerError> {
        let above = figures.map_or(0, |figures| figures.epoch);
        let mut seed: Option<Seed> = None;
        // A ledger that was restored from a backup is behind its gate.
        while seed.as_ref().is_none_or(|seed| seed.epoch <= above) {
            seed = self.ledger.reseed(id, self.now()).await?;
            if seed.is_none() {
                return Ok(false);
            }
        }
        let Some(seed) = seed else { return Ok(false) };
        let (epoch, taken) = (seed.epoch, seed.taken.len());
        // Behind a door that only what the ledger says then opens.
        if let Err(error) = self.admission.install(id, Seed { door: Door::Paused, ..seed }).await {
            tracing::warn!(%error, campaign = id.raw(), "the gate could not be rebuilt yet");
            return Ok(false);
        }
        tracing::warn!(campaign = id.raw(), epoch, taken, "the gate was rebuilt from the ledger");
        self.metrics.reseeds.inc();
        if let Some(campaign) = self.ledger.campaign(id).await? {
            let as_of = campaign.updated_at;
            self.enter(campaign, as_of).await;
        }
        cluster.began(id, epoch).await?;
        self.tell(News::Campaign(id)).await;
        Ok(true)
    }

    /// Resolves when a pool had better be looked at now.
    pub async fn attention(&self) {
        match self.admission.cluster() {
            Some(cluster) => cluster.attention().notified().await,
            None => std::future::pending().await,
        }
    }
}

fn is_sound(figures: Option<PoolFigures>, campaign: &Campaign) -> bool {
    figures.is_some_and(|figures| figures.epoch >= campaign.epoch)
}
