//! Medians and ratios: statistics that are robust with few rounds on a busy machine.

use serde::Serialize;

/// The result of one candidate in one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// CPU time of the server process per request, until everything is recorded.
    pub(crate) cpu_us: f64,
    /// CPU time of its proxy, Redis and PostgreSQL per request.
    pub(crate) backend_cpu_us: f64,
    pub(crate) recorded_after_s: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let smaller = |a: f64, b: &f64| a.min(*b);
        let larger = |a: f64, b: &f64| a.max(*b);
        let (min, max) =
            (values.iter().fold(f64::INFINITY, smaller), values.iter().fold(f64::NEG_INFINITY, larger));
        Some(Self { median: median(values)?, min, max })
    }
}

/// `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The median of the ratios `over / under` of each round; the ratio of the medians if the numbers of rounds differ.
/// `None` without values.
pub(crate) fn ratio(over: &[f64], under: &[f64]) -> Option<f64> {
    if over.len() != under.len() {
        return Some(median(over)? / median(under)?);
    }
    median(&over.iter().zip(under).map(|(over, under)| over / under).collect::<Vec<_>>())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} is not {expected}");
    }

    #[test]
    fn a_median_is_the_middle_whatever_the_order() {
        is(median(&[3.0, 1.0, 2.0]), 2.0);
        is(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        is(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_ratio_compares_within_a_round() {
        // The machine was half as fast in the second round; the ratio does not notice.
        is(ratio(&[20.0, 10.0, 20.0], &[10.0, 5.0, 10.0]), 2.0);
        is(ratio(&[20.0, 9.0, 30.0], &[10.0, 9.0, 10.0]), 2.0);
        is(ratio(&[20.0], &[10.0, 5.0, 10.0]), 2.0);
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    #[test]
    fn a_spread_has_both_ends() {
        let spread = Spread::of(&[2.0, 9.0, 4.0]).unwrap();
        is(Some(spread.min), 2.0);
        is(Some(spread.max), 9.0);
        is(Some(spread.median), 4.0);
    }
}
