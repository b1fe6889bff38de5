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

/// Accepts every payment after a delay. No money moves.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    pub delay: Duration,
}

impl Provider {
    /// Charges an order. The provider's reference is the same for the same order, so that charging twice takes the
    /// money once.
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

    /// Refunds a payment. Repeating the call has no effect.
    #[expect(clippy::unused_async, reason = "other providers are asked over a network")]
    async fn refund(&self, refund: &RefundRecord) {
        match self {
            Self::Sandbox(_) => tracing::info!(
                reference = refund.reference,
                amount = refund.amount.amount,
                currency = refund.amount.currency.as_str(),
                reason = refund.reason.as_str(),
                "the sandbox refunded a payment"
            ),
        }
    }
}

const REFUND_BATCH: u32 = 100;

impl Ordering {
    /// Pays the buyer's own order. Paying a paid order changes nothing.
    pub async fn pay(&self, buyer: UserId, id: OrderId) -> Result<Order, Refusal> {
        self.refuse_queued(&self.order_of_buyer(buyer, id).await?)?;
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Paid {
            return Ok(order);
        }
        // Refuses what cannot be paid before any money moves.
        order.clone().pay(self.context.now())?;
        let payment = self.provider.charge(&order).await;
        self.settle(payment, Actor::Buyer(buyer)).await
    }

    /// Books a payment that a provider reports. A payment that cannot be kept is refunded, once.
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

    /// Refunds a paid order and returns its units, for an operator.
    pub async fn refund(&self, id: OrderId, by: Actor) -> Result<Order, Refusal> {
        let order = self.recorded_order(id).await?;
        if order.state == OrderState::Refunded {
            return Ok(order);
        }
        let refunded =
            self.ledger.payments.refund(id, by, self.context.now()).await?.ok_or(Rejection::NotFound)??;
        self.context.metrics.order("refunded");
        self.gate.units_returned(&refunded).await;
        Ok(refunded)
    }

    /// Makes one batch of due refunds through the provider and returns their number. Callers repeat it until that
    /// is zero.
    pub async fn process_refunds(&self) -> Result<usize, LedgerError> {
        let due = self.ledger.payments.refunds_due(REFUND_BATCH).await?;
        let count = due.len();
        for refund in due {
            self.provider.refund(&refund).await;
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
