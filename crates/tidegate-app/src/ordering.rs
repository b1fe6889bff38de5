//! Orders: place, find, cancel, expire. Payments are in `payments`.
//!
//! Invariants: an order that was answered 201 is durable in the intake; a change of an order is in the ledger
//! before it is announced; one idempotency key creates one order.

pub mod attempt;
pub(crate) mod claims;
pub(crate) mod rates;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use tidegate_admission::intake::Unrecorded;
use tidegate_admission::{Admission, Located};
use tidegate_core::{
    Campaign, CampaignId, Claim, ClaimId, ClaimRequest, Granted, IdempotencyKey, Moment, Order, OrderId,
    OrderState, Rejection, UserId, Wanted,
};
use tidegate_ledger::{Actor, LedgerError, OrderFilter, Page};

use self::claims::{Claims, may_have_succeeded_before, refusal_of};
use crate::Refusal;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::gate_sync::GateSync;
use crate::live::Meters;
use crate::order_watchers::Watchers;
use crate::passes::Passes;
use crate::payments::Provider;
use crate::recording::wait_recorded;
use crate::tables::OrderTables;

/// An order; `replayed` if an earlier request placed it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub order: Order,
    pub replayed: bool,
}

/// Orders expired in one transaction.
const EXPIRE_BATCH: u32 = 500;

#[derive(Debug)]
pub struct Ordering {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: OrderTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) gate: Arc<GateSync>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) provider: Provider,
    /// Orders that could not be expired, to log each once.
    pub(crate) unexpirable: parking_lot::Mutex<HashSet<OrderId>>,
}

impl Ordering {
    /// Places an order: decided at the gate, durable in the intake when this returns.
    pub async fn place(
        &self,
        buyer: UserId,
        sale: &Campaign,
        quantity: u32,
        key: Option<IdempotencyKey>,
        pass: Option<&str>,
    ) -> Result<Placed, Refusal> {
        let mut lock = self.admission.lock_buyer(buyer).await;
        // A cluster has no lock: gate and ledger refuse a used key, and it is looked up only after a refusal.
        let looked_up = lock.is_some();
        if lock.as_mut().is_some_and(|lock| !lock.take_first_time())
            && let Some(placed) = Box::pin(self.placed_before(buyer, sale.id, quantity, key)).await?
        {
            return Ok(placed);
        }
        let taken = self.claims.claim(self.order_request(buyer, sale, quantity, key, pass), sale).await;
        drop(lock);
        match self.claims.await_durable(taken).await {
            Ok((claim, durable)) => Ok(Placed { order: as_order(&claim, sale, durable)?, replayed: false }),
            Err(refused) if !looked_up && may_have_succeeded_before(&refused) => {
                let placed = Box::pin(self.placed_before(buyer, sale.id, quantity, key)).await?;
                placed.ok_or_else(|| refusal_of(&refused))
            }
            Err(refused) => Err(refusal_of(&refused)),
        }
    }

    fn order_request(
        &self,
        buyer: UserId,
        campaign: &Campaign,
        quantity: u32,
        key: Option<IdempotencyKey>,
        pass: Option<&str>,
    ) -> Result<ClaimRequest, Rejection> {
        let shown = self.passes.shown(buyer, campaign, pass)?;
        let sale = campaign.sale().ok_or(Rejection::NotFound)?;
        let now = self.context.now();
        let pay_by = now + Duration::from_secs(sale.pay_within_s.into());
        Ok(ClaimRequest {
            id: ClaimId::from_raw(self.context.next_id(now)),
            user: buyer,
            campaign: campaign.id,
            quantity,
            limit: campaign.per_user_limit,
            created_at: now,
            key,
            shown,
            wanted: Wanted::Order { unit_price: sale.price, pay_by },
        })
    }

