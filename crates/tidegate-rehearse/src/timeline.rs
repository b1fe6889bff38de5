//! Time series of a rehearsal: attempts, accepted attempts and latencies, in at most 600 spans.
//!
//! A span is 100 ms at first; when 600 spans do not suffice, neighbours are merged and the length of a span doubles.

use std::time::Duration;

use tidegate_charts::Point;
use tidegate_core::latency::{Counts, STEPS, quantile, step_of};

const MAX_SPANS: usize = 600;
const FIRST_SPAN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Timeline {
    span: Duration,
    spans: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    attempts: u64,
    accepted: u64,
    latencies: Counts,
}

impl Default for Span {
    fn default() -> Self {
        Self { attempts: 0, accepted: 0, latencies: [0; STEPS] }
    }
}

impl Span {
    fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.accepted += other.accepted;
        for (count, more) in self.latencies.iter_mut().zip(other.latencies) {
            *count += more;
        }
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self { span: FIRST_SPAN, spans: Vec::new() }
    }
}

impl Timeline {
    /// Counts an attempt that was answered at the time `at` since the start.
    pub(super) fn count(&mut self, at: Duration, accepted: bool, took: Duration) {
        let number = loop {
            let number = usize::try_from(at.as_millis() / self.span.as_millis()).unwrap_or(usize::MAX);
            if number < MAX_SPANS {
                break number;
            }
            self.merge_pairs();
        };
        if self.spans.len() <= number {
            self.spans.resize_with(number + 1, Span::default);
        }
        let span = &mut self.spans[number];
        span.attempts += 1;
        span.accepted += u64::from(accepted);
        span.latencies[step_of(took)] += 1;
    }

    fn merge_pairs(&mut self) {
        let joined = self.spans.chunks(2).map(|pair| {
            let mut joined = Span::default();
            for span in pair {
                joined.add(span);
            }
            joined
        });
        self.spans = joined.collect();
        self.span *= 2;
    }

    /// One point per span, at its middle; spans without a value are omitted.
    fn points(&self, value: impl Fn(&Span) -> Option<f64>) -> Vec<Point> {
        let seconds = self.span.as_secs_f64();
        let middles = (0_u32..).map(|number| (f64::from(number) + 0.5) * seconds);
        self.spans.iter().zip(middles).filter_map(|(span, at)| Some((at, value(span)?))).collect()
    }

    fn per_second(&self, count: u64) -> f64 {
        number(count) / self.span.as_secs_f64()
    }

    pub(super) fn attempts_per_s(&self) -> Vec<Point> {
        self.points(|span| Some(self.per_second(span.attempts)))
    }

    pub(super) fn accepted_per_s(&self) -> Vec<Point> {
        self.points(|span| Some(self.per_second(span.accepted)))
    }

    /// Latency quantile per span in milliseconds.
    pub(super) fn latency(&self, per_mille: u64) -> Vec<Point> {
        self.points(|span| Some(quantile(&span.latencies, per_mille)?.as_secs_f64() * 1000.0))
    }

    /// Cumulative number of accepted orders or plays.
    pub(super) fn accepted_total(&self) -> Vec<Point> {
        let seconds = self.span.as_secs_f64();
        let mut total = 0;
        let ends = (1_u32..).map(|number| f64::from(number) * seconds);
        let after = self.spans.iter().zip(ends).map(|(span, at)| {
            total += span.accepted;
            (at, number(total))
        });
        std::iter::once((0.0, 0.0)).chain(after).collect()
    }
}

fn number(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let count = count as f64;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_rehearsal_fits_and_no_attempt_is_lost() {
        let mut timeline = Timeline::default();
        for second in 0..1000 {
            timeline.count(Duration::from_secs(second), second % 2 == 0, Duration::from_millis(3));
        }
        assert!(timeline.spans.len() <= MAX_SPANS);
        assert_eq!(timeline.span, Duration::from_millis(3200));
        assert_eq!(timeline.spans.iter().map(|span| span.attempts).sum::<u64>(), 1000);
        let (_, total) = *timeline.accepted_total().last().unwrap();
        assert!((total - 500.0).abs() < f64::EPSILON, "{total}");
        assert!(timeline.latency(990).iter().all(|(_, millis)| (3.0..4.0).contains(millis)));
    }

    #[test]
    fn rates_are_per_second_whatever_the_span() {
        let mut timeline = Timeline::default();
        (0..10).for_each(|_| timeline.count(Duration::from_millis(50), true, Duration::from_millis(1)));
        assert_eq!(timeline.attempts_per_s(), [(0.05, 100.0)]);
        assert_eq!(timeline.accepted_per_s(), [(0.05, 100.0)]);
    }
}
