//! Orders: placed, found, cancelled, expired.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, ClaimId, ClaimRequest, Granted, IdempotencyKey, Moment,
    Order, OrderId, OrderState, Phase, Rejection, UserId, Wanted,
};
use tidegate_store::admission::{News, NotTaken, Taken};
use tidegate_store::intake::{AppendError, Unrecorded};
use tidegate_store::ledger::sql::OrderFilter;
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Page};

use super::{App, Refusal};

/// A placed order, and whether this request placed it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub order: Order,
    pub replayed: bool,
}

/// Orders expired in one transaction.
const EXPIRE_BATCH: u32 = 500;

impl App {
    /// The campaign, if it takes claims now. Everything that can refuse without knowing who asks.
    pub async fn open_campaign(&self, id: CampaignId, now: Moment) -> Result<Arc<Campaign>, Refusal> {
        let Some(sale) = self.book.find(id) else { return Err(Box::pin(self.why_not_open(id)).await) };
        let left = self.admission.left(id).ok_or(Rejection::NotReady)?;
        match sale.phase(now, left) {
            None => Err(Rejection::NotFound.into()),
            Some(Phase::Upcoming) => Err(Rejection::NotStarted.into()),
            Some(Phase::Ended) => Err(Rejection::Ended.into()),
            Some(Phase::Paused) => Err(Rejection::Paused.into()),
            Some(Phase::SoldOut) => Err(Rejection::SoldOut.into()),
            Some(Phase::Live) => Ok(sale),
        }
    }

    /// What is told of a campaign that is not in the book.
    async fn why_not_open(&self, id: CampaignId) -> Refusal {
        match self.ledger.campaign(id).await {
            Ok(Some(sale)) if sale.state == CampaignState::Closed => Rejection::Ended.into(),
            // It runs, but the gate does not know yet: starting up.
            Ok(Some(sale)) if sale.is_published() => Rejection::NotReady.into(),
            Ok(_) => Rejection::NotFound.into(),
            Err(error) => error.into(),
        }
    }

