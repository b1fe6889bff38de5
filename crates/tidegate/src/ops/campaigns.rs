//! Campaigns, sales and draws alike: stepped through their lives, opened and closed at their times, followed by the gate.

use tidegate_core::campaign::Step;
use tidegate_core::pool::Door;
use tidegate_core::{Campaign, CampaignId, CampaignState, Kind, Moment, Protect, Rejection, Seed, Window};
use tidegate_store::admission::News;
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Tally};

use super::{App, Refusal};

/// What an operator says about any campaign; checked at the edge.
#[derive(Clone, Debug)]
pub struct CampaignTerms {
    /// Units or seats.
    pub stock: u32,
    pub window: Window,
    pub per_user_limit: u32,
    pub shards: u32,
    pub protect: Protect,
}

impl CampaignTerms {
    /// The draft these terms describe.
    pub(super) fn drafted(self, id: CampaignId, kind: Kind, created_at: Moment, now: Moment) -> Campaign {
        let Self { stock, window, per_user_limit, shards, protect } = self;
        Campaign {
            id,
            kind,
            stock,
            top: stock,
            window,
            per_user_limit,
            shards,
            protect,
            state: CampaignState::Draft,
            epoch: 0,
            opened: false,
            created_at,
            updated_at: now,
        }
    }
}

/// A campaign's units, as operators see them.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    pub tally: Tally,
    pub available: u32,
    pub queued: u32,
}

impl App {
    /// Its id as the outside knows it.
    pub fn print_campaign(&self, campaign: &Campaign) -> String {
        match campaign.kind {
            Kind::Sale(_) => self.print(campaign.id),
            Kind::Draw(_) => self.print(campaign.id.as_draw()),
        }
    }

    pub async fn campaign(&self, id: CampaignId) -> Result<Campaign, Refusal> {
        if let Some(campaign) = self.book.find(id) {
            return Ok(campaign.as_ref().clone());
        }
        self.ledger.campaign(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Takes one step of a campaign's lifecycle and lets the gate follow.
    pub async fn step(
        &self,
        id: CampaignId,
        step: Step,
        by: Actor,
        reason: Option<String>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let now = self.now();
        let starts_selling = matches!(step, Step::Publish { .. } | Step::Reopen { .. });
        if starts_selling {
            // Refused before anything is touched.
            self.campaign(id).await?.step(step, now)?;
            self.prewarm(id, now).await?;
        }
        if matches!(step, Step::Pause | Step::Close) {
            self.admission.set_door(id, Door::Paused, now).await?;
        }
        let stepped = self.ledger.step(id, step, by, now, reason).await;
        // If that cannot be read, `follow_all` finds out what holds.
        let current = self.ledger.campaign(id).await.inspect_err(|_| self.book.strike(id))?;
        let current = current.ok_or(Rejection::NotFound)?;
        let closed = current.state == CampaignState::Closed;
        self.enter(current, self.now()).await;
        if closed {
            self.let_go(id);
        }
        if let Some(cluster) = self.admission.cluster() {
            // Whoever orders next need not wait until somebody looks.
            self.keep_up(cluster).await?;
        }
        self.tell(News::Campaign(id)).await;
        Ok(stepped?.ok_or(Rejection::NotFound)??)
    }

    /// From now on the waiting room of a running campaign lets so many in per second.
    pub async fn set_admission(&self, id: CampaignId, per_s: u32, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id).await?;
        if before.protect.admit_per_s.is_none() {
            let detail = "This campaign has no waiting room, so there is no rate to change.".into();
            return Err(Refusal::Conflict { code: "no_queue", detail });
        }
        let after = if before.runs() {
            self.ledger.set_admission(id, per_s, by, self.now()).await?.ok_or(Rejection::NotFound)?
        } else {
            before
        };
        if !after.runs() {
            let detail =
                "Only a published campaign that has not ended lets people in; edit the draft instead.";
            return Err(Refusal::Conflict { code: "wrong_state", detail: detail.into() });
        }
        self.book.enter(after.clone());
        self.tell(News::Campaign(id)).await;
        Ok(after)
    }

    /// Sets the campaign's door and takes it into the book. If the gate does not answer it is struck out instead:
    /// `follow_all` finds it and tries again.
    pub(super) async fn enter(&self, campaign: Campaign, as_of: Moment) {
        match self.admission.set_door(campaign.id, campaign.door(), as_of).await {
            Ok(()) => self.book.enter(campaign),
            Err(error) => {
                let id = self.print_campaign(&campaign);
                tracing::warn!(id, %error, "a campaign's door could not be set yet");
                self.book.strike(campaign.id);
            }
        }
    }

    /// A campaign that runs no more is let go.
    pub(super) fn let_go(&self, id: CampaignId) {
        self.book.strike(id);
        self.admission.remove(id);
        self.rooms.forget(id);
    }

    /// Installs the pool behind a closed door, in a new epoch: claims of earlier ones are recorded by then.
    async fn prewarm(&self, id: CampaignId, now: Moment) -> Result<(), Refusal> {
        self.turns.pass().await;
        self.drained(id).await?;
        let seed = self.ledger.reseed(id, now).await?.ok_or(Rejection::NotFound)?;
        Ok(self.admission.install(id, Seed { door: Door::Closed, ..seed }).await?)
    }

    pub async fn counters(&self, campaign: &Campaign) -> Result<Counters, Refusal> {
        let tally = self.ledger.tally(campaign.id).await?.unwrap_or_default();
        Ok(self.counted(campaign, tally).await)
    }

    pub(super) async fn counted(&self, campaign: &Campaign, tally: Tally) -> Counters {
        let queued = if campaign.runs() || self.admission.is_embedded() {
            self.admission.queued_units(campaign.id).await
        } else {
            0
        };
        let unheld = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid + queued);
        let available = self.admission.left(campaign.id).unwrap_or(unheld);
        Counters { tally, available, queued }
    }

