//! Paying and giving money back. Providers are behind a port; the sandbox is the first.

use std::time::Duration;

use tidegate_core::{Order, OrderId, OrderState, Rejection, UserId};
use tidegate_store::ledger::sql::{DueRefund, KeptPayment};
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Payment, Settlement};

use super::{App, Refusal};

/// Who takes the money. A closed set: each variant is one provider.
#[derive(Clone, Debug)]
pub enum Provider {
    Sandbox(Sandbox),
}

/// Takes every payment after a delay. No money moves.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    pub delay: Duration,
}

impl Provider {
    /// Takes an order's money. The reference is the provider's and the same for the same order: asking twice charges once.
    async fn charge(&self, order: &Order) -> Payment {
        match self {
            Self::Sandbox(sandbox) => {
                if !sandbox.delay.is_zero() {
                    tokio::time::sleep(sandbox.delay).await;
                }
                Payment {
                    provider: "sandbox".into(),
                    reference: format!("sandbox-{}", order.id.raw()),
                    order: order.id,
                    amount: order.total(),
                }
            }
        }
    }

    /// Gives the money back; giving it back twice gives it once.
    #[expect(clippy::unused_async, reason = "other providers are asked over a network")]
    async fn give_back(&self, refund: &DueRefund) {
        match self {
            Self::Sandbox(_) => tracing::info!(
                reference = refund.reference,
                amount = refund.amount.amount,
                currency = refund.amount.currency.as_str(),
                reason = refund.reason,
                "the sandbox gave a payment back"
            ),
        }
    }
}

const REFUND_BATCH: u32 = 100;

impl App {
    /// A buyer pays their own order. Paying what is paid changes nothing.
    pub async fn pay(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        self.not_queued(&self.order_of_buyer(buyer, id).await?)?;
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Paid {
            return Ok(order);
        }
        // Refused before any money moves.
        order.clone().pay(self.now())?;
        let payment = self.provider.charge(&order).await;
        self.settle(payment, Actor::Buyer(buyer)).await
    }

    /// Books what a provider says it has taken; whatever cannot be kept goes back, once.
    pub async fn settle(&self, payment: Payment, by: Actor) -> Result<Order, Refusal> {
        let id = payment.order;
        match self.ledger.settle(payment, by, self.now()).await? {
            Settlement::NoSuchOrder => Err(Rejection::NotFound.into()),
            Settlement::Paid(order) => {
                self.metrics.order("paid");
                self.order_paid(order.campaign);
                self.watchers.changed(id);
                Ok(order)
            }
            Settlement::Refund { reason, .. } => {
                self.metrics.order("refund_due");
                let detail = "The payment came too late or did not fit the order. The money goes back.";
                Err(Refusal::Conflict { code: reason, detail: detail.into() })
            }
        }
    }

    /// An operator gives a paid order's money and units back.
    pub async fn refund(&self, id: OrderId, by: Actor) -> Result<Order, Refusal> {
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Refunded {
            return Ok(order);
        }
        let refunded = self.ledger.refund(id, by, self.now()).await?.ok_or(Rejection::NotFound)??;
        self.metrics.order("refunded");
        self.units_returned(&refunded).await?;
        Ok(refunded)
    }

    /// Has the provider give back what is due; gives how many. Called until it gives none.
    pub async fn give_refunds(&self) -> Result<usize, LedgerError> {
        let due = self.ledger.refunds_due(REFUND_BATCH).await?;
        let count = due.len();
        for refund in due {
            self.provider.give_back(&refund).await;
            self.ledger.refund_done(refund, self.now()).await?;
        }
        Ok(count)
    }

    /// What was paid for an order, whether or not it went back.
    pub async fn payments_of(&self, id: OrderId) -> Result<Vec<KeptPayment>, Refusal> {
        Ok(self.ledger.payments_of(id).await?)
    }

    pub async fn refunds_of(&self, id: OrderId) -> Result<Vec<DueRefund>, Refusal> {
        Ok(self.ledger.refunds_of(id).await?)
    }
}
