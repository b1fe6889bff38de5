//! Deferring recording during a burst of claims, for both intakes.
//!
//! Recording a claim costs as much CPU time as accepting it, and on a small machine both compete for the same cores.
//! The intake keeps the claims, so recording can wait. Invariants: it is deferred for at most `max_deferral`; after
//! that everything is recorded before it is deferred again. An intake that is half full, or whose rows are awaited,
//! does not ask.

use std::time::{Duration, Instant};

/// How often the claims are counted while recording is deferred.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Claims per interval that make a burst: 5,000 a second.
const BURST_CLAIMS: f64 = 50.0;

/// Detects bursts by sampling a running count of claims.
#[derive(Debug)]
pub(crate) struct BurstDetector {
    max_deferral: Duration,
    /// The number of claims at the last sample, and its time.
    sample: (u64, Instant),
    is_burst: bool,
    /// When recording was first deferred since it last caught up.
    deferred_since: Option<Instant>,
}

impl BurstDetector {
    /// With a `max_deferral` of zero, recording is never deferred.
    pub(crate) fn new(max_deferral: Duration, claims: u64, now: Instant) -> Self {
        Self { max_deferral, sample: (claims, now), is_burst: false, deferred_since: None }
    }

    /// Everything is recorded.
    pub(crate) fn caught_up(&mut self) {
        self.deferred_since = None;
    }

    /// The first claims after a pause may start a burst: assumed until the next sample.
    pub(crate) fn assume_burst(&mut self, claims_before: u64, now: Instant) {
        self.sample = (claims_before, now);
        self.is_burst = true;
    }

    /// Whether recording must wait. `claims` is the number of claims so far.
    pub(crate) fn defers(&mut self, claims: u64, now: Instant) -> bool {
        let (before, then) = self.sample;
        let intervals = now.duration_since(then).div_duration_f64(SAMPLE_INTERVAL);
        if intervals >= 1.0 {
            // A journal's count falls when a full disk drops claims.
            #[expect(clippy::cast_precision_loss, reason = "claims since the last sample")]
            let arrived = claims.saturating_sub(before) as f64;
            self.is_burst = arrived >= BURST_CLAIMS * intervals;
            self.sample = (claims, now);
        }
        self.is_burst && now.duration_since(*self.deferred_since.get_or_insert(now)) < self.max_deferral
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_defers_recording_within_a_bound_and_again_only_after_it_has_caught_up() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut burst = BurstDetector::new(Duration::from_secs(2), 0, start);
        assert!(!burst.defers(10, at(5)), "too early to tell");
        assert!(!burst.defers(49, at(10)), "a few");
        assert!(burst.defers(150, at(20)), "a burst");
        assert!(burst.defers(150, at(25)), "it lasts until the next sample");
        assert!(!burst.defers(151, at(40)), "over");
        assert!(burst.defers(10_000, at(1000)));
        assert!(!burst.defers(30_000, at(2020)), "the bound is reached");
        assert!(!burst.defers(40_000, at(2100)), "not again before everything is recorded");
        burst.caught_up();
        assert!(burst.defers(50_000, at(2200)));
        burst.caught_up();
        burst.assume_burst(50_000, at(9000));
        assert!(burst.defers(50_001, at(9000)), "it may be a burst");
        assert!(!burst.defers(50_020, at(9010)), "it was none");
    }

    #[test]
    fn without_a_deferral_nothing_waits() {
        let start = Instant::now();
        let mut burst = BurstDetector::new(Duration::ZERO, 0, start);
        burst.assume_burst(0, start);
        assert!(!burst.defers(1_000_000, start + SAMPLE_INTERVAL));
    }
}
