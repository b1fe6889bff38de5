//! Ratios between candidates, and the bounds that the figures must reach.

use crate::figures::{Run, ratio};
use crate::rounds::Runs;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A ratio between two candidates, computed per round.
struct Comparison {
    name: &'static str,
    over: &'static str,
    under: &'static str,
    of: fn(&Run) -> f64,
}

const fn rates(name: &'static str, over: &'static str, under: &'static str) -> Comparison {
    Comparison { name, over, under, of: |run| run.rate }
}

const COMPARISONS: [Comparison; 10] = [
    rates("embedded_over_ceiling", "embedded", "ceiling"),
    rates("embedded_over_classic", "embedded", "classic"),
    Comparison {
        name: "embedded_p99_over_classic_p99",
        over: "embedded_64",
        under: "classic_64",
        of: |run| run.p99_ms,
    },
    rates("refusal_over_ceiling", "refusal", "ceiling"),
    rates("cluster_202_over_classic", "cluster_202", "classic_beside_nodes"),
    rates("cluster_201_over_row_lock", "cluster_201", "row_lock"),
    rates("overload_goodput", "overload", "capacity"),
    // Without a bound: the gain from batching Redis calls, and a draw compared with a sale.
    rates("cluster_202_over_one_by_one", "cluster_202", "cluster_202_one_by_one"),
    rates("draw_over_embedded", "draw", "embedded"),
    // Without a bound: the gain from the fast path when a proxy shares the cores.
    rates("behind_proxy_over_hyper", "behind_proxy", "behind_proxy_hyper"),
];

/// Required bounds.
const BOUNDS: [(&str, Bound); 10] = [
    ("embedded_over_ceiling", Bound::AtLeast(0.80)),
    ("embedded_over_classic", Bound::AtLeast(1.5)),
    ("embedded_p99_over_classic_p99", Bound::AtMost(1.0)),
    ("refusal_over_ceiling", Bound::AtLeast(0.93)),
    ("cluster_202_over_classic", Bound::AtLeast(1.3)),
    ("cluster_201_over_row_lock", Bound::AtLeast(5.0)),
    ("overload_goodput", Bound::AtLeast(0.9)),
    ("growth", Bound::AtMost(1.15)),
    ("bytes_per_buyer", Bound::AtMost(160.0)),
    ("restart_s", Bound::AtMost(5.0)),
];

/// The bound of a figure, if it has one.
pub(crate) fn bound_of(figure: &str) -> Option<Bound> {
    BOUNDS.iter().find(|(name, _)| *name == figure).map(|(_, bound)| *bound)
}

impl Bound {
    pub(crate) fn is_reached_by(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(to, ">= {least:.2}"),
            Self::AtMost(most) => write!(to, "<= {most:.2}"),
        }
    }
}

/// The ratios whose candidates were both measured.
pub(crate) fn ratios(runs: &Runs) -> Vec<(&'static str, f64)> {
    let figures = |name: &str, of: fn(&Run) -> f64| -> Vec<f64> {
        runs.get(name).into_iter().flatten().map(of).collect()
    };
    let compare = |comparison: &Comparison| {
        let &Comparison { name, over, under, of } = comparison;
        Some((name, ratio(&figures(over, of), &figures(under, of))?))
    };
    COMPARISONS.iter().filter_map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_as_a_ratio_is_compared() {
        let others = ["growth", "bytes_per_buyer", "restart_s"];
        for (name, _) in BOUNDS.iter().filter(|(name, _)| !others.contains(name)) {
            assert!(COMPARISONS.iter().any(|comparison| comparison.name == *name), "{name}");
        }
    }

    #[test]
    fn ratios_are_of_what_was_measured() {
        let run = |rate, p99_ms| Run { rate, p99_ms, ..Run::default() };
        let runs = Runs::from([
            ("embedded", vec![run(8.0, 1.0), run(4.0, 1.0)]),
            ("ceiling", vec![run(10.0, 1.0), run(5.0, 1.0)]),
            ("embedded_64", vec![run(1.0, 3.0)]),
            ("classic_64", vec![run(9.0, 6.0)]),
        ]);
        let found = ratios(&runs);
        let of = |name| found.iter().find(|(found, _)| *found == name).map(|(_, value)| *value);
        assert_eq!(found.len(), 2);
        assert!((of("embedded_over_ceiling").unwrap() - 0.8).abs() < 1e-9);
        assert!((of("embedded_p99_over_classic_p99").unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_bound_is_reached_at_its_edge() {
        assert!(Bound::AtLeast(0.8).is_reached_by(0.8) && !Bound::AtLeast(0.8).is_reached_by(0.79));
        assert!(Bound::AtMost(5.0).is_reached_by(5.0) && !Bound::AtMost(5.0).is_reached_by(5.01));
    }
}