    /// The order of an earlier request with the same key.
    async fn placed_before(
        &self,
        buyer: UserId,
        sale: CampaignId,
        quantity: u32,
        key: Option<IdempotencyKey>,
    ) -> Result<Option<Placed>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        let order = self.order_by_key(buyer, sale, quantity, key).await?;
        Ok(order.map(|order| Placed { order, replayed: true }))
    }

    /// The order that this key created, if any.
    async fn order_by_key(
        &self,
        buyer: UserId,
        sale: CampaignId,
        quantity: u32,
        key: IdempotencyKey,
    ) -> Result<Option<Order>, Refusal> {
        let waiting = self.unrecorded_orders(buyer);
        let waiting = waiting.into_iter().find(|found| found.claim.key == Some(key));
        let order = match waiting {
            Some(Unrecorded { durable: false, .. }) => return Err(Refusal::InFlight),
            Some(Unrecorded { claim, .. }) => Some(self.order_of(&claim).await?),
            // Another node may have the claim in flight; once recorded, it is in the ledger.
            None if self.admission.is_in_flight(sale, buyer, &key).await? => {
                return Err(Refusal::InFlight);
            }
            None => self.ledger.orders.by_key(buyer, key).await?,
        };
        match order {
            Some(order) if order.campaign != sale || order.quantity() != quantity => Err(Refusal::KeyReused),
            order => Ok(order),
        }
    }

    /// Answers a repeated request after the sale has stopped taking orders. A key can only be known if its buyer
    /// has claimed here, so other buyers cost no lookup.
    pub async fn replay(
        &self,
        buyer: UserId,
        sale: CampaignId,
        quantity: u32,
        key: IdempotencyKey,
    ) -> Result<Option<Order>, Refusal> {
        if self.claims.never_claimed(buyer, sale).await {
            return Ok(None);
        }
        self.order_by_key(buyer, sale, quantity, key).await
    }

    /// Whether the campaign runs and the gate knows that this buyer has never claimed from it.
    pub async fn never_claimed(&self, buyer: UserId, campaign: CampaignId) -> bool {
        self.claims.never_claimed(buyer, campaign).await
    }

    async fn order_of(&self, claim: &Claim) -> Result<Order, Refusal> {
        as_order(claim, &*self.directory.campaign(claim.campaign).await?, true)
    }

    fn unrecorded_orders(&self, buyer: UserId) -> Vec<Unrecorded> {
        let mut found = self.claims.unrecorded(buyer);
        found.retain(|found| matches!(found.claim.granted, Granted::Order { .. }));
        found
    }

    /// A buyer's own order, recorded or not.
    pub async fn order_of_buyer(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        let claim = ClaimId::from_raw(id.raw());
        let recorded = async || {
            let order = self.ledger.orders.get(id).await?;
            Ok::<_, Refusal>(order.filter(|order| order.user == buyer))
        };
        match self.admission.locate(buyer, claim, recorded).await? {
            Located::InLedger(order) => Ok(order),
            Located::InIntake(Unrecorded { claim, durable }) => {
                let order = self.order_of(&claim).await?;
                Ok(Order { state: if durable { order.state } else { OrderState::Queued }, ..order })
            }
            Located::Nowhere => {
                let order = self.order_of(&*self.claims.lost(buyer, claim)?).await?;
                Ok(Order { state: OrderState::Rejected, reason: Some(Rejection::NotReady), ..order })
            }
        }
    }

    /// A buyer's orders, newest first.
    pub async fn orders_of_buyer(&self, buyer: UserId, page: Page) -> Result<Vec<Order>, Refusal> {
        let mut waiting = self.unrecorded_orders(buyer);
        waiting.retain(|found| found.durable);
        let mut orders = self.ledger.orders.by_buyer(buyer, page).await?;
        for found in waiting {
            let id = found.claim.order();
            let wanted = page.before.is_none_or(|before| id.raw() < before);
            if wanted && orders.iter().all(|order| order.id != id) {
                orders.push(self.order_of(&found.claim).await?);
            }
        }
        orders.sort_by_key(|order| std::cmp::Reverse(order.id));
        orders.truncate(page.limit as usize);
        Ok(orders)
    }

    pub async fn orders(&self, filter: OrderFilter, page: Page) -> Result<Vec<Order>, Refusal> {
        wait_recorded(&self.admission).await?;
        Ok(self.ledger.orders.list(filter, page).await?)
    }

    /// An order from the ledger, for operators. Waits for claims that are not recorded yet.
    pub async fn recorded_order(&self, id: OrderId) -> Result<Order, Refusal> {
        if let Some(order) = self.ledger.orders.get(id).await? {
            return Ok(order);
        }
        wait_recorded(&self.admission).await?;
        self.ledger.orders.get(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Cancels the buyer's own order. Cancelling a cancelled order changes nothing.
    pub async fn cancel(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        let order = self.order_of_buyer(buyer, id).await?;
        self.cancel_as(order, Actor::Buyer(buyer)).await
    }

    /// Cancels any order, for an operator.
    pub async fn cancel_for(&self, id: OrderId, by: Actor) -> Result<Order, Refusal> {
        let order = self.recorded_order(id).await?;
        self.cancel_as(order, by).await
    }

    async fn cancel_as(&self, order: Order, by: Actor) -> Result<Order, Refusal> {
        if order.state == OrderState::Cancelled {
            return Ok(order);
        }
        self.refuse_queued(&order)?;
        self.recorded_order(order.id).await?;
        let cancelled = self
            .ledger
            .orders
            .cancel(order.id, by, self.context.now())
            .await?
            .ok_or(Rejection::NotFound)??;
        self.context.metrics.order("cancelled");
        self.gate.units_returned(&cancelled).await;
        Ok(cancelled)
    }

    /// Refuses to change a queued order that another node may record; the client has to retry later.
    pub(crate) fn refuse_queued(&self, order: &Order) -> Result<(), Refusal> {
        if order.state == OrderState::Queued && !self.admission.records_locally() {
            order.clone().pay(self.context.now())?;
        }
        Ok(())
    }

    /// Expires one batch of orders that are due and returns their number. Callers repeat it until that is zero.
    pub async fn expire_due(&self) -> Result<usize, LedgerError> {
        let expired = match self.ledger.orders.expire_due(self.context.now(), EXPIRE_BATCH).await {
            Err(LedgerError::Unexpected(_)) => self.expire_each().await?,
            expired => expired?,
        };
        let mut campaigns: Vec<_> = expired.iter().map(|order| order.campaign).collect();
        campaigns.sort_unstable();
        campaigns.dedup();
        for campaign in campaigns {
            self.gate.stock_changed(campaign).await;
        }
        for order in &expired {
            self.context.metrics.order("expired");
            self.watchers.changed(order.id);
        }
        Ok(expired.len())
    }

    /// Expires due orders one by one: one that cannot be expired must not stop the others.
    async fn expire_each(&self) -> Result<Vec<Order>, LedgerError> {
        let (expired, failed) = self.ledger.orders.expire_each(self.context.now(), EXPIRE_BATCH).await?;
        let mut known = self.unexpirable.lock();
        for (id, error) in failed {
            if known.insert(id) {
                let id = self.context.print(id);
                tracing::error!(id, %error, "an unpaid order cannot be expired; it keeps its units");
            }
        }
        Ok(expired)
    }

    pub async fn next_deadline(&self) -> Result<Option<Moment>, LedgerError> {
        self.ledger.orders.next_deadline().await
    }
}

/// An order as it will be recorded.
fn as_order(claim: &Claim, campaign: &Campaign, durable: bool) -> Result<Order, Refusal> {
    let (Granted::Order { unit_price, pay_by }, Some(sale)) = (&claim.granted, campaign.sale()) else {
        return Err(Rejection::NotFound.into());
    };
    Ok(Order {
        id: claim.order(),
        campaign: claim.campaign,
        item: sale.item,
        user: claim.user,
        slots: claim.slots.clone(),
        unit_price: *unit_price,
        state: if durable { OrderState::AwaitingPayment } else { OrderState::Queued },
        reason: None,
        created_at: claim.created_at,
        pay_by: *pay_by,
        updated_at: claim.created_at,
    })
}
