//! What nodes do for each other: mend the gate from the ledger, keep recorders running, hear and tell news, and have one
//! of them do what only one should.
//!
//! What always holds: a gate that knows less than the ledger takes no claims until it is rebuilt, by one node, in a new epoch;
//! news can be lost, and only makes things sooner.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::{Campaign, CampaignId, CampaignState, Seed};
use tidegate_store::admission::{Cluster, News};
use tidegate_store::gate::PoolFigures;
use tidegate_store::ledger::{Ledger, LedgerError};

use super::App;
use crate::cluster::NUMBER_LEASE;
use crate::health::Part;

/// How long a timer is one node's after it last said so.
const LEASE: Duration = Duration::from_secs(3);
/// How long a gate may take to be rebuilt before another node tries.
const RESEED_LEASE: Duration = Duration::from_secs(20);
/// Claims of a campaign that was closed may be recorded so long after.
const LATE: Duration = Duration::from_secs(3600);

/// The timers this node has, and until when it need not ask again.
#[derive(Debug, Default)]
pub(super) struct Leads(Mutex<HashMap<&'static str, Instant>>);

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

impl App {
    /// Whether this node is the one that does this now. Where there is one process, it is.
    pub async fn leads(&self, what: &'static str) -> Result<bool, LedgerError> {
        if self.admission.is_embedded() {
            return Ok(true);
        }
        if self.leads.0.lock().get(what).is_some_and(|until| Instant::now() < *until) {
            return Ok(true);
        }
        let asked = Instant::now();
        let mine = self.ledger.take_lease(what.to_owned(), self.node.name.clone(), millis(LEASE)).await?;
        if mine {
            // Asked again long before it ends.
            self.leads.0.lock().insert(what, asked + LEASE / 3);
        }
        Ok(mine)
    }

    /// Keeps this node's number and its clock.
    pub async fn keep_node(&self) -> Result<(), LedgerError> {
        let name = format!("node {}", self.node.number);
        let kept = self.ledger.take_lease(name, self.node.name.clone(), millis(NUMBER_LEASE)).await?;
        // Somebody else has it: two nodes would give the same ids.
        let problem = (!kept).then_some("another node has this one's number; it must be restarted");
        self.health.set(Part::Startup, problem);
        let before = crate::clock::Clock::System.now();
        if let Some(there) = self.ledger.time().await? {
            self.clock.set_right(before, there, crate::clock::Clock::System.now());
        }
        Ok(())
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
                Some(campaign) if runs(&campaign) => self.follow_one(&campaign).await?,
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

    /// Lets recorders run where there may be claims, and lets go what runs no more.
    pub(super) async fn keep_up(&self, cluster: &Cluster, running: &[Campaign]) -> Result<(), LedgerError> {
        let problem = cluster.ping().await.err().map(|error| error.to_string());
        self.health.set(Part::Gate, problem.as_deref());
        let mut kept = self.ledger.closed_since(self.now() - LATE).await?;
        kept.extend_from_slice(running);
        cluster.keep(&kept).await?;
        for entered in self.book.all() {
            if running.iter().all(|campaign| campaign.id != entered.id) {
                self.let_go(entered.id);
            }
        }
        Ok(())
    }

    /// Rebuilds the campaign's pool if it is not what the ledger says it must be; whether it is now.
    pub(super) async fn mend(&self, cluster: &Cluster, campaign: &Campaign) -> Result<bool, LedgerError> {
        let id = campaign.id;
        // One look at a time in this process; the lease is for the others.
        let _mending = self.mending.lock().await;
        let Ok(figures) = self.admission.figures(id).await else { return Ok(false) };
        let caught_out = cluster.was_caught_out(id);
        if is_sound(figures, campaign) && !caught_out {
            cluster.began(id, campaign.epoch).await?;
            if figures.is_some_and(|figures| figures.door != campaign.door()) {
                self.enter(campaign.clone(), campaign.updated_at).await;
            }
            return Ok(true);
        }
        let lease = format!("reseed {}", id.raw());
        if !self.ledger.take_lease(lease, self.node.name.clone(), millis(RESEED_LEASE)).await? {
            return Ok(false);
        }
        // Whoever had the lease before may have done it.
        let Some(current) = self.ledger.campaign(id).await? else { return Ok(false) };
        let again = self.admission.figures(id).await;
        if !caught_out && again.is_ok_and(|figures| is_sound(figures, &current)) {
            return Ok(true);
        }
        let rebuilt = self.rebuild(cluster, id, figures).await;
        if !matches!(rebuilt, Ok(true)) && caught_out {
            cluster.distrust(id);
        }
        rebuilt
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
        if let Err(error) = self.admission.install(id, seed).await {
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

fn runs(campaign: &Campaign) -> bool {
    matches!(campaign.state, CampaignState::Live | CampaignState::Paused)
}

fn is_sound(figures: Option<PoolFigures>, campaign: &Campaign) -> bool {
    figures.is_some_and(|figures| figures.epoch >= campaign.epoch)
}
