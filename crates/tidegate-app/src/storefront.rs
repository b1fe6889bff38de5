//! The storefront: published sales and draws as visitors see them.

use std::sync::Arc;

use tidegate_admission::Admission;
use tidegate_core::dealer::Hash;
use tidegate_core::{Campaign, CampaignId, Draw, Item, Phase, Rejection, Sale, UserId};
use tidegate_ledger::Page;

use crate::Refusal;
use crate::catalogue::Catalogue;
use crate::commitments::Commitments;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::draws::DRAWS;
use crate::sales::SALES;
use crate::stock_counts::StockCounts;
use crate::storefront_cache::{Listing, StorefrontCache};
use crate::tables::StorefrontTables;

/// Maximum number of sales, and of draws, on the front page.
const MOST_LISTED: u32 = 60;

/// A sale as buyers see it.
#[derive(Clone, Debug)]
pub struct SaleView {
    pub sale: Campaign,
    pub terms: Sale,
    pub item: Item,
    pub phase: Phase,
    pub left: u32,
    /// Units held by unpaid orders, which may return; only if the sale is sold out.
    pub unpaid: Option<u32>,
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

#[derive(Debug)]
pub struct Storefront {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: StorefrontTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) counts: Arc<StockCounts>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) commitments: Arc<Commitments>,
    pub(crate) cache: StorefrontCache,
}

impl Storefront {
    /// Content of the front page, cached for a second.
    pub async fn listing(&self) -> Result<Arc<Listing>, Refusal> {
        let page = Page { before: None, limit: MOST_LISTED };
        let look_up =
            async { Ok(Listing { sales: self.sales(page).await?, draws: self.draws(page, None).await? }) };
        self.cache.get(look_up).await
    }

    /// A published sale as buyers see it.
    pub async fn sale(&self, id: CampaignId) -> Result<SaleView, Refusal> {
        let sale = self.directory.campaign(id).await?;
        let left = self.counts.available(&sale).await?;
        self.sale_view(Arc::unwrap_or_clone(sale), left).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Published sales, newest first.
    pub async fn sales(&self, page: Page) -> Result<Vec<SaleView>, Refusal> {
        let mut views = Vec::new();
        for (sale, tally) in self.ledger.campaigns.published(SALES, page).await? {
            let left = self.counts.count(&sale, tally).await.available;
            views.extend(self.sale_view(sale, left).await?);
        }
        Ok(views)
    }

    async fn sale_view(&self, sale: Campaign, left: u32) -> Result<Option<SaleView>, Refusal> {
        let Some(phase) = sale.phase(self.context.now(), left) else { return Ok(None) };
        let Some(terms) = sale.sale().copied() else { return Ok(None) };
        let unpaid = match phase {
            // Orders that are not recorded yet are unpaid as well.
            Phase::SoldOut => {
                let recorded = self.counts.recent_tally(sale.id).await?.awaiting_payment;
                Some(recorded + self.admission.queued_units(sale.id).await)
            }
            _ => None,
        };
        Ok(Some(SaleView { item: self.catalogue.item(terms.item).await?, sale, terms, phase, left, unpaid }))
    }

    /// A published draw as players see it.
    pub async fn draw(&self, id: CampaignId, player: Option<UserId>) -> Result<DrawView, Refusal> {
        let campaign = self.directory.campaign(id).await?;
        let left = self.counts.available(&campaign).await?;
        self.draw_view(Arc::unwrap_or_clone(campaign), left, player)
            .await?
            .ok_or_else(|| Rejection::NotFound.into())
    }

    /// Published draws, newest first.
    pub async fn draws(&self, page: Page, player: Option<UserId>) -> Result<Vec<DrawView>, Refusal> {
        let mut views = Vec::new();
        for (draw, tally) in self.ledger.campaigns.published(DRAWS, page).await? {
            let left = self.counts.count(&draw, tally).await.available;
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
        let Some(phase) = campaign.phase(self.context.now(), seats_left) else { return Ok(None) };
        let prizes_left = match self.admission.prizes_left(campaign.id).await {
            Some(left) => left,
            None => {
                let taken = self.ledger.draws.prizes_taken(campaign.id).await?;
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
            commitment: self.commitments.of(&campaign, &draw),
            draw,
            campaign,
        }))
    }
}
