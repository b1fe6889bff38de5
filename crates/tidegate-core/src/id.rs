//! Ids: 63 bits, ordered by time inside. What the outside sees of them is in `public_id`.

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
            /// For tables: ids that are made one after the other begin and end alike, this does not.
            pub const fn spread(self) -> u32 {
                (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
            }
        }
    )*};
}

id! {
    /// A buyer.
    UserId
    /// Something that is sold.
    ItemId
    /// A sale or a draw; also the name of its pool.
    CampaignId
    /// A claim; also the number of the order or play it becomes.
    ClaimId
    /// An order.
    OrderId
    /// A play.
    PlayId
    /// A draw, as the outside knows it: a campaign.
    DrawId
    /// A delivery.
    DeliveryId
    /// A webhook.
    WebhookId
    /// An operator's account.
    OperatorId
    /// A key with which a machine acts as an operator.
    ApiKeyId
}

impl ClaimId {
    /// The number of the node that made it.
    pub const fn node(self) -> u16 {
        // Ten bits.
        (self.0 >> SEQUENCE_BITS & ((1 << NODE_BITS) - 1)) as u16
    }
}

impl CampaignId {
    /// The draw it is to the outside.
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

/// Hands out ids that rise with time: milliseconds, node, sequence.
///
/// Within one source an id is never given twice, even when the clock stands still or runs backwards: then the
/// ids run ahead of the clock.
#[derive(Debug)]
pub struct IdSource {
    node: u64,
    last: AtomicU64,
}

impl IdSource {
    /// `highest` is the greatest id already in use; everything handed out is above it.
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

    /// The least id above `last` that carries this node's number.
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
    fn a_source_starts_above_what_is_in_use() {
        let used = IdSource::new(9, 0).next(NOON);
        let id = IdSource::new(1, used).next(Moment::from_millis(0));
        assert!(id > used);
        assert_eq!(id >> SEQUENCE_BITS & 0x3ff, 1);
    }
}
