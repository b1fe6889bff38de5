//! Time series of a campaign, as the charts draw them.

use tidegate_app::live::Sample;
use tidegate_charts::Point;
use tidegate_core::latency::millis;

/// One line per figure. Time counts from the first sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct CampaignSeries {
    pub(crate) left: Vec<Point>,
    /// Units awaiting payment or paid.
    pub(crate) sold: Vec<Point>,
    pub(crate) paid: Vec<Point>,
    pub(crate) waiting: Vec<Point>,
    pub(crate) attempts: Vec<Point>,
    pub(crate) accepted: Vec<Point>,
    /// In milliseconds.
    pub(crate) p50: Vec<Point>,
    pub(crate) p99: Vec<Point>,
}

impl CampaignSeries {
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let mut series = Self::default();
        let Some(first) = samples.first() else { return series };
        for sample in samples {
            let x = first.at.until(sample.at).as_secs_f64();
            series.left.push((x, sample.left.into()));
            series.sold.push((x, f64::from(sample.held) + f64::from(sample.paid)));
            series.paid.push((x, sample.paid.into()));
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            series.waiting.push((x, sample.waiting as f64));
            series.attempts.push((x, sample.attempts_per_s));
            series.accepted.push((x, sample.accepted_per_s));
            // A second without attempts has no latency.
            series.p50.extend(sample.p50.map(|span| (x, millis(span))));
            series.p99.extend(sample.p99.map(|span| (x, millis(span))));
        }
        series
    }
}
