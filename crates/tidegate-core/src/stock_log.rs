//! The stock log: all changes of the units on sale other than claims, numbered without gaps per pool.
//!
//! The ledger writes an entry in the transaction of its cause; the gate applies it. Applying an entry twice changes
//! nothing.

use crate::{PrizeNumber, Slot, Slots, UserId};

/// One numbered entry of a pool's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockEntry {
    pub seq: u64,
    pub change: StockChange,
}

/// The change of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockChange {
    /// Slots up to `top` exist from now on.
    Restock { top: Slot },
    /// `user` returned these slots, and the prize with them: cancelled, expired, refunded or rejected.
    Return { user: UserId, slots: Slots, prize: Option<PrizeNumber> },
    /// These slots and those above `top` are withdrawn from sale.
    Withdraw { top: Slot, slots: Slots },
}

impl StockChange {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Restock { .. } => "restock",
            Self::Return { .. } => "return",
            Self::Withdraw { .. } => "withdraw",
        }
    }
}
