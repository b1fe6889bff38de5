//! Time series of a campaign's figures, bounded to 900 points however long the campaign runs.
//!
//! When the series is full, adjacent points are merged and the interval doubles. A merged point has the later
//! levels, the mean of the rates and the maximum of the latencies, so that no latency peak is smoothed away.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Moment;
use tidegate_core::latency::{Counts, STEPS, quantile};

use super::meter::Reading;
use crate::campaigns::Counters;

/// Maximum number of points.
const MAX_POINTS: usize = 900;

/// One point of the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub at: Moment,
    /// Units available.
    pub left: u32,
    /// Units accepted but not recorded.
    pub queued: u32,
    /// Units that await payment.
    pub held: u32,
    /// Units paid, or seats played.
    pub paid: u32,
    /// Units returned, counted each time.
    pub returned: u32,
    /// People in the waiting room.
    pub waiting: usize,
    pub attempts_per_s: f64,
    pub accepted_per_s: f64,
    pub refused_per_s: f64,
    /// `None` without attempts.
    pub p50: Option<Duration>,
    pub p90: Option<Duration>,
    pub p99: Option<Duration>,
}

impl Sample {
    /// Merges two adjacent points; `self` is the earlier one.
    fn and(self, later: Self) -> Self {
        let mean = |one: f64, other: f64| f64::midpoint(one, other);
        Self {
            attempts_per_s: mean(self.attempts_per_s, later.attempts_per_s),
            accepted_per_s: mean(self.accepted_per_s, later.accepted_per_s),
            refused_per_s: mean(self.refused_per_s, later.refused_per_s),
            p50: self.p50.max(later.p50),
            p90: self.p90.max(later.p90),
            p99: self.p99.max(later.p99),
            ..later
        }
    }
}

/// Counter values at one moment, to compute differences from.
#[derive(Clone, Copy, Debug)]
struct CounterSnapshot {
    at: Moment,
    attempts: u64,
    accepted: u64,
    refused: u64,
    latencies: Counts,
}

impl CounterSnapshot {
    fn of(at: Moment, reading: &Reading) -> Self {
        let (attempts, accepted) = (reading.attempts(), reading.accepted);
        Self { at, attempts, accepted, refused: reading.all_refused(), latencies: reading.latencies }
    }

