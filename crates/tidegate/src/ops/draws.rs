//! Draws: created, edited, shown; what they are bound to, and the proof that they kept it.

use std::sync::Arc;

use tidegate_core::dealer::{self, Hash};
use tidegate_core::draw::Strategy;
use tidegate_core::{
    Campaign, CampaignId, CampaignState, DeliveryState, Draw, Kind, Moment, Phase, Play, Prize, Rejection,
    UserId,
};
use tidegate_store::ledger::{Actor, History, Ledger, Page, Remember};

use super::campaigns::{CampaignTerms, Counters};
use super::{App, Refusal};
use crate::chance;

pub const DRAWS_SCOPE: &str = "draws";
/// What the ledger calls them.
const DRAWS: &str = "draw";
/// Plays read at once for a proof.
const PROOF_PAGE: u64 = 1000;

/// What an operator says about a draw; checked at the edge.
#[derive(Clone, Debug)]
pub struct DrawTerms {
    pub name: String,
    pub strategy: Strategy,
    pub prizes: Vec<Prize>,
    /// Prize by prize.
    pub codes: Vec<Vec<String>>,
    pub campaign: CampaignTerms,
}

/// A draw as players see it.
#[derive(Clone, Debug)]
pub struct DrawView {
    pub campaign: Campaign,
    pub draw: Arc<Draw>,
    pub phase: Phase,
    pub seats_left: u32,
    /// How many are left of each prize.
    pub prizes_left: Vec<u32>,
    /// Plays this player may still make.
    pub plays_left: u32,
    pub commitment: Hash,
}

/// A draw as operators see it.
#[derive(Clone, Debug)]
pub struct OperatedDraw {
    pub campaign: Campaign,
    pub draw: Arc<Draw>,
    pub counters: Counters,
    pub prizes_taken: Vec<u32>,
    pub deliveries: Vec<(DeliveryState, u32)>,
    pub commitment: Hash,
}

/// What a draw shows of itself for checking.
#[derive(Clone, Debug)]
pub struct Proof {
    pub campaign: Campaign,
    pub draw: Arc<Draw>,
    pub commitment: Hash,
    /// The history so far; final once the draw is closed.
    pub history: History,
}

impl Proof {
    /// The seed and the plays are shown once nobody can play any more.
    pub fn is_open(&self) -> bool {
        self.campaign.state == CampaignState::Closed
    }
}

impl App {
    pub async fn create_draw(
        &self,
        terms: DrawTerms,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        if let Some(before) = self.done_before(key.as_ref()).await? {
            return self.campaign(CampaignId::from_raw(before.subject)).await;
        }
        let now = self.now();
        let seed = chance::secret().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let (draw, codes) = self.drawn(CampaignId::from_raw(self.next_id(now)), terms, seed, now)?;
        self.ledger.create_campaign(draw.clone(), codes, by, key).await?;
        Ok(draw)
    }

