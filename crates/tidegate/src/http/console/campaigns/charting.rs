//! A dashboard's charts, each with its points as a table for those who read instead of looking.

use std::time::Duration;

use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::boards::Boards;
use crate::charts::{self, Curve, Curves, Point, Words};
use crate::latency::millis;
use crate::ops::live::{LiveFigures, Quantiles, Sample};

/// Points of a chart's table.
const MOST_ROWS: usize = 30;

#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: Phrase,
    /// What it comes to just now.
    pub(super) now: String,
    /// Nothing to draw yet where empty.
    pub(super) svg: String,
    pub(super) heads: [Phrase; 2],
    /// Each with its time and a value for each head.
    pub(super) rows: Vec<(String, [String; 2])>,
}

/// All charts of a campaign. A draw's seats are played, a sale's units sold.
pub(super) fn all(b: &'static Boards, figures: &LiveFigures) -> Vec<Chart> {
    let curves = Curves::of(&figures.series);
    let rows = thinned(&figures.series);
    vec![
        sold(b, figures, &curves, &rows),
        rates(b, figures, &curves, &rows),
        latency(b, figures, &curves, &rows),
    ]
}

fn drawn(points: &[Point], draw: impl FnOnce() -> String) -> String {
    if points.is_empty() { String::new() } else { draw() }
}

fn table(rows: &[(Duration, Sample)], value: impl Fn(&Sample) -> [String; 2]) -> Vec<(String, [String; 2])> {
    rows.iter().map(|(since, sample)| (clock(*since), value(sample))).collect()
}

fn sold(b: &'static Boards, figures: &LiveFigures, curves: &Curves, rows: &[(Duration, Sample)]) -> Chart {
    let is_sale = figures.revenue.is_some();
    let (title, unit) = if is_sale { (b.sold_title, b.units) } else { (b.played_title, b.plays) };
    let words = Words { label: title.0, x: b.since_start.0, y: unit.0 };
    Chart {
        id: "chart-sold",
        title,
        now: String::new(),
        svg: drawn(&curves.sold, || charts::sell_through(&curves.sold, &words)),
        heads: [if is_sale { b.left } else { b.seats_left }, if is_sale { b.paid } else { b.played }],
        rows: table(rows, |sample| [sample.left.to_string(), sample.paid.to_string()]),
    }
}

fn rates(b: &'static Boards, figures: &LiveFigures, curves: &Curves, rows: &[(Duration, Sample)]) -> Chart {
    let words = Words { label: b.rates_title.0, x: b.since_start.0, y: b.per_second.0 };
    let curve = |name: Phrase, points| Curve { name: name.0, points };
    let (attempts, accepted) = (curve(b.attempts, &curves.attempts), curve(b.accepted, &curves.accepted));
    Chart {
        id: "chart-rates",
        title: b.rates_title,
        now: figures.pace.map(|pace| b.now_per_s.with(pace.attempts_per_s)).unwrap_or_default(),
        svg: drawn(&curves.attempts, || charts::rates(attempts, accepted, &words)),
        heads: [b.attempts, b.accepted],
        rows: table(rows, |sample| [sample.attempts_per_s.to_string(), sample.accepted_per_s.to_string()]),
    }
}

fn latency(b: &'static Boards, figures: &LiveFigures, curves: &Curves, rows: &[(Duration, Sample)]) -> Chart {
    let words = Words { label: b.latency_title.0, x: b.since_start.0, y: b.milliseconds.0 };
    let curve = |name: Phrase, points| Curve { name: name.0, points };
    let (half, most) = (curve(b.p50, &curves.p50), curve(b.p99, &curves.p99));
    let Quantiles { p50, p90, p99 } = figures.latency;
    let quantiles = [(b.p50, p50), (b.p90, p90), (b.p99, p99)];
    let now: Vec<_> = quantiles
        .into_iter()
        .filter_map(|(word, span)| Some(format!("{word} {}", in_millis(span?))))
        .collect();
    Chart {
        id: "chart-latency",
        title: b.latency_title,
        now: now.join(" · "),
        svg: drawn(&curves.p50, || charts::latency(half, most, &words)),
        heads: [b.p50, b.p99],
        rows: table(rows, |sample| [sample.p50, sample.p99].map(|span| span.map_or("–".into(), in_millis))),
    }
}

/// At most so many of them, the last among them, each with the time since the first.
fn thinned(samples: &[Sample]) -> Vec<(Duration, Sample)> {
    let Some(first) = samples.first() else { return Vec::new() };
    let step = samples.len().div_ceil(MOST_ROWS);
    let mut kept: Vec<_> =
        samples.iter().rev().step_by(step).map(|sample| (first.at.until(sample.at), *sample)).collect();
    kept.reverse();
    kept
}

/// 0:07, 12:05, 1:02:03.
fn clock(span: Duration) -> String {
    let s = span.as_secs();
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

fn in_millis(span: Duration) -> String {
    let millis = millis(span);
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::pages::language::Lang;
    use super::*;

    #[test]
    fn a_table_has_thirty_rows_at_most_and_ends_with_the_last_point() {
        let (_, figures) = super::super::board::sample_figures(900);
        for chart in all(Boards::of(Lang::En), &figures) {
            assert!((20..=MOST_ROWS).contains(&chart.rows.len()), "{}", chart.rows.len());
            assert_eq!(chart.rows.last().unwrap().0, "14:59");
            assert!(chart.svg.starts_with("<svg"));
        }
        let (_, nothing) = super::super::board::sample_figures(0);
        assert!(all(Boards::of(Lang::Zh), &nothing).iter().all(|chart| chart.svg.is_empty()));
    }

    #[test]
    fn time_is_written_as_on_a_clock() {
        let written = [7, 725, 3723].map(|s| clock(Duration::from_secs(s)));
        assert_eq!(written, ["0:07", "12:05", "1:02:03"]);
    }
}
