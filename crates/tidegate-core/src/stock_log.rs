//! The stock log: everything that makes units sellable again, or no longer, numbered without gaps per pool.
//!
//! The ledger writes it in the same transaction as its cause; the gate follows it. Applying an entry twice
//! changes nothing.

use crate::{PrizeNumber, Slot, Slots, UserId};

/// One numbered entry of a pool's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockEntry {
    pub seq: u64,
    pub change: StockChange,
}

/// What an entry does to the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockChange {
    /// Slots up to `top` exist from now on.
    Restock { top: Slot },
    /// `user` gave these slots back: cancelled, expired, refunded or rejected; and the prize that came with them.
    Return { user: UserId, slots: Slots, prize: Option<PrizeNumber> },
    /// Slots above `top`, and these, are no longer for sale.
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
