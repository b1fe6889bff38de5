//! Operators' use cases for sales: create, edit, restock, list.

use tidegate_core::ProblemCode;
use tidegate_core::limits::MAX_STOCK;
use tidegate_core::pool::Withdrawal;
use tidegate_core::{Campaign, CampaignId, CampaignState, Kind, Moment, Rejection, Sale};
use tidegate_ledger::{Actor, IdempotentRequest, LedgerError, Page, RestockRefused};

use crate::Refusal;
use crate::campaigns::{CampaignTerms, Campaigns, Counters};

pub const SALES_SCOPE: &str = "sales";
/// The ledger's name for this kind of campaign.
pub(crate) const SALES: &str = "sale";
pub const RESTOCK_SCOPE: &str = "restock";

/// A sale as an operator describes it, already validated.
#[derive(Clone, Debug)]
pub struct SaleTerms {
    pub sale: Sale,
    pub campaign: CampaignTerms,
}

/// A sale as operators see it.
#[derive(Clone, Debug)]
pub struct OperatedSale {
    pub campaign: Campaign,
    pub terms: Sale,
    pub counters: Counters,
}

fn not_running() -> Refusal {
    let detail = "Only a published sale that has not ended can be restocked; edit the draft instead.".into();
    Refusal::Conflict { code: ProblemCode::WrongState, detail }
}

impl Campaigns {
    pub async fn create_sale(
        &self,
        terms: SaleTerms,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        if let Some(before) = self.changes.find_earlier(key.as_ref()).await? {
            return self.find(CampaignId::from_raw(before.subject)).await;
        }
        let now = self.context.now();
        let sale = self.draft_sale(CampaignId::from_raw(self.context.next_id(now)), terms, now, now).await?;
        self.ledger.campaigns.create(sale.clone(), vec![], by, key).await?;
        Ok(sale)
    }

    /// Replaces a draft's terms.
    pub async fn edit_sale(&self, id: CampaignId, terms: SaleTerms, by: Actor) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        let before = self.directory.campaign(id).await?;
        let sale = self.draft_sale(id, terms, before.created_at, self.context.now()).await?;
        if before.state == CampaignState::Draft
            && self.ledger.campaigns.update_draft(sale.clone(), by).await?
        {
            return Ok(sale);
        }
        let detail = "Only a draft can be edited; restock, pause or close a published sale.".into();
        Err(Refusal::Conflict { code: ProblemCode::WrongState, detail })
    }

    async fn draft_sale(
        &self,
        id: CampaignId,
        terms: SaleTerms,
        created_at: Moment,
        now: Moment,
    ) -> Result<Campaign, Refusal> {
        if self.ledger.items.get(terms.sale.item).await?.is_none() {
            return Err(Refusal::invalid("item_id", "names no item"));
        }
        Ok(terms.campaign.drafted(id, Kind::Sale(terms.sale), created_at, now))
    }

    /// Adds units, or withdraws free ones if `units` is negative; returns the change of the stock.
    pub async fn restock(
        &self,
        id: CampaignId,
        units: i64,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<(Campaign, i64), Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        let before = self.find(id).await?;
        before.sale().ok_or(Rejection::NotFound)?;
        if let Some(done) = self.changes.find_earlier(key.as_ref()).await? {
            return Ok((before, done.note));
        }
        if !before.runs() {
            return Err(not_running());
        }
        let amount = u32::try_from(units.unsigned_abs()).unwrap_or(u32::MAX);
        let (after, changed) = if units > 0 {
            (self.add_units(id, amount, by, key).await?, units)
        } else {
            // The gate must know every slot the ledger knows before it says which are free.
            self.gate.apply_stock_log(id).await?;
            let withdrawal = self.admission.withdraw(id, amount).await?.ok_or(Rejection::NotReady)?;
            let changed = -i64::from(withdrawal.units);
            (self.record_withdrawal(id, withdrawal, by, key).await?, changed)
        };
        self.directory.running.insert(after.clone());
        self.gate.stock_changed(id).await;
        Ok((after, changed))
    }

    async fn add_units(
        &self,
        id: CampaignId,
        units: u32,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Campaign, Refusal> {
        let restocked = self.ledger.stock.restock(id, units, by, self.context.now(), key).await?;
        restocked.ok_or(Rejection::NotFound)?.map_err(|refused| match refused {
            RestockRefused::NotRunning => not_running(),
            RestockRefused::TooMany => {
                Refusal::invalid("units", format!("would take the stock above {MAX_STOCK}"))
            }
        })
    }

    async fn record_withdrawal(
        &self,
        id: CampaignId,
        withdrawal: Withdrawal,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Campaign, Refusal> {
        if withdrawal.units == 0 {
            let detail = "No unit is free, so none can be taken out of sale.".into();
            return Err(Refusal::Conflict { code: ProblemCode::NoFreeUnits, detail });
        }
        let recorded = self.ledger.stock.withdraw(id, withdrawal.clone(), by, self.context.now(), key).await;
        // If the outcome is unknown, the units stay withdrawn until gate and ledger are reconciled.
        if recorded.is_err()
            && !matches!(recorded, Err(LedgerError::Unclear(_)))
            && let Err(error) = self.admission.put_back(id, withdrawal).await
        {
            let id = self.context.print(id);
            tracing::warn!(id, %error, "could not put back units whose withdrawal was not recorded");
        }
        match recorded {
            Err(LedgerError::Refused(_)) => {
                let detail = "The stock was changed by somebody else meanwhile; look at it again.".into();
                Err(Refusal::Conflict { code: ProblemCode::StockChanged, detail })
            }
            recorded => Ok(recorded?.ok_or(Rejection::NotFound)?),
        }
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
        for (campaign, tally) in self.ledger.campaigns.list(SALES, state, page).await? {
            let Some(terms) = campaign.sale().copied() else { continue };
            let counters = self.counts.count(&campaign, tally).await;
            operated.push(OperatedSale { campaign, terms, counters });
        }
        Ok(operated)
    }

    pub async fn operated_sale(&self, campaign: Campaign) -> Result<OperatedSale, Refusal> {
        let terms = *campaign.sale().ok_or(Rejection::NotFound)?;
        Ok(OperatedSale { counters: self.counts.counters(&campaign).await?, terms, campaign })
    }
}
