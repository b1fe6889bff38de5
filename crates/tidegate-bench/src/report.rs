//! What is said in the end: a table for people.

use crate::figures::{Run, Spread, median, ratio};
use crate::plan::Candidate;
use crate::rounds::Runs;

pub(crate) fn of<'a>(runs: &'a Runs, name: &str, what: impl Fn(&Run) -> f64 + 'a) -> Vec<f64> {
    runs.get(name).into_iter().flatten().map(what).collect()
}

pub(crate) fn print(runs: &Runs, candidates: &[Candidate]) {
    println!(
        "\n{:<14} {:>5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "candidate", "conns", "median/s", "min", "max", "p50 ms", "p99 ms", "cpu us", "behind", "recorded"
    );
    for candidate in candidates {
        let middle = |what: fn(&Run) -> f64| median(&of(runs, candidate.name, what)).unwrap_or(0.0);
        let Some(rate) = Spread::of(&of(runs, candidate.name, |run| run.rate)) else { continue };
        println!(
            "{:<14} {:>5} {:>9.0} {:>9.0} {:>9.0} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2}s",
            candidate.name,
            candidate.connections,
            rate.median,
            rate.min,
            rate.max,
            middle(|run| run.p50_ms),
            middle(|run| run.p99_ms),
            middle(|run| run.cpu_us),
            middle(|run| run.behind_us),
            middle(|run| run.recorded_after_s),
        );
    }
    println!();
    for (name, over, under) in [
        ("embedded_over_ceiling", "embedded", "ceiling"),
        ("embedded_over_classic", "embedded", "classic"),
        ("refusal_over_ceiling", "refusal", "ceiling"),
    ] {
        let rates = |name| of(runs, name, |run| run.rate);
        if let Some(ratio) = ratio(&rates(over), &rates(under)) {
            println!("{name:<32} {ratio:>8.3}");
        }
    }
}
