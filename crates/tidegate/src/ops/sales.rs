//! Sales: created, edited, restocked, shown.

use tidegate_core::pool::Withdrawal;
use tidegate_core::{Campaign, CampaignId, CampaignState, Item, Kind, Moment, Phase, Rejection, Sale};
use tidegate_store::admission::News;
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Page, Remember};

use super::campaigns::{CampaignTerms, Counters};
use super::{App, Refusal};

pub const SALES_SCOPE: &str = "sales";
/// What the ledger calls them.
const SALES: &str = "sale";
pub const RESTOCK_SCOPE: &str = "restock";

/// What an operator says about a sale; checked at the edge.
#[derive(Clone, Debug)]
pub struct SaleTerms {
    pub sale: Sale,
    pub campaign: CampaignTerms,
}

/// A sale as buyers see it.
#[derive(Clone, Debug)]
pub struct SaleView {
    pub sale: Campaign,
    pub terms: Sale,
    pub item: Item,
    pub phase: Phase,
    pub left: u32,
    /// Units that unpaid orders hold and that may return, where all are taken.
    pub unpaid: Option<u32>,
}

/// A sale as operators see it.
#[derive(Clone, Debug)]
pub struct OperatedSale {
    pub campaign: Campaign,
    pub terms: Sale,
    pub counters: Counters,
}

impl App {
    pub async fn create_sale(
        &self,
        terms: SaleTerms,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        if let Some(before) = self.done_before(key.as_ref()).await? {
            return self.campaign(CampaignId::from_raw(before.subject)).await;
        }
        let now = self.now();
        let sale = self.drafted(CampaignId::from_raw(self.next_id(now)), terms, now, now).await?;
        self.ledger.create_campaign(sale.clone(), vec![], by, key).await?;
        Ok(sale)
    }

    /// Replaces a draft's terms.
    pub async fn edit_sale(&self, id: CampaignId, terms: SaleTerms, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id).await?;
        let sale = self.drafted(id, terms, before.created_at, self.now()).await?;
        if before.state == CampaignState::Draft && self.ledger.edit_draft(sale.clone(), by).await? {
            return Ok(sale);
        }
        let detail = "Only a draft can be edited; restock, pause or close a published sale.".into();
        Err(Refusal::Conflict { code: "wrong_state", detail })
    }

    async fn drafted(
        &self,
        id: CampaignId,
        terms: SaleTerms,
        created_at: Moment,
        now: Moment,
    ) -> Result<Campaign, Refusal> {
        if self.ledger.item(terms.sale.item).await?.is_none() {
            return Err(Refusal::invalid("item_id", "names no item"));
        }
        Ok(terms.campaign.drafted(id, Kind::Sale(terms.sale), created_at, now))
    }

    /// Adds units, or takes free ones out of sale; gives by how many the stock changed.
    pub async fn restock(
        &self,
        id: CampaignId,
        units: i64,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<(Campaign, i64), Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id).await?;
        before.sale().ok_or(Rejection::NotFound)?;
        if let Some(done) = self.done_before(key.as_ref()).await? {
            return Ok((before, done.note));
        }
        if !before.runs() {
            let detail =
                "Only a published sale that has not ended can be restocked; edit the draft instead.".into();
            return Err(Refusal::Conflict { code: "wrong_state", detail });
        }
        let amount = u32::try_from(units.unsigned_abs()).unwrap_or(u32::MAX);
        let after = if units > 0 {
            if i64::from(before.stock) + units > i64::from(tidegate_core::limits::MAX_STOCK) {
                let most = tidegate_core::limits::MAX_STOCK;
                return Err(Refusal::invalid("units", format!("would take the stock above {most}")));
            }
            self.ledger.restock(id, amount, by, self.now(), key).await?
        } else {
            // The gate must know every slot the ledger knows before it says which are free.
            self.follow(id).await?;
            let withdrawal = self.admission.withdraw(id, amount).await?.ok_or(Rejection::NotReady)?;
            self.record_withdrawal(id, withdrawal, by, key).await?
        };
        let after = after.ok_or(Rejection::NotFound)?;
        self.follow(id).await?;
        self.book.enter(after.clone());
        self.tell(News::Campaign(id)).await;
        let changed = i64::from(after.stock) - i64::from(before.stock);
        Ok((after, changed))
    }

    async fn record_withdrawal(
        &self,
        id: CampaignId,
        withdrawal: Withdrawal,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Option<Campaign>, Refusal> {
        if withdrawal.units == 0 {
            let detail = "No unit is free, so none can be taken out of sale.".into();
            return Err(Refusal::Conflict { code: "no_free_units", detail });
        }
        let recorded = self.ledger.withdraw(id, withdrawal.clone(), by, self.now(), key).await;
        // One whose outcome is not known stays out of sale until gate and ledger are compared.
        if recorded.is_err()
            && !matches!(recorded, Err(LedgerError::Unclear(_)))
            && let Err(error) = self.admission.put_back(id, withdrawal).await
        {
            let id = self.print(id);
            tracing::warn!(id, %error, "units stay out of sale although that could not be recorded");
        }
        match recorded {
            Err(LedgerError::Unexpected(_)) => {
                let detail = "The stock was changed by somebody else meanwhile; look at it again.".into();
                Err(Refusal::Conflict { code: "stock_changed", detail })
            }
            recorded => Ok(recorded?),
        }
    }

    /// A published sale as buyers see it.
    pub async fn sale(&self, id: CampaignId) -> Result<SaleView, Refusal> {
        let sale = self.campaign(id).await?;
        let left = match self.admission.left(id) {
            Some(left) => left,
            None => self.counters(&sale).await?.available,
        };
        self.view(sale, left).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Published sales, newest first.
    pub async fn sales(&self, page: Page) -> Result<Vec<SaleView>, Refusal> {
        let mut views = Vec::new();
        for (sale, tally) in self.ledger.published(SALES, page).await? {
            let left = self.counted(&sale, tally).await.available;
            views.extend(self.view(sale, left).await?);
        }
        Ok(views)
    }

    async fn view(&self, sale: Campaign, left: u32) -> Result<Option<SaleView>, Refusal> {
        let Some(phase) = sale.phase(self.now(), left) else { return Ok(None) };
        let Some(terms) = sale.sale().copied() else { return Ok(None) };
        let unpaid = match phase {
            Phase::SoldOut => self.ledger.tally(sale.id).await?.map(|tally| tally.awaiting_payment),
            _ => None,
        };
        Ok(Some(SaleView { item: self.item(terms.item).await?, sale, terms, phase, left, unpaid }))
    }

    pub async fn all_sales(&self, page: Page) -> Result<Vec<OperatedSale>, Refusal> {
        self.sales_in(None, page).await
    }

    /// Sales in this state, or all of them; newest first.
    pub async fn sales_in(
        &self,
        state: Option<CampaignState>,
        page: Page,
    ) -> Result<Vec<OperatedSale>, Refusal> {
        let mut operated = Vec::new();
        for (campaign, tally) in self.ledger.campaigns_in(SALES, state, page).await? {
            let Some(terms) = campaign.sale().copied() else { continue };
            let counters = self.counted(&campaign, tally).await;
            operated.push(OperatedSale { campaign, terms, counters });
        }
        Ok(operated)
    }

    pub async fn operated_sale(&self, campaign: Campaign) -> Result<OperatedSale, Refusal> {
        let terms = *campaign.sale().ok_or(Rejection::NotFound)?;
        Ok(OperatedSale { counters: self.counters(&campaign).await?, terms, campaign })
    }
}
