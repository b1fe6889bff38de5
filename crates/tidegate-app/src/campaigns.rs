//! The lifecycle of campaigns, sales and draws alike: steps, opening and closing at their times, admission rates.
//!
//! Invariants: a step is committed to the ledger before it is announced; the gate is paused before a pause or close
//! is committed; a pool is installed behind a closed gate before its publication is committed.

use std::sync::Arc;

use tidegate_admission::{Admission, News};
use tidegate_core::ProblemCode;
use tidegate_core::campaign::Step;
use tidegate_core::pool::GateState;
use tidegate_core::{Campaign, CampaignId, CampaignState, Kind, Moment, Protect, Rejection, Window};
use tidegate_ledger::{Actor, LedgerError, Tally};

use crate::Refusal;
use crate::changes::Changes;
use crate::commitments::Commitments;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::gate_sync::GateSync;
use crate::stock_counts::StockCounts;
use crate::tables::CampaignTables;

/// A campaign as an operator describes it, already validated.
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
    pub(crate) fn drafted(self, id: CampaignId, kind: Kind, created_at: Moment, now: Moment) -> Campaign {
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

#[derive(Debug)]
pub struct Campaigns {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: CampaignTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) gate: Arc<GateSync>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) counts: Arc<StockCounts>,
    pub(crate) commitments: Arc<Commitments>,
    /// Whether a second operator must approve a campaign before it is published.
    pub approval_required: bool,
    /// Whether draws may have coupons as prizes, which needs a configured coupon endpoint.
    pub(crate) has_coupons: bool,
}

impl Campaigns {
    pub async fn find(&self, id: CampaignId) -> Result<Campaign, Refusal> {
        self.directory.campaign(id).await.map(Arc::unwrap_or_clone)
    }

    /// Takes one step of a campaign's lifecycle and updates the gate.
    pub async fn step(
        &self,
        id: CampaignId,
        step: Step,
        by: Actor,
        reason: Option<String>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        let now = self.context.now();
        let starts_selling = matches!(step, Step::Publish { .. } | Step::Reopen { .. });
        if starts_selling {
            // Refuses an invalid step before anything is changed.
            self.find(id).await?.step(step, now)?;
            self.gate.prewarm(id, now).await?;
        }
        if matches!(step, Step::Pause | Step::Close) {
            self.admission.set_gate_state(id, GateState::Paused, now).await?;
        }
        let stepped = self.ledger.campaigns.step(id, step, by, now, reason).await;
        let current = match &stepped {
            Ok(Some(Ok(campaign))) => campaign.clone(),
            // Nothing was changed, or it is unknown whether. If the state cannot be read, `GateSync::sync_all` finds
            // out later.
            _ => {
                let read = self.ledger.campaigns.get(id).await;
                read.inspect_err(|_| self.directory.running.remove(id))?.ok_or(Rejection::NotFound)?
            }
        };
        let closed = current.state == CampaignState::Closed;
        self.gate.enter(current, self.context.now()).await;
        if closed {
            self.gate.release(id);
        }
        self.gate.after_step(id).await;
        Ok(stepped?.ok_or(Rejection::NotFound)??)
    }

    /// Sets how many people per second the waiting room of a running campaign admits.
    pub async fn set_admission(&self, id: CampaignId, per_s: u32, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        let before = self.find(id).await?;
        if before.protect.admit_per_s.is_none() {
            let detail = "This campaign has no waiting room, so there is no rate to change.".into();
            return Err(Refusal::Conflict { code: ProblemCode::NoQueue, detail });
        }
        let after = if before.runs() {
            self.ledger
                .campaigns
                .set_admission_rate(id, per_s, by, self.context.now())
                .await?
                .ok_or(Rejection::NotFound)?
        } else {
            before
        };
        if !after.runs() {
            let detail =
                "Only a published campaign that has not ended lets people in; edit the draft instead.";
            return Err(Refusal::Conflict { code: ProblemCode::WrongState, detail: detail.into() });
        }
        self.directory.running.insert(after.clone());
        self.admission.publish(News::Campaign(id)).await;
        Ok(after)
    }

    pub async fn counters(&self, campaign: &Campaign) -> Result<Counters, Refusal> {
        self.counts.counters(campaign).await
    }

    /// Opens and closes the campaigns that are due; returns when the next one opens or closes.
    pub async fn open_and_close_due(&self) -> Result<Option<Moment>, LedgerError> {
        let mut next: Option<Moment> = None;
        for campaign in self.directory.running.all() {
            let now = self.context.now();
            if now >= campaign.window.ends_at {
                if let Err(refusal) = self.step(campaign.id, Step::Close, Actor::Clock, None).await {
                    let id = self.context.print_campaign(&campaign);
                    let kind = campaign.kind.noun();
                    tracing::warn!(id, kind, %refusal, "a campaign could not be closed at its end");
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
        let _one_at_a_time = self.changes.lock().await;
        self.ledger.campaigns.announce_opening(id, now).await?;
        if let Some(campaign) = self.ledger.campaigns.get(id).await? {
            let id = self.context.print_campaign(&campaign);
            tracing::info!(id, kind = campaign.kind.noun(), "a campaign has opened");
            self.directory.running.insert(campaign);
        }
        Ok(())
    }
}
