//! Internal ids: 63 bits, ordered by time. `public_id` converts them for clients.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::Moment;

macro_rules! id {
    ($(#[$doc:meta] $name:ident)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            pub const fn from_raw(raw: u64) -> Self {
                Self(raw)
            }
            pub const fn raw(self) -> u64 {
                self.0
            }
            /// A well-distributed hash: consecutive ids share their high and low bits.
            pub const fn spread(self) -> u32 {
                (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
            }
        }
    )*};
}

id! {
    /// A buyer.
    UserId
    /// An item.
    ItemId
    /// A sale or a draw; identifies its pool, too.
    CampaignId
    /// A claim; also the id of its order or play.
    ClaimId
    /// An order.
    OrderId
    /// A play.
    PlayId
    /// A draw's campaign, as clients see it.
    DrawId
    /// A delivery.
    DeliveryId
    /// A webhook.
    WebhookId
    /// An operator's account.
    OperatorId
    /// An API key.
    ApiKeyId
}

impl UserId {
    /// No buyer: in the stock log, where units return that nobody had.
    pub const NOBODY: Self = Self(0);
}

impl ClaimId {
    /// The number of the node that generated the id.
    pub const fn node(self) -> u16 {
        // The node number has ten bits.
        (self.0 >> SEQUENCE_BITS & ((1 << NODE_BITS) - 1)) as u16
    }
}

impl CampaignId {
    /// The id of the draw that clients see.
    pub const fn as_draw(self) -> DrawId {
        DrawId(self.0)
    }
}

impl DrawId {
    pub const fn campaign(self) -> CampaignId {
        CampaignId(self.0)
    }
}

/// 2024-01-01T00:00:00Z: 41 bits of milliseconds from here last until 2093.
const EPOCH_MS: i64 = 1_704_067_200_000;
const NODE_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;

/// Generates ids that increase with time: milliseconds, node number, sequence.
///
/// A source never generates an id twice, even if the clock stands still or runs backwards: then the ids run ahead of
/// the clock.
#[derive(Debug)]
pub struct IdSource {
    node: u64,
    last: AtomicU64,
}

impl IdSource {
    /// `highest` is the greatest id in use; all new ids are above it.
    pub fn new(node: u16, highest: u64) -> Self {
        assert!(u32::from(node) < 1 << NODE_BITS, "node {node} does not fit its {NODE_BITS} bits");
        Self { node: u64::from(node), last: AtomicU64::new(highest) }
    }

    pub fn next(&self, now: Moment) -> u64 {
        let millis = u64::try_from(now.millis() - EPOCH_MS).unwrap_or(0) & ((1 << 41) - 1);
        let first_now = millis << (NODE_BITS + SEQUENCE_BITS) | self.node << SEQUENCE_BITS;
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let id = first_now.max(self.following(last));
            match self.last.compare_exchange_weak(last, id, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return id,
                Err(seen) => last = seen,
            }
        }
    }

    /// The smallest id above `last` with this node's number.
    fn following(&self, last: u64) -> u64 {
        let ours = |id: u64| id >> SEQUENCE_BITS & ((1 << NODE_BITS) - 1) == self.node;
        if ours(last) && ours(last + 1) {
            return last + 1;
        }
        let millis = last >> (NODE_BITS + SEQUENCE_BITS);
        let this_milli = millis << (NODE_BITS + SEQUENCE_BITS) | self.node << SEQUENCE_BITS;
        if this_milli > last { this_milli } else { this_milli + (1 << (NODE_BITS + SEQUENCE_BITS)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_777_629_600_000);

    #[test]
    fn ids_rise_even_when_the_clock_stands_still_or_runs_back() {
        let source = IdSource::new(3, 0);
        let mut last = 0;
        for step in 0..20_000_i64 {
            let id = source.next(Moment::from_millis(NOON.millis() - step / 100));
            assert!(id > last && id >> 63 == 0);
            assert_eq!(id >> SEQUENCE_BITS & 0x3ff, 3, "every id carries its node");
            last = id;
        }
    }

    #[test]
    fn new_ids_are_above_the_highest_id_in_use() {
        let used = IdSource::new(9, 0).next(NOON);
        let id = IdSource::new(1, used).next(Moment::from_millis(0));
        assert!(id > used);
        assert_eq!(id >> SEQUENCE_BITS & 0x3ff, 1);
    }
}
