//! Counters of one running campaign on this node.
//!
//! Invariants: counting takes no lock and allocates nothing; an attempt costs two relaxed additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::latency::{Counts, Latencies};
use tidegate_core::{ProblemCode, Rejection};

const REFUSALS: usize = Rejection::ALL.len() + 1;

/// Outcome of an attempt to order or to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempted {
    Accepted,
    /// An earlier request with the same idempotency key was accepted.
    Replayed,
    /// With the problem code of the response.
    Refused(ProblemCode),
}

/// Category under which a refusal is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCount {
    Rejection(Rejection),
    /// Anything else: wrong fields, reused keys, faults of the server.
    Other,
}

impl RefusalCount {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rejection(rejection) => rejection.code(),
            Self::Other => "other",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    visits: AtomicU64,
    passes: AtomicU64,
    joined: AtomicU64,
    accepted: AtomicU64,
    replayed: AtomicU64,
    refused: [AtomicU64; REFUSALS],
    paid: AtomicU64,
    latencies: Latencies,
}

/// Snapshot of a meter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) visits: u64,
    pub(super) passes: u64,
    pub(super) joined: u64,
    pub(super) accepted: u64,
    pub(super) replayed: u64,
    pub(super) refused: [u64; REFUSALS],
    pub(super) paid: u64,
    pub(super) latencies: Counts,
}

impl Meter {
    pub(super) fn visited(&self) {
        add(&self.visits);
    }

    pub(super) fn passed(&self) {
        add(&self.passes);
    }

    pub(super) fn joined(&self) {
        add(&self.joined);
    }

    pub(super) fn paid(&self) {
        add(&self.paid);
    }

    pub(super) fn attempted(&self, outcome: Attempted, took: Duration) {
        self.latencies.count(took);
        match outcome {
            Attempted::Accepted => add(&self.accepted),
            Attempted::Replayed => add(&self.replayed),
            Attempted::Refused(code) => {
                let at = code.rejection().map_or(REFUSALS - 1, |rejection| rejection as usize);
                add(&self.refused[at]);
            }
        }
    }

    pub(super) fn read(&self) -> Reading {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
            visits: load(&self.visits),
            passes: load(&self.passes),
            joined: load(&self.joined),
            accepted: load(&self.accepted),
            replayed: load(&self.replayed),
            refused: std::array::from_fn(|at| load(&self.refused[at])),
            paid: load(&self.paid),
            latencies: self.latencies.counts(),
        }
    }
}

impl Reading {
    pub(super) fn all_refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    pub(super) fn attempts(&self) -> u64 {
        self.accepted + self.replayed + self.all_refused()
    }

    /// Refusals by reason, in checking order, without zero counts.
    pub(super) fn by_reason(&self) -> Vec<(RefusalCount, u64)> {
        let counts = Rejection::ALL.iter().copied().map(RefusalCount::Rejection).chain([RefusalCount::Other]);
        counts.zip(self.refused).filter(|(_, count)| *count > 0).collect()
    }

    /// Latencies that were counted since an earlier reading.
    pub(super) fn latencies_since(&self, earlier: &Counts) -> Counts {
        std::array::from_fn(|step| self.latencies[step].saturating_sub(earlier[step]))
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_is_counted_under_one_outcome() {
        let meter = Meter::default();
        meter.attempted(Attempted::Accepted, Duration::from_millis(1));
        meter.attempted(Attempted::Replayed, Duration::from_millis(1));
        for &rejection in Rejection::ALL {
            meter.attempted(Attempted::Refused(rejection.into()), Duration::from_millis(1));
        }
        meter.attempted(Attempted::Refused(ProblemCode::ValidationFailed), Duration::from_millis(1));
        let reading = meter.read();
        let refusals = Rejection::ALL.len() as u64 + 1;
        assert_eq!((reading.attempts(), reading.all_refused()), (refusals + 2, refusals));
        assert_eq!(reading.latencies.iter().sum::<u64>(), reading.attempts());
        let reasons = reading.by_reason();
        assert!(reasons.iter().all(|(_, count)| *count == 1), "{reasons:?}");
        assert_eq!((reasons[4].0.as_str(), reasons.last().unwrap().0.as_str()), ("sold_out", "other"));
    }
}
