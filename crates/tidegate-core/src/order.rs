//! An order: the ledger's record of a claim on a sale, and its state machine.
//!
//! queued → awaiting payment → paid → refunded, or cancelled, expired, rejected. Transitions consume the order;
//! each is possible once, so that a unit is either paid or returned, never both.

use crate::words::words;
use crate::{CampaignId, ItemId, Moment, Money, OrderId, Rejection, Slots, UserId};

words! {
    /// An order's state.
    OrderState {
        Queued "queued" AwaitingPayment "awaiting_payment" Paid "paid" Cancelled "cancelled"
        Expired "expired" Refunded "refunded" Rejected "rejected"
    }
}

impl OrderState {
    /// Whether the order holds its slots.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::AwaitingPayment | Self::Paid)
    }

    /// Whether no transition is possible any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Cancelled | Self::Expired | Self::Refunded | Self::Rejected)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub campaign: CampaignId,
    pub item: ItemId,
    pub user: UserId,
    pub slots: Slots,
    pub unit_price: Money,
    pub state: OrderState,
    pub reason: Option<Rejection>,
    pub created_at: Moment,
    pub pay_by: Moment,
    pub updated_at: Moment,
}

/// The transition is not possible in the order's state.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the order is {} and can no longer be {attempted}", state.as_str())]
pub struct WrongState {
    pub state: OrderState,
    pub attempted: &'static str,
}

impl Order {
    pub fn quantity(&self) -> u32 {
        self.slots.units()
    }

    pub fn total(&self) -> Money {
        self.unit_price.times(self.quantity())
    }

    /// Pays the order before its deadline. From the deadline on it counts as expired, even if that is not recorded yet.
    pub fn pay(self, now: Moment) -> Result<Self, WrongState> {
        if self.state == OrderState::AwaitingPayment && now >= self.pay_by {
            return Err(WrongState { state: OrderState::Expired, attempted: "paid" });
        }
        self.go(OrderState::AwaitingPayment, OrderState::Paid, "paid", now)
    }

    pub fn cancel(self, now: Moment) -> Result<Self, WrongState> {
        self.go(OrderState::AwaitingPayment, OrderState::Cancelled, "cancelled", now)
    }

    /// Possible from the deadline on.
    pub fn expire(self, now: Moment) -> Result<Self, WrongState> {
        if now < self.pay_by {
            return Err(WrongState { state: self.state, attempted: "expired" });
        }
        self.go(OrderState::AwaitingPayment, OrderState::Expired, "expired", now)
    }

    pub fn refund(self, now: Moment) -> Result<Self, WrongState> {
        self.go(OrderState::Paid, OrderState::Refunded, "refunded", now)
    }

    fn go(
        mut self,
        from: OrderState,
        to: OrderState,
        attempted: &'static str,
        now: Moment,
    ) -> Result<Self, WrongState> {
        if self.state != from {
            return Err(WrongState { state: self.state, attempted });
        }
        self.state = to;
        self.updated_at = now;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAY_BY: Moment = Moment::from_millis(1_000);
    const BEFORE: Moment = Moment::from_millis(999);

    fn order(state: OrderState) -> Order {
        Order {
            id: OrderId::from_raw(1),
            campaign: CampaignId::from_raw(2),
            item: ItemId::from_raw(3),
            user: UserId::from_raw(4),
            slots: [7, 8].into_iter().collect(),
            unit_price: Money { amount: 50, currency: "EUR".parse().unwrap() },
            state,
            reason: None,
            created_at: Moment::from_millis(0),
            pay_by: PAY_BY,
            updated_at: Moment::from_millis(0),
        }
    }

    #[test]
    fn the_deadline_decides_between_paid_and_expired() {
        let waiting = || order(OrderState::AwaitingPayment);
        assert_eq!(waiting().pay(BEFORE).unwrap().state, OrderState::Paid);
        assert_eq!(waiting().pay(PAY_BY).unwrap_err().state, OrderState::Expired);
        assert!(waiting().expire(BEFORE).is_err());
        assert_eq!(waiting().expire(PAY_BY).unwrap().state, OrderState::Expired);
    }

    #[test]
    fn a_final_order_never_moves_again() {
        for &state in OrderState::ALL.iter().filter(|state| state.is_final()) {
            assert!(order(state).pay(BEFORE).is_err());
            assert!(order(state).cancel(BEFORE).is_err());
            assert!(order(state).expire(PAY_BY).is_err());
            assert!(order(state).refund(BEFORE).is_err());
        }
    }

    #[test]
    fn only_a_paid_order_is_refunded_and_it_cannot_be_cancelled() {
        assert_eq!(order(OrderState::Paid).refund(BEFORE).unwrap().state, OrderState::Refunded);
        assert!(order(OrderState::Paid).cancel(BEFORE).is_err());
        assert!(order(OrderState::AwaitingPayment).refund(BEFORE).is_err());
    }

    #[test]
    fn the_total_is_quantity_times_price() {
        assert_eq!(order(OrderState::Paid).total().amount, 100);
    }
}
