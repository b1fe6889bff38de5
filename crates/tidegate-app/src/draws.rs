//! Operators' use cases for draws: create, edit, list.

use std::sync::Arc;

use tidegate_core::ProblemCode;
use tidegate_core::dealer::Hash;
use tidegate_core::draw::Strategy;
use tidegate_core::{
    Campaign, CampaignId, CampaignState, DeliveryState, Draw, Kind, Moment, Prize, Rejection,
};
use tidegate_ledger::{Actor, IdempotentRequest, Page};

use crate::Refusal;
use crate::campaigns::{CampaignTerms, Campaigns, Counters};
use crate::digest;
use crate::random;

pub const DRAWS_SCOPE: &str = "draws";
/// The ledger's name for this kind of campaign.
pub(crate) const DRAWS: &str = "draw";

/// A draw as an operator describes it, already validated.
#[derive(Clone, Debug)]
pub struct DrawTerms {
    pub name: String,
    pub strategy: Strategy,
    pub prizes: Vec<Prize>,
    /// The codes of each prize, in the order of `prizes`.
    pub codes: Vec<Vec<String>>,
    pub campaign: CampaignTerms,
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

impl Campaigns {
    pub async fn create_draw(
        &self,
        terms: DrawTerms,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        if let Some(before) = self.changes.find_earlier(key.as_ref()).await? {
            return self.find(CampaignId::from_raw(before.subject)).await;
        }
        let now = self.context.now();
        let seed = random::secret()?;
        let (draw, codes) =
            self.draft_draw(CampaignId::from_raw(self.context.next_id(now)), terms, seed, now)?;
        self.ledger.campaigns.create(draw.clone(), codes, by, key).await?;
        Ok(draw)
    }

    /// Replaces a draft's terms; its seed stays.
    pub async fn edit_draw(&self, id: CampaignId, terms: DrawTerms, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        let before = self.directory.campaign(id).await?;
        let seed = before.draw().ok_or(Rejection::NotFound)?.seed;
        let (mut draw, codes) = self.draft_draw(id, terms, seed, self.context.now())?;
        draw.created_at = before.created_at;
        if before.state == CampaignState::Draft
            && self.ledger.draws.update_draft(draw.clone(), codes, by).await?
        {
            return Ok(draw);
        }
        let detail = "Only a draft can be edited: what is published is what players were promised.".into();
        Err(Refusal::Conflict { code: ProblemCode::WrongState, detail })
    }

    /// A draft's codes, prize by prize, for its editor.
    pub async fn prize_codes(&self, id: CampaignId) -> Result<Vec<Vec<String>>, Refusal> {
        Ok(self.ledger.draws.prize_codes(id).await?)
    }

    fn draft_draw(
        &self,
        id: CampaignId,
        terms: DrawTerms,
        seed: digest::Secret,
        now: Moment,
    ) -> Result<(Campaign, Vec<Vec<String>>), Refusal> {
        let DrawTerms { name, strategy, prizes, codes, campaign } = terms;
        let coupon = prizes.iter().position(|prize| prize.kind == tidegate_core::draw::PrizeKind::Coupon);
        if let Some(at) = coupon.filter(|_| !self.has_coupons) {
            let what = "needs the merchant's address: set deliveries.coupon_url in the configuration";
            return Err(Refusal::invalid(&format!("prizes[{at}].kind"), what));
        }
        let kind = Kind::Draw(Arc::new(Draw { name, strategy, prizes, seed }));
        Ok((campaign.drafted(id, kind, now, now), codes))
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
        for (draw, _) in self.ledger.campaigns.list(DRAWS, state, page).await? {
            operated.push(self.operated_draw(draw).await?);
        }
        Ok(operated)
    }

    pub async fn operated_draw(&self, campaign: Campaign) -> Result<OperatedDraw, Refusal> {
        let draw = campaign.draw().ok_or(Rejection::NotFound)?.clone();
        Ok(OperatedDraw {
            counters: self.counts.counters(&campaign).await?,
            prizes_taken: self.ledger.draws.prizes_taken(campaign.id).await?,
            deliveries: self.ledger.deliveries.count_by_state(campaign.id).await?,
            commitment: self.commitments.of(&campaign, &draw),
            draw,
            campaign,
        })
    }
}
