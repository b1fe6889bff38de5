//! A histogram of latencies with fixed buckets: four per doubling, from 16 µs to about a minute.
//!
//! Invariant: a quantile is the upper bound of its bucket, so it is never too small and at most a quarter too large.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per doubling.
const PER_DOUBLING: usize = 4;
const DOUBLINGS: usize = 22;
/// Upper bound of the first bucket, in microseconds.
const FIRST_US: u64 = 16;
/// Number of buckets, including the first one and the one without an upper bound.
pub const STEPS: usize = DOUBLINGS * PER_DOUBLING + 2;

/// Counts per bucket.
pub type Counts = [u64; STEPS];

/// The bucket of a duration.
pub fn step_of(span: Duration) -> usize {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    if micros <= FIRST_US {
        return 0;
    }
    // Within a doubling that begins at `low`, a bucket is a quarter of it wide.
    let doubling = (micros.ilog2() - FIRST_US.ilog2()) as usize;
    let low = FIRST_US << doubling.min(DOUBLINGS);
    if doubling >= DOUBLINGS {
        return STEPS - 1;
    }
    let quarter = usize::try_from((micros - low) * PER_DOUBLING as u64 / low).unwrap_or(0);
    1 + doubling * PER_DOUBLING + quarter
}

/// The upper bound of a bucket; of the last one, its lower bound.
fn edge_of(step: usize) -> Duration {
    let Some(step) = step.checked_sub(1) else { return Duration::from_micros(FIRST_US) };
    let low = FIRST_US << (step / PER_DOUBLING).min(DOUBLINGS);
    let quarters = if step / PER_DOUBLING >= DOUBLINGS { 0 } else { step % PER_DOUBLING + 1 };
    Duration::from_micros(low + low * quarters as u64 / PER_DOUBLING as u64)
}

/// The quantile for this share; `None` without any count.
pub fn quantile(counts: &Counts, per_mille: u64) -> Option<Duration> {
    let total: u64 = counts.iter().sum();
    let wanted = (total * per_mille).div_ceil(1000).max(1);
    let mut seen = 0;
    let step = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    })?;
    Some(edge_of(step))
}

/// The duration in milliseconds.
pub fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// A histogram that many threads update concurrently.
#[derive(Debug)]
pub struct Latencies([AtomicU64; STEPS]);

impl Default for Latencies {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; STEPS])
    }
}

impl Latencies {
    pub fn count(&self, span: Duration) {
        self.0[step_of(span)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> Counts {
        std::array::from_fn(|step| self.0[step].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_within_the_bounds_of_its_bucket() {
        for micros in (1..5000).chain([9_999, 1_000_000, 59_999_999, 67_108_863]) {
            let span = Duration::from_micros(micros);
            let step = step_of(span);
            assert!(span <= edge_of(step), "{span:?} in step {step}");
            assert!(
                edge_of(step) <= span * 5 / 4 + Duration::from_micros(FIRST_US),
                "{span:?} in step {step}"
            );
            assert!(step == 0 || span >= edge_of(step - 1), "{span:?} in step {step}");
        }
        assert_eq!(step_of(Duration::from_secs(3600)), STEPS - 1);
        assert_eq!(step_of(Duration::MAX), STEPS - 1);
        assert_eq!(edge_of(STEPS - 1).as_secs(), 67);
    }

    #[test]
    fn quantiles_are_read_from_the_counts() {
        let latencies = Latencies::default();
        assert_eq!(quantile(&latencies.counts(), 500), None);
        for millis in 1..=100 {
            latencies.count(Duration::from_millis(millis));
        }
        let counts = latencies.counts();
        let near = |per_mille, millis: u64| {
            let found = quantile(&counts, per_mille).unwrap();
            found >= Duration::from_millis(millis) && found <= Duration::from_millis(millis * 5 / 4 + 1)
        };
        assert!(near(500, 50) && near(900, 90) && near(990, 99), "{counts:?}");
    }
}