    /// Opens and closes what is due; gives when the next campaign opens or closes.
    pub async fn keep_times(&self) -> Result<Option<Moment>, LedgerError> {
        let mut next: Option<Moment> = None;
        for campaign in self.book.all() {
            let now = self.now();
            if now >= campaign.window.ends_at {
                if let Err(refusal) = self.step(campaign.id, Step::Close, Actor::Clock, None).await {
                    let id = self.print_campaign(&campaign);
                    tracing::warn!(id, kind = campaign.kind.noun(), %refusal, "a campaign could not be closed at its end");
                }
                continue;
            }
            if now >= campaign.window.starts_at && !campaign.opened {
                self.announce_opening(campaign.id, now).await?;
            }
            let due = if now < campaign.window.starts_at {
                campaign.window.starts_at
            } else {
                campaign.window.ends_at
            };
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Ok(next)
    }

    async fn announce_opening(&self, id: CampaignId, now: Moment) -> Result<(), LedgerError> {
        let _one_at_a_time = self.campaigns.lock().await;
        self.ledger.announce_opening(id, now).await?;
        if let Some(campaign) = self.ledger.campaign(id).await? {
            let id = self.print_campaign(&campaign);
            tracing::info!(id, kind = campaign.kind.noun(), "a campaign has opened");
            self.book.enter(campaign);
        }
        Ok(())
    }

    /// Lets book and gate catch up with the ledger: what an interrupted step left behind, and the stock log of every
    /// running campaign.
    pub async fn follow_all(&self) -> Result<(), LedgerError> {
        let running = match self.admission.cluster() {
            Some(cluster) => self.keep_up(cluster).await?,
            None => self.ledger.running().await?,
        };
        for campaign in running {
            self.follow_one(&campaign).await?;
        }
        Ok(())
    }

    /// The same for one of them, as the ledger has it.
    pub(super) async fn follow_one(&self, campaign: &Campaign) -> Result<(), LedgerError> {
        if let Some(cluster) = self.admission.cluster()
            && !self.mend(cluster, campaign).await?
        {
            return Ok(());
        }
        if self.book.find(campaign.id).is_none_or(|entered| *entered != *campaign) {
            self.catch_up_with(campaign.id).await?;
        }
        self.follow(campaign.id).await
    }

    async fn catch_up_with(&self, id: CampaignId) -> Result<(), LedgerError> {
        let _one_at_a_time = self.campaigns.lock().await;
        if let Some(campaign) = self.ledger.campaign(id).await? {
            let as_of = campaign.updated_at;
            self.enter(campaign, as_of).await;
        }
        Ok(())
    }
}