    /// Replaces a draft's terms; its seed stays.
    pub async fn edit_draw(&self, id: CampaignId, terms: DrawTerms, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id).await?;
        let seed = before.draw().ok_or(Rejection::NotFound)?.seed;
        let (mut draw, codes) = self.drawn(id, terms, seed, self.now())?;
        draw.created_at = before.created_at;
        if before.state == CampaignState::Draft && self.ledger.edit_draw(draw.clone(), codes, by).await? {
            return Ok(draw);
        }
        let detail = "Only a draft can be edited: what is published is what players were promised.".into();
        Err(Refusal::Conflict { code: "wrong_state", detail })
    }

    /// A draft's codes, prize by prize, for whoever edits it.
    pub async fn prize_codes(&self, id: CampaignId) -> Result<Vec<Vec<String>>, Refusal> {
        Ok(self.ledger.prize_codes(id).await?)
    }

    fn drawn(
        &self,
        id: CampaignId,
        terms: DrawTerms,
        seed: chance::Secret,
        now: Moment,
    ) -> Result<(Campaign, Vec<Vec<String>>), Refusal> {
        let DrawTerms { name, strategy, prizes, codes, campaign } = terms;
        let coupon = prizes.iter().position(|prize| prize.kind == tidegate_core::draw::PrizeKind::Coupon);
        if let (Some(at), None) = (coupon, &self.rules.coupons) {
            let what = "needs the merchant's address: set deliveries.coupon_url in the configuration";
            return Err(Refusal::invalid(&format!("prizes[{at}].kind"), what));
        }
        let kind = Kind::Draw(Arc::new(Draw { name, strategy, prizes, seed }));
        Ok((campaign.drafted(id, kind, now, now), codes))
    }

    /// What the draw is bound to; the same from its draft to its end.
    pub fn commitment(&self, campaign: &Campaign, draw: &Draw) -> Hash {
        // A published draw does not change any more, and every play shows this.
        if let Some(known) = self.commitments.get(&campaign.id).filter(|_| campaign.is_published()) {
            return known;
        }
        let commitment = self.compute_commitment(campaign, draw);
        if campaign.is_published() {
            self.commitments.insert(campaign.id, commitment);
        }
        commitment
    }

    fn compute_commitment(&self, campaign: &Campaign, draw: &Draw) -> Hash {
        let table = dealer::table(&self.print(campaign.id.as_draw()), draw, campaign.stock);
        dealer::commitment(&draw.seed, &table)
    }

    /// A published draw as players see it.
    pub async fn draw(&self, id: CampaignId, player: Option<UserId>) -> Result<DrawView, Refusal> {
        let campaign = self.campaign(id).await?;
        let left = match self.admission.left(id) {
            Some(left) => left,
            None => self.counters(&campaign).await?.available,
        };
        self.draw_view(campaign, left, player).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Published draws, newest first.
    pub async fn draws(&self, page: Page, player: Option<UserId>) -> Result<Vec<DrawView>, Refusal> {
        let mut views = Vec::new();
        for (draw, tally) in self.ledger.published(DRAWS, page).await? {
            let left = self.counted(&draw, tally).await.available;
            views.extend(self.draw_view(draw, left, player).await?);
        }
        Ok(views)
    }

    async fn draw_view(
        &self,
        campaign: Campaign,
        seats_left: u32,
        player: Option<UserId>,
    ) -> Result<Option<DrawView>, Refusal> {
        let Some(draw) = campaign.draw().cloned() else { return Ok(None) };
        let Some(phase) = campaign.phase(self.now(), seats_left) else { return Ok(None) };
        let prizes_left = match self.admission.prizes_left(campaign.id).await {
            Some(left) => left,
            None => {
                let taken = self.ledger.prizes_taken(campaign.id).await?;
                draw.prizes.iter().zip(taken).map(|(prize, taken)| prize.stock - taken).collect()
            }
        };
        let played = match (phase, player) {
            (Phase::Ended, _) => u32::MAX,
            (_, Some(player)) => self.admission.held_by(campaign.id, player).await?.unwrap_or(0),
            (_, None) => 0,
        };
        Ok(Some(DrawView {
            phase,
            seats_left,
            prizes_left,
            plays_left: campaign.per_user_limit.saturating_sub(played),
            commitment: self.commitment(&campaign, &draw),
            draw,
            campaign,
        }))
    }

    pub async fn all_draws(&self, page: Page) -> Result<Vec<OperatedDraw>, Refusal> {
        self.draws_in(None, page).await
    }

    /// Draws in this state, or all of them; newest first.
    pub async fn draws_in(
        &self,
        state: Option<CampaignState>,
        page: Page,
    ) -> Result<Vec<OperatedDraw>, Refusal> {
        let mut operated = Vec::new();
        for (draw, _) in self.ledger.campaigns_in(DRAWS, state, page).await? {
            operated.push(self.operated_draw(draw).await?);
        }
        Ok(operated)
    }

    pub async fn operated_draw(&self, campaign: Campaign) -> Result<OperatedDraw, Refusal> {
        let draw = campaign.draw().ok_or(Rejection::NotFound)?.clone();
        Ok(OperatedDraw {
            counters: self.counters(&campaign).await?,
            prizes_taken: self.ledger.prizes_taken(campaign.id).await?,
            deliveries: self.ledger.count_deliveries(campaign.id).await?,
            commitment: self.commitment(&campaign, &draw),
            draw,
            campaign,
        })
    }

    /// A published draw's proof as far as it can be shown now.
    pub async fn proof(&self, id: CampaignId) -> Result<Proof, Refusal> {
        let campaign = self.campaign(id).await?;
        let draw = campaign.draw().filter(|_| campaign.is_published()).ok_or(Rejection::NotFound)?.clone();
        if campaign.state == CampaignState::Closed {
            // The last plays may still be on their way into the ledger.
            self.drained(id).await?;
        }
        let history = self.ledger.history(id).await?.ok_or(Rejection::NotFound)?;
        Ok(Proof { commitment: self.commitment(&campaign, &draw), draw, history, campaign })
    }

    /// The next plays of a proof after the one of this number; empty at the end.
    pub async fn proof_page(&self, proof: &Proof, after: u64) -> Result<Vec<Play>, Refusal> {
        let through = (after + PROOF_PAGE).min(proof.history.plays);
        if after >= through {
            return Ok(Vec::new());
        }
        Ok(self.ledger.plays_between(proof.campaign.id, after + 1, through).await?)
    }
}
