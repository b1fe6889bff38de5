//! Sales: created, published, paused, restocked, closed; opened and closed at their times.

use tidegate_core::campaign::Step;
use tidegate_core::pool::{Door, Withdrawal};
use tidegate_core::{
    Campaign, CampaignId, CampaignState, Item, ItemId, Moment, Money, Phase, Protect, Rejection, Seed, Window,
};
use tidegate_store::gate::Gate;
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Page, Remember, Tally};

use super::{App, Refusal};

pub const SALES_SCOPE: &str = "sales";
pub const RESTOCK_SCOPE: &str = "restock";

/// What an operator says about a sale; checked at the edge.
#[derive(Clone, Debug)]
pub struct SaleTerms {
    pub item: ItemId,
    pub price: Money,
    pub stock: u32,
    pub window: Window,
    pub per_user_limit: u32,
    pub pay_within_s: u32,
    pub shards: u32,
    pub protect: Protect,
}

/// A sale as buyers see it.
#[derive(Clone, Debug)]
pub struct SaleView {
    pub sale: Campaign,
    pub item: Item,
    pub phase: Phase,
    pub left: u32,
}

/// A sale's units, as operators see them.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    pub tally: Tally,
    pub available: u32,
    pub queued: u32,
}

impl App {
    pub async fn create_sale(&self, terms: SaleTerms, key: Option<Remember>) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        if let Some(before) = self.done_before(key.as_ref())? {
            return self.campaign(CampaignId::from_raw(before.subject));
        }
        let now = self.now();
        let sale = self.drafted(CampaignId::from_raw(self.next_id(now)), terms, now, now)?;
        self.ledger.create_campaign(sale.clone(), key).await?;
        Ok(sale)
    }

    /// Replaces a draft's terms.
    pub async fn edit_sale(&self, id: CampaignId, terms: SaleTerms) -> Result<Campaign, Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id)?;
        let sale = self.drafted(id, terms, before.created_at, self.now())?;
        if before.state == CampaignState::Draft && self.ledger.edit_draft(sale.clone()).await? {
            return Ok(sale);
        }
        let detail = "Only a draft can be edited; restock, pause or close a published sale.".into();
        Err(Refusal::Conflict { code: "wrong_state", detail })
    }

    fn drafted(
        &self,
        id: CampaignId,
        terms: SaleTerms,
        created_at: Moment,
        now: Moment,
    ) -> Result<Campaign, Refusal> {
        let SaleTerms { item, price, stock, window, per_user_limit, pay_within_s, shards, protect } = terms;
        if self.ledger.item(item)?.is_none() {
            return Err(Refusal::invalid("item_id", "names no item"));
        }
        Ok(Campaign {
            id,
            item,
            price,
            stock,
            top: stock,
            window,
            per_user_limit,
            pay_within_s,
            shards,
            protect,
            state: CampaignState::Draft,
            epoch: 0,
            opened: false,
            created_at,
            updated_at: now,
        })
    }

    pub fn campaign(&self, id: CampaignId) -> Result<Campaign, Refusal> {
        if let Some(sale) = self.book.find(id) {
            return Ok(sale.as_ref().clone());
        }
        self.ledger.campaign(id)?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Takes one step of a sale's lifecycle and lets the gate follow.
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
            self.campaign(id)?.step(step, now)?;
            self.prewarm(id, now).await?;
        }
        if matches!(step, Step::Pause | Step::Close) {
            self.gate.set_door(id, Door::Paused).await;
        }
        let stepped = self.ledger.step(id, step, by, now, reason).await;
        let current = self.ledger.campaign(id)?.ok_or(Rejection::NotFound)?;
        self.gate.set_door(id, current.door()).await;
        let closed = current.state == CampaignState::Closed;
        self.book.enter(current);
        if closed {
            self.gate.remove(id);
            self.rates.forget(id);
            self.rooms.forget(id);
        }
        Ok(stepped?.ok_or(Rejection::NotFound)??)
    }

    /// Installs the pool behind a closed door, in a new epoch: claims of earlier ones are recorded by then.
    async fn prewarm(&self, id: CampaignId, now: Moment) -> Result<(), Refusal> {
        self.let_turns_pass();
        self.caught_up(self.journal.end()).await?;
        let seed = self.ledger.reseed(id, now).await?.ok_or(Rejection::NotFound)?;
        self.gate.install(id, Seed { door: Door::Closed, ..seed }).await;
        Ok(())
    }

    /// Adds units, or takes free ones out of sale; gives by how many the stock changed.
    pub async fn restock(
        &self,
        id: CampaignId,
        units: i64,
        key: Option<Remember>,
    ) -> Result<(Campaign, i64), Refusal> {
        let _one_at_a_time = self.campaigns.lock().await;
        let before = self.campaign(id)?;
        if let Some(done) = self.done_before(key.as_ref())? {
            return Ok((before, done.note));
        }
        if !matches!(before.state, CampaignState::Live | CampaignState::Paused) {
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
            self.ledger.restock(id, amount, self.now(), key).await?
        } else {
            // The gate must know every slot the ledger knows before it says which are free.
            self.follow(id).await?;
            let withdrawal = self.gate.withdraw(id, amount).await.ok_or(Rejection::NotReady)?;
            self.record_withdrawal(id, withdrawal, key).await?
        };
        let after = after.ok_or(Rejection::NotFound)?;
        self.follow(id).await?;
        self.book.enter(after.clone());
        let changed = i64::from(after.stock) - i64::from(before.stock);
        Ok((after, changed))
    }

    async fn record_withdrawal(
        &self,
        id: CampaignId,
        withdrawal: Withdrawal,
        key: Option<Remember>,
    ) -> Result<Option<Campaign>, Refusal> {
        if withdrawal.units == 0 {
            let detail = "No unit is free, so none can be taken out of sale.".into();
            return Err(Refusal::Conflict { code: "no_free_units", detail });
        }
        let recorded = self.ledger.withdraw(id, withdrawal.clone(), self.now(), key).await;
        if recorded.is_err() {
            self.gate.put_back(id, withdrawal).await;
        }
        Ok(recorded?)
    }

    /// A published sale as buyers see it.
    pub fn sale(&self, id: CampaignId) -> Result<SaleView, Refusal> {
        let sale = self.campaign(id)?;
        let left = match self.gate.left(id) {
            Some(left) => left,
            None => self.counters(&sale)?.available,
        };
        self.view(sale, left)?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Published sales, newest first.
    pub async fn sales(&self, page: Page) -> Result<Vec<SaleView>, Refusal> {
        let mut views = Vec::new();
        for (sale, tally) in self.ledger.campaigns(true, page).await? {
            let left = self.counted(&sale, tally).available;
            views.extend(self.view(sale, left)?);
        }
        Ok(views)
    }

    fn view(&self, sale: Campaign, left: u32) -> Result<Option<SaleView>, Refusal> {
        let Some(phase) = sale.phase(self.now(), left) else { return Ok(None) };
        let item = self.item(sale.item)?;
        Ok(Some(SaleView { sale, item, phase, left }))
    }

    pub async fn all_sales(&self, page: Page) -> Result<Vec<(Campaign, Counters)>, Refusal> {
        let sales = self.ledger.campaigns(false, page).await?;
        let counted = sales.into_iter().map(|(sale, tally)| {
            let counters = self.counted(&sale, tally);
            (sale, counters)
        });
        Ok(counted.collect())
    }

    pub fn counters(&self, sale: &Campaign) -> Result<Counters, Refusal> {
        let tally = self.ledger.tally(sale.id)?.unwrap_or_default();
        Ok(self.counted(sale, tally))
    }

    fn counted(&self, sale: &Campaign, tally: Tally) -> Counters {
        let queued = self.journal.queued_units(sale.id);
        let unheld = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid + queued);
        let available = self.gate.left(sale.id).unwrap_or(unheld);
        Counters { tally, available, queued }
    }

    /// Opens and closes what is due; gives when the next sale opens or closes.
    pub async fn keep_times(&self) -> Result<Option<Moment>, LedgerError> {
        let mut next: Option<Moment> = None;
        for sale in self.book.all() {
            let now = self.now();
            if now >= sale.window.ends_at {
                if let Err(refusal) = self.step(sale.id, Step::Close, Actor::Clock, None).await {
                    tracing::warn!(sale = %self.print(sale.id), %refusal, "a sale could not be closed at its end");
                }
                continue;
            }
            if now >= sale.window.starts_at && !sale.opened {
                self.announce_opening(sale.id, now).await?;
            }
            let due = if now < sale.window.starts_at { sale.window.starts_at } else { sale.window.ends_at };
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Ok(next)
    }

    async fn announce_opening(&self, id: CampaignId, now: Moment) -> Result<(), LedgerError> {
        let _one_at_a_time = self.campaigns.lock().await;
        self.ledger.announce_opening(id, now).await?;
        if let Some(sale) = self.ledger.campaign(id)? {
            self.book.enter(sale);
        }
        tracing::info!(sale = %self.print(id), "a sale has opened");
        Ok(())
    }

    /// Lets book and gate catch up with the ledger: what an interrupted step left behind, and the stock log of every
    /// running sale.
    pub async fn follow_all(&self) -> Result<(), LedgerError> {
        for sale in self.ledger.running()? {
            if self.book.find(sale.id).is_none_or(|entered| *entered != sale) {
                self.catch_up_with(sale.id).await?;
            }
            self.follow(sale.id).await?;
        }
        Ok(())
    }

    async fn catch_up_with(&self, id: CampaignId) -> Result<(), LedgerError> {
        let _one_at_a_time = self.campaigns.lock().await;
        let Some(sale) = self.ledger.campaign(id)? else { return Ok(()) };
        self.gate.set_door(id, sale.door()).await;
        self.book.enter(sale);
        Ok(())
    }
}