    /// Places an order: decided at the gate, durable in the intake when this returns.
    pub async fn place(
        &self,
        buyer: UserId,
        sale: &Campaign,
        quantity: u32,
        key: Option<IdempotencyKey>,
        pass: Option<&str>,
    ) -> Result<Placed, Refusal> {
        let mut turn = self.turn(buyer).await;
        // Without a turn the ledger takes a key once, and only who is refused has to be looked up.
        let looked = turn.is_some();
        if turn.as_mut().is_some_and(|turn| !turn.is_first_of(buyer))
            && let Some(placed) = Box::pin(self.placed_before(buyer, sale.id, quantity, key)).await?
        {
            return Ok(placed);
        }
        let taken = self.claim(self.order_request(buyer, sale, quantity, key, pass), sale).await;
        drop(turn);
        match self.kept(taken).await {
            Ok((claim, durable)) => Ok(Placed { order: as_order(&claim, sale, durable)?, replayed: false }),
            Err(refused) if !looked && may_be_repeated(&refused) => {
                let placed = Box::pin(self.placed_before(buyer, sale.id, quantity, key)).await?;
                placed.ok_or_else(|| not_taken(&refused))
            }
            Err(refused) => Err(not_taken(&refused)),
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
        let shown = self.shown(buyer, campaign, pass)?;
        let sale = campaign.sale().ok_or(Rejection::NotFound)?;
        let now = self.now();
        let pay_by = now + Duration::from_secs(sale.pay_within_s.into());
        Ok(ClaimRequest {
            id: ClaimId::from_raw(self.next_id(now)),
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

    /// Has the gate decide and the intake take the claim. From then on it is the intake's, whether or not anybody waits.
    pub(super) async fn claim(
        &self,
        request: Result<ClaimRequest, Rejection>,
        campaign: &Campaign,
    ) -> Result<Taken, NotTaken> {
        let request = request.map_err(NotTaken::Rejected)?;
        if !self.health.is_ready() || !self.has_its_number() {
            return Err(NotTaken::Rejected(Rejection::NotReady));
        }
        self.admission.claim(request, campaign.protect.user_rate_per_s).await
    }

    /// The claim once it is durable; as it is, and `false`, where that takes longer than an answer may.
    pub(super) async fn kept(&self, taken: Result<Taken, NotTaken>) -> Result<(Arc<Claim>, bool), NotTaken> {
        let Taken { claim, kept } = taken?;
        let Some(kept) = kept else { return Ok((claim, false)) };
        match kept.wait().await {
            Err(AppendError::Late) => Ok((claim, false)),
            kept => kept.map(|()| (claim, true)).map_err(NotTaken::NotKept),
        }
    }

    /// The answer to a repeated request.
    async fn placed_before(
        &self,
        buyer: UserId,
        sale: CampaignId,
        quantity: u32,
        key: Option<IdempotencyKey>,
    ) -> Result<Option<Placed>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        let order = self.earlier(buyer, sale, quantity, key).await?;
        Ok(order.map(|order| Placed { order, replayed: true }))
    }

    /// What this key made before, if anything.
    async fn earlier(
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
            // Perhaps another node's; if it is recorded by now, it is in the ledger.
            None if self.admission.is_in_flight(sale, buyer, &key).await? => {
                return Err(Refusal::InFlight);
            }
            None => self.ledger.find_by_key(buyer, key).await?,
        };
        match order {
            Some(order) if order.campaign != sale || order.quantity() != quantity => Err(Refusal::KeyReused),
            order => Ok(order),
        }
    }

    /// Answers a repeated request although the sale takes no orders any more. A key can only be known if its buyer has
    /// claimed here, so that everybody else costs no look-up.
    pub async fn replay(
        &self,
        buyer: UserId,
        sale: CampaignId,
        quantity: u32,
        key: IdempotencyKey,
    ) -> Result<Option<Order>, Refusal> {
        if self.holds_nothing(buyer, sale).await {
            return Ok(None);
        }
        self.earlier(buyer, sale, quantity, key).await
    }

    /// Whether the gate knows for certain that this buyer has nothing of a running campaign.
    pub async fn holds_nothing(&self, buyer: UserId, campaign: CampaignId) -> bool {
        self.admission.left(campaign).is_some()
            && matches!(self.admission.held_by(campaign, buyer).await, Ok(None))
    }

    async fn order_of(&self, claim: &Claim) -> Result<Order, Refusal> {
        let sale = match self.book.find(claim.campaign) {
            Some(sale) => sale,
            None => Arc::new(self.ledger.campaign(claim.campaign).await?.ok_or(Rejection::NotFound)?),
        };
        as_order(claim, &sale, true)
    }

    fn unrecorded_orders(&self, buyer: UserId) -> Vec<Unrecorded> {
        let mut found = self.admission.of_buyer(buyer);
        found.retain(|found| matches!(found.claim.granted, Granted::Order { .. }));
        found
    }

    /// A buyer's own order, recorded or not.
    pub async fn order_of_buyer(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        let claim = ClaimId::from_raw(id.raw());
        // Where there are many nodes most are recorded, and the intake has to be asked over the network.
        if !self.admission.is_embedded()
            && let Some(order) = self.ledger.find_order(id).await?.filter(|order| order.user == buyer)
        {
            return Ok(order);
        }
        // The intake before the ledger: what it has let go is there.
        if let Some(found) = self.admission.find(buyer, claim).await? {
            let mut order = self.order_of(&found.claim).await?;
            if !found.durable {
                order.state = OrderState::Queued;
            }
            return Ok(order);
        }
        if let Some(order) = self.ledger.find_order(id).await?.filter(|order| order.user == buyer) {
            return Ok(order);
        }
        let refused = self.refused.get(&claim).filter(|claim| claim.user == buyer);
        let order = self.order_of(refused.ok_or(Rejection::NotFound)?.as_ref()).await?;
        Ok(Order { state: OrderState::Rejected, reason: Some(Rejection::NotReady), ..order })
    }

    /// A buyer's orders, newest first.
    pub async fn orders_of_buyer(&self, buyer: UserId, page: Page) -> Result<Vec<Order>, Refusal> {
        let mut waiting = self.unrecorded_orders(buyer);
        waiting.retain(|found| found.durable);
        let mut orders = self.ledger.orders_of(buyer, page).await?;
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
        self.caught_up().await?;
        Ok(self.ledger.orders(filter, page).await?)
    }

    /// An order for an operator, recorded.
    pub async fn recorded_order(&self, id: OrderId) -> Result<Order, Refusal> {
        if let Some(order) = self.ledger.find_order(id).await? {
            return Ok(order);
        }
        self.caught_up().await?;
        self.ledger.find_order(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// A buyer cancels their own order. Cancelling what is cancelled changes nothing.
    pub async fn cancel(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        let order = self.order_of_buyer(buyer, id).await?;
        self.cancel_as(order, Actor::Buyer(buyer)).await
    }

    /// An operator cancels it for its buyer.
    pub async fn cancel_for(&self, id: OrderId, by: Actor) -> Result<Order, Refusal> {
        let order = self.recorded_order(id).await?;
        self.cancel_as(order, by).await
    }

    async fn cancel_as(&self, order: Order, by: Actor) -> Result<Order, Refusal> {
        if order.state == OrderState::Cancelled {
            return Ok(order);
        }
        self.not_queued(&order)?;
        self.recorded_order(order.id).await?;
        let cancelled = self.ledger.cancel(order.id, by, self.now()).await?.ok_or(Rejection::NotFound)??;
        self.metrics.order("cancelled");
        self.units_returned(&cancelled).await?;
        Ok(cancelled)
    }

    /// An order that many nodes have not recorded yet can only be waited for.
    pub(super) fn not_queued(&self, order: &Order) -> Result<(), Refusal> {
        if order.state == OrderState::Queued && !self.admission.is_embedded() {
            order.clone().pay(self.now())?;
        }
        Ok(())
    }

    /// Expires what is due; gives how many. Called until it gives none.
    pub async fn expire_due(&self) -> Result<usize, LedgerError> {
        let expired = self.ledger.expire_due(self.now(), EXPIRE_BATCH).await?;
        let mut campaigns: Vec<_> = expired.iter().map(|order| order.campaign).collect();
        campaigns.sort_unstable();
        campaigns.dedup();
        for campaign in campaigns {
            self.follow(campaign).await?;
            self.tell(News::Campaign(campaign)).await;
        }
        for order in &expired {
            self.metrics.order("expired");
            self.watchers.changed(order.id);
        }
        Ok(expired.len())
    }

    pub async fn next_deadline(&self) -> Result<Option<Moment>, LedgerError> {
        self.ledger.next_deadline().await
    }

    /// After a commit that gave units back: the gate sells them again, and whoever watches hears of it.
    pub(super) async fn units_returned(&self, order: &Order) -> Result<(), Refusal> {
        self.follow(order.campaign).await?;
        self.tell(News::Campaign(order.campaign)).await;
        self.watchers.changed(order.id);
        Ok(())
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

/// Whether the key may have made something before: then that is the answer, not the refusal.
pub(super) fn may_be_repeated(refused: &NotTaken) -> bool {
    !matches!(
        refused,
        NotTaken::InFlight
            | NotTaken::TooOften
            | NotTaken::NotKept(AppendError::Full | AppendError::NoRoom(_) | AppendError::Failed(_))
    )
}

pub(super) fn not_taken(refused: &NotTaken) -> Refusal {
    match refused {
        NotTaken::Rejected(rejection) => (*rejection).into(),
        // What its key made was there a moment ago, and is looked for again.
        NotTaken::InFlight | NotTaken::Repeated => Refusal::InFlight,
        NotTaken::TooOften => Refusal::Slower { retry_after: Duration::from_secs(1) },
        NotTaken::NotKept(error) => not_kept(error),
    }
}

fn not_kept(error: &AppendError) -> Refusal {
    match error {
        AppendError::Full => Rejection::Busy.into(),
        AppendError::NoRoom(_) => Rejection::NotReady.into(),
        AppendError::Rejected(rejection) => (*rejection).into(),
        AppendError::Failed(_) | AppendError::Late => Refusal::Unknown(
            "The order was being kept when something failed, so its outcome is not known yet. Look at your orders later, \
             or repeat the request with the same Idempotency-Key."
                .into(),
        ),
    }
}
