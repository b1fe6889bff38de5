//! The final report: a table on stdout, and JSON.

use serde_json::{Map, Value, json};

use crate::clock::from_now;
use crate::figures::{Run, Spread, median};
use crate::machine;
use crate::plan::{CAPACITY, GROUPS};
use crate::rounds::Runs;
use crate::verdict::{bound_of, ratios};

/// All results.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rounds: usize,
    pub(crate) runs: Runs,
    /// Named figures other than ratios between candidates.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// Instructions per request.
    pub(crate) instructions: Vec<(&'static str, f64)>,
}

/// A candidate's results over all rounds.
struct Row {
    name: &'static str,
    connections: usize,
    count: usize,
    rate: Spread,
    /// Medians.
    run: Run,
}

impl Report {
    fn rows(&self) -> Vec<Row> {
        let row = |(name, connections, count)| {
            let runs = self.runs.get(name)?;
            let all = |of: fn(&Run) -> f64| -> Vec<f64> { runs.iter().map(of).collect() };
            let middle = |of| median(&all(of)).unwrap_or(0.0);
            let run = Run {
                rate: middle(|run| run.rate),
                p50_ms: middle(|run| run.p50_ms),
                p99_ms: middle(|run| run.p99_ms),
                cpu_us: middle(|run| run.cpu_us),
                backend_cpu_us: middle(|run| run.backend_cpu_us),
                recorded_after_s: middle(|run| run.recorded_after_s),
            };
            Some(Row { name, connections, count, rate: Spread::of(&all(|run| run.rate))?, run })
        };
        let known = GROUPS.iter().copied().flatten().chain([&CAPACITY]);
        known.map(|known| (known.name, known.connections, known.count)).filter_map(row).collect()
    }

    /// All figures by name: ratios, and the others.
    fn named(&self) -> Vec<(&'static str, f64)> {
        let mut named = ratios(&self.runs);
        named.extend(&self.figures);
        named
    }

    /// Prints the table; returns whether every figure reaches its bound.
    pub(crate) fn print(&self) -> bool {
        self.print_candidates();
        println!();
        for (name, instructions) in &self.instructions {
            println!("{name:<32} {instructions:>10.0} instructions");
        }
        let mut all_reached = true;
        for (name, figure) in self.named() {
            let Some(bound) = bound_of(name) else {
                println!("{name:<32} {figure:>10.3}");
                continue;
            };
            let reached = bound.is_reached_by(figure);
            all_reached &= reached;
            println!("{name:<32} {figure:>10.3}  {bound}  {}", if reached { "ok" } else { "NOT REACHED" });
        }
        all_reached
    }

    fn print_candidates(&self) {
        let rows = self.rows();
        if rows.is_empty() {
            return;
        }
        println!(
            "\n{:<22} {:>5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9}",
            "candidate",
            "conns",
            "median/s",
            "min",
            "max",
            "p50 ms",
            "p99 ms",
            "cpu us",
            "behind",
            "recorded"
        );
        for Row { name, connections, rate, run, .. } in rows {
            println!(
                "{name:<22} {connections:>5} {:>9.0} {:>9.0} {:>9.0} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2}s",
                rate.median,
                rate.min,
                rate.max,
                run.p50_ms,
                run.p99_ms,
                run.cpu_us,
                run.backend_cpu_us,
                run.recorded_after_s,
            );
        }
    }

    pub(crate) fn json(&self) -> Value {
        let candidate = |row: &Row| {
            let Row { connections, count, rate, run, .. } = row;
            json!({
                "rate": {"median": short(rate.median), "min": short(rate.min), "max": short(rate.max)},
                "p50_ms": short(run.p50_ms), "p99_ms": short(run.p99_ms), "cpu_us": short(run.cpu_us),
                "behind_us": short(run.backend_cpu_us), "recorded_after_s": short(run.recorded_after_s),
                "connections": connections, "count": count,
            })
        };
        let rows = self.rows();
        let candidates: Map<String, Value> =
            rows.iter().map(|row| (row.name.to_owned(), candidate(row))).collect();
        let numbers = |pairs: &[(&'static str, f64)]| -> Map<String, Value> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), short(*value))).collect()
        };
        let (ratios, others): (Vec<_>, Vec<_>) =
            self.named().into_iter().partition(|(name, _)| !["bytes_per_buyer", "restart_s"].contains(name));
        let mut figures = numbers(&others);
        if let Some(row) = rows.iter().find(|row| row.name == "generator") {
            figures.insert("generator_ceiling".to_owned(), short(row.rate.median));
        }
        figures.insert("instructions".to_owned(), numbers(&self.instructions).into());
        json!({
            "machine": machine::describe(), "command": "make bench", "commit": machine::commit(), "at": from_now(0),
            "rounds": self.rounds, "candidates": candidates, "ratios": numbers(&ratios), "figures": figures,
        })
    }
}

/// Rounds to four decimals, which exceeds the precision of the measurements.
fn short(value: f64) -> Value {
    json!((value * 10_000.0).round() / 10_000.0)
}
