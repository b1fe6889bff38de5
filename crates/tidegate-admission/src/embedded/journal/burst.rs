//! Deferring the recorder during a burst of claims.
//!
//! Recording a claim costs as much CPU time as accepting it, and on a small machine both compete for the same cores.
//! The journal keeps the claims, so recording can wait: a burst of 100,000 orders is a quarter to a half faster.
//! Invariants: recording is deferred for at most `MAX_DEFERRAL`, not while the journal is half full, and not while a
//! request waits for a row; after that everything is recorded before it is deferred again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tidegate_ledger::Position;

use super::Shared;

const MAX_DEFERRAL: Duration = Duration::from_secs(3);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Claims per interval that make a burst: 5,000 a second.
const BURST_CLAIMS: f64 = 50.0;

/// Samples the journal's end to detect bursts.
#[derive(Debug)]
pub(super) struct BurstDetector {
    /// The newest position at the last sample, and its time.
    sample: (Position, Instant),
    is_burst: bool,
    /// When recording was first deferred since it last caught up.
    deferred_since: Option<Instant>,
}

impl BurstDetector {
    pub(super) fn new(end: Position) -> Self {
        Self { sample: (end, Instant::now()), is_burst: false, deferred_since: None }
    }

    /// Every durable claim is recorded.
    pub(super) fn caught_up(&mut self) {
        self.deferred_since = None;
    }

    /// The first claims after a pause may start a burst: assumed until the next sample.
    pub(super) fn assume_burst(&mut self, before: Position, now: Instant) {
        self.sample = (before, now);
        self.is_burst = true;
    }

    /// Whether recording must wait.
    fn defers(&mut self, end: Position, now: Instant) -> bool {
        let (before, then) = self.sample;
        let intervals = now.duration_since(then).div_duration_f64(SAMPLE_INTERVAL);
        if intervals >= 1.0 {
            // The end falls when a full disk drops claims.
            #[expect(clippy::cast_precision_loss, reason = "claims since the last sample")]
            let claims = end.saturating_sub(before) as f64;
            self.is_burst = claims >= BURST_CLAIMS * intervals;
            self.sample = (end, now);
        }
        self.is_burst && now.duration_since(*self.deferred_since.get_or_insert(now)) < MAX_DEFERRAL
    }
}

/// Waits until recording may go on.
pub(super) async fn wait(shared: &Shared) {
    loop {
        let (end, must_record) = {
            let backlog = shared.backlog.lock();
            let is_awaited = backlog.recorded() < shared.record_through.load(Ordering::Acquire);
            (backlog.end(), is_awaited || backlog.is_half_full())
        };
        if must_record || !shared.burst.lock().defers(end, Instant::now()) {
            return;
        }
        tokio::select! {
            () = shared.record_now.notified() => {}
            () = tokio::time::sleep(SAMPLE_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_defers_recording_within_a_bound_and_again_only_after_it_has_caught_up() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut burst = BurstDetector { sample: (0, start), is_burst: false, deferred_since: None };
        assert!(!burst.defers(10, at(5)), "too early to tell");
        assert!(!burst.defers(49, at(10)), "a few");
        assert!(burst.defers(150, at(20)), "a burst");
        assert!(burst.defers(150, at(25)), "it lasts until the next sample");
        assert!(!burst.defers(151, at(40)), "over");
        assert!(burst.defers(10_000, at(1000)));
        assert!(!burst.defers(30_000, at(3020)), "the bound is reached");
        assert!(!burst.defers(40_000, at(3100)), "not again before everything is recorded");
        burst.caught_up();
        assert!(burst.defers(50_000, at(3200)));
        burst.caught_up();
        burst.assume_burst(50_000, at(9000));
        assert!(burst.defers(50_001, at(9000)), "it may be a burst");
        assert!(!burst.defers(50_020, at(9010)), "it was none");
    }
}
