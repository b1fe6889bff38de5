//! The curves in a campaign's samples.

use super::Point;
use crate::latency::millis;
use crate::ops::live::Sample;

/// What a campaign's charts are drawn from. Time counts from the first sample.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    pub left: Vec<Point>,
    /// Units somebody has: awaiting payment, or paid.
    pub sold: Vec<Point>,
    pub paid: Vec<Point>,
    pub waiting: Vec<Point>,
    pub attempts: Vec<Point>,
    pub accepted: Vec<Point>,
    /// In milliseconds.
    pub p50: Vec<Point>,
    pub p99: Vec<Point>,
}

impl Curves {
    pub fn of(samples: &[Sample]) -> Self {
        let mut curves = Self::default();
        let Some(first) = samples.first() else { return curves };
        for sample in samples {
            let x = first.at.until(sample.at).as_secs_f64();
            curves.left.push((x, sample.left.into()));
            curves.sold.push((x, f64::from(sample.held) + f64::from(sample.paid)));
            curves.paid.push((x, sample.paid.into()));
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            curves.waiting.push((x, sample.waiting as f64));
            curves.attempts.push((x, sample.attempts_per_s));
            curves.accepted.push((x, sample.accepted_per_s));
            // Where nobody tried there is no point.
            curves.p50.extend(sample.p50.map(|span| (x, millis(span))));
            curves.p99.extend(sample.p99.map(|span| (x, millis(span))));
        }
        curves
    }
}
