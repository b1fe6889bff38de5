//! Payments and refunds. The sandbox is the only provider so far.

use std::time::Duration;

use tidegate_core::{Order, OrderId, OrderState, Rejection, UserId};
use tidegate_ledger::{Actor, LedgerError, Payment, Settlement};
use tidegate_ledger::{PaymentRecord, RefundRecord};

use crate::Refusal;
use crate::ordering::Ordering;

/// A payment provider. A closed set: each variant is one provider.
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
    /// Takes an order's money. The reference is the provider's and the same for the same order: asking twice charges
    /// once.
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
    async fn give_back(&self, refund: &RefundRecord) {
        match self {
            Self::Sandbox(_) => tracing::info!(
                reference = refund.reference,
                amount = refund.amount.amount,
                currency = refund.amount.currency.as_str(),
                reason = refund.reason.as_str(),
                "the sandbox gave a payment back"
            ),
        }
    }
}

const REFUND_BATCH: u32 = 100;

impl Ordering {
    /// A buyer pays their own order. Paying what is paid changes nothing.
    pub async fn pay(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        self.refuse_queued(&self.order_of_buyer(buyer, id).await?)?;
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Paid {
            return Ok(order);
        }
        // Refused before any money moves.
        order.clone().pay(self.context.now())?;
        let payment = self.provider.charge(&order).await;
        self.settle(payment, Actor::Buyer(buyer)).await
    }

    /// Books a payment that a provider reports. One that cannot be kept is refunded, once.
    pub async fn settle(&self, payment: Payment, by: Actor) -> Result<Order, Refusal> {
        let id = payment.order;
        match self.ledger.payments.settle(payment, by, self.context.now()).await? {
            Settlement::NoSuchOrder => Err(Rejection::NotFound.into()),
            Settlement::Paid(order) => {
                self.context.metrics.order("paid");
                self.meters.order_paid(order.campaign);
                self.watchers.changed(id);
                Ok(order)
            }
            Settlement::Refund { reason, .. } => {
                self.context.metrics.order("refund_due");
                let detail = "The payment came too late or did not fit the order. The money goes back.";
                Err(Refusal::Conflict { code: reason.into(), detail: detail.into() })
            }
        }
    }

    /// An operator gives a paid order's money and units back.
    pub async fn refund(&self, id: OrderId, by: Actor) -> Result<Order, Refusal> {
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Refunded {
            return Ok(order);
        }
        let refunded =
            self.ledger.payments.refund(id, by, self.context.now()).await?.ok_or(Rejection::NotFound)??;
        self.context.metrics.order("refunded");
        self.gate.units_returned(&refunded).await?;
        Ok(refunded)
    }

    /// Has the provider refund what is due; returns how many. Called until there are none.
    pub async fn give_refunds(&self) -> Result<usize, LedgerError> {
        let due = self.ledger.payments.refunds_due(REFUND_BATCH).await?;
        let count = due.len();
        for refund in due {
            self.provider.give_back(&refund).await;
            self.ledger.payments.complete_refund(refund, self.context.now()).await?;
        }
        Ok(count)
    }

    /// The payments of an order, refunded or not.
    pub async fn payments_of(&self, id: OrderId) -> Result<Vec<PaymentRecord>, Refusal> {
        Ok(self.ledger.payments.by_order(id).await?)
    }

    pub async fn refunds_of(&self, id: OrderId) -> Result<Vec<RefundRecord>, Refusal> {
        Ok(self.ledger.payments.refunds_of(id).await?)
    }
}