    /// The sample for the interval from this snapshot until `at`.
    fn sample(&self, at: Moment, reading: &Reading, counters: &Counters, waiting: usize) -> Sample {
        let seconds = self.at.until(at).as_secs_f64();
        let per_s = |now: u64, then: u64| per_second(now.saturating_sub(then), seconds);
        let since = reading.latencies_since(&self.latencies);
        Sample {
            at,
            left: counters.available,
            queued: counters.queued,
            held: counters.tally.awaiting_payment,
            paid: counters.tally.paid,
            returned: counters.tally.returned,
            waiting,
            attempts_per_s: per_s(reading.attempts(), self.attempts),
            accepted_per_s: per_s(reading.accepted, self.accepted),
            refused_per_s: per_s(reading.all_refused(), self.refused),
            p50: quantile(&since, 500),
            p90: quantile(&since, 900),
            p99: quantile(&since, 990),
        }
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    if seconds > 0.0 { (count / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

#[derive(Debug)]
pub(super) struct Series {
    points: Arc<Vec<Sample>>,
    every: Duration,
    /// Start of the current point's interval.
    interval_start: Option<CounterSnapshot>,
    /// The last observation, whether or not it completed a point.
    last_observation: Option<CounterSnapshot>,
    latest: Option<Sample>,
}

impl Series {
    pub(super) fn new(every: Duration) -> Self {
        Self { points: Arc::default(), every, interval_start: None, last_observation: None, latest: None }
    }

    /// Adds an observation. A second one at the same moment is ignored. If the clock was set back, the points that
    /// are now in the future are dropped and a new interval begins.
    pub(super) fn observe(&mut self, at: Moment, reading: &Reading, counters: &Counters, waiting: usize) {
        let empty = CounterSnapshot { at, attempts: 0, accepted: 0, refused: 0, latencies: [0; STEPS] };
        let last_observation = self.last_observation.unwrap_or(empty);
        if self.last_observation.is_some() && at == last_observation.at {
            return;
        }
        let snapshot = CounterSnapshot::of(at, reading);
        if at < last_observation.at {
            Arc::make_mut(&mut self.points).retain(|point| point.at < at);
            (self.interval_start, self.last_observation, self.latest) =
                (Some(snapshot), Some(snapshot), None);
            return;
        }
        self.latest = Some(last_observation.sample(at, reading, counters, waiting));
        self.last_observation = Some(snapshot);
        let interval_start = self.interval_start.unwrap_or(empty);
        // Observations are never exactly on time: a point that is nearly due counts as due.
        if self.interval_start.is_some() && interval_start.at.until(at) + self.every / 4 < self.every {
            return;
        }
        self.push(interval_start.sample(at, reading, counters, waiting));
        self.interval_start = Some(snapshot);
    }

    fn push(&mut self, sample: Sample) {
        let points = Arc::make_mut(&mut self.points);
        if points.len() >= MAX_POINTS {
            let halved = points.chunks(2).map(|pair| match pair {
                [one, other] => one.and(*other),
                _ => pair[0],
            });
            *points = halved.collect();
            self.every *= 2;
        }
        points.push(sample);
    }

    pub(super) fn points(&self) -> Arc<Vec<Sample>> {
        self.points.clone()
    }

    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// The sample between the last two observations, normally one second.
    pub(super) fn latest(&self) -> Option<Sample> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::meter::{Attempted, Meter};
    use tidegate_core::ProblemCode;
    use tidegate_ledger::Tally;

    const SECOND: Duration = Duration::from_secs(1);

    fn counters(left: u32) -> Counters {
        Counters { tally: Tally::default(), available: left, queued: 0 }
    }

    #[test]
    fn a_day_of_seconds_fits_and_no_attempt_is_lost() {
        let (meter, mut series) = (Meter::default(), Series::new(SECOND));
        let start = Moment::from_millis(0);
        let seconds = 86_400;
        for second in 0..=seconds {
            if second > 0 {
                meter.attempted(Attempted::Accepted, Duration::from_micros(100));
            }
            series.observe(start + SECOND * second, &meter.read(), &counters(seconds - second), 0);
        }
        let points = series.points();
        assert!((MAX_POINTS / 2..=MAX_POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.is_sorted_by_key(|point| point.at));
        assert_eq!(series.every(), SECOND * 128);
        let last = points.last().unwrap().at;
        assert!(last + series.every() > start + SECOND * seconds, "it reaches the end: {last}");
        assert!(points[0].at <= start + series.every(), "and the beginning: {}", points[0].at);
        assert!(points[2..].iter().all(|point| (point.attempts_per_s - 1.0).abs() < f64::EPSILON));
        assert!((series.latest().unwrap().accepted_per_s - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_peak_survives_the_thinning() {
        let (meter, mut series) = (Meter::default(), Series::new(SECOND));
        for second in 0..4000_u32 {
            let took = if second == 1001 { Duration::from_secs(2) } else { Duration::from_millis(1) };
            meter.attempted(Attempted::Refused(ProblemCode::SoldOut), took);
            series.observe(Moment::from_millis(i64::from(second) * 1000), &meter.read(), &counters(0), 0);
        }
        let worst = series.points().iter().filter_map(|point| point.p99).max().unwrap();
        assert!(worst >= Duration::from_secs(2), "{worst:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let (meter, mut series) = (Meter::default(), Series::new(SECOND));
        let at = |second: i64| Moment::from_millis(second * 1000);
        for second in 100..110 {
            series.observe(at(second), &meter.read(), &counters(1), 0);
        }
        for second in 104..107 {
            meter.attempted(Attempted::Accepted, SECOND);
            series.observe(at(second), &meter.read(), &counters(1), 0);
        }
        let points = series.points();
        let moments: Vec<_> = points.iter().map(|point| point.at.millis() / 1000).collect();
        assert_eq!(moments, [100, 101, 102, 103, 105, 106]);
        assert!((series.latest().unwrap().attempts_per_s - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_clock_that_stands_still_makes_one_point() {
        let (meter, mut series) = (Meter::default(), Series::new(SECOND));
        for _ in 0..3 {
            series.observe(Moment::from_millis(5), &meter.read(), &counters(1), 0);
        }
        assert_eq!(series.points().len(), 1);
        assert_eq!(series.points()[0].p50, None);
    }
}
