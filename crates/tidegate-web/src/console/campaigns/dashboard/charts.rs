//! Charts of the dashboard, each with its points as a table for screen readers.

use std::time::Duration;

use tidegate_app::live::{CampaignFigures, Quantiles, Sample};
use tidegate_charts::{Curve, Labels, Point};
use tidegate_core::latency::millis;

use crate::charts::CampaignSeries;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::dashboard::DashboardPhrases;

/// Rows of a chart's table.
const MAX_ROWS: usize = 30;

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) id: &'static str,
    pub(crate) title: Phrase,
    /// Current values as text.
    pub(crate) now: String,
    /// Empty if there is no data yet.
    pub(crate) svg: String,
    pub(crate) columns: [Phrase; 2],
    /// Time, and a value for each column.
    pub(crate) rows: Vec<(String, [String; 2])>,
}

/// All charts of a campaign.
pub(crate) fn all(t: &'static DashboardPhrases, figures: &CampaignFigures) -> Vec<Chart> {
    let series = CampaignSeries::of(&figures.series);
    let rows = sampled_rows(&figures.series);
    vec![
        sold(t, figures, &series, &rows),
        rates(t, figures, &series, &rows),
        latency(t, figures, &series, &rows),
    ]
}

/// The chart, or an empty string without data.
fn svg_or_empty(points: &[Point], draw: impl FnOnce() -> String) -> String {
    if points.is_empty() { String::new() } else { draw() }
}

fn table(rows: &[(Duration, Sample)], value: impl Fn(&Sample) -> [String; 2]) -> Vec<(String, [String; 2])> {
    rows.iter().map(|(since, sample)| (format_elapsed(*since), value(sample))).collect()
}

fn sold(
    t: &'static DashboardPhrases,
    figures: &CampaignFigures,
    series: &CampaignSeries,
    rows: &[(Duration, Sample)],
) -> Chart {
    let is_sale = figures.revenue.is_some();
    let (title, unit) = if is_sale { (t.sold_title, t.units) } else { (t.played_title, t.plays) };
    let labels = Labels { title: title.0, x: t.since_start.0, y: unit.0 };
    Chart {
        id: "chart-sold",
        title,
        now: String::new(),
        svg: svg_or_empty(&series.sold, || tidegate_charts::sell_through(&series.sold, &labels)),
        columns: [if is_sale { t.left } else { t.seats_left }, if is_sale { t.paid } else { t.played }],
        rows: table(rows, |sample| [sample.left.to_string(), sample.paid.to_string()]),
    }
}

fn rates(
    t: &'static DashboardPhrases,
    figures: &CampaignFigures,
    series: &CampaignSeries,
    rows: &[(Duration, Sample)],
) -> Chart {
    let labels = Labels { title: t.rates_title.0, x: t.since_start.0, y: t.per_second.0 };
    let curve = |name: Phrase, points| Curve { name: name.0, points };
    let (attempts, accepted) = (curve(t.attempts, &series.attempts), curve(t.accepted, &series.accepted));
    Chart {
        id: "chart-rates",
        title: t.rates_title,
        now: figures.pace.map(|pace| t.now_per_s.with(pace.attempts_per_s)).unwrap_or_default(),
        svg: svg_or_empty(&series.attempts, || tidegate_charts::rates(attempts, accepted, &labels)),
        columns: [t.attempts, t.accepted],
        rows: table(rows, |sample| [sample.attempts_per_s.to_string(), sample.accepted_per_s.to_string()]),
    }
}

fn latency(
    t: &'static DashboardPhrases,
    figures: &CampaignFigures,
    series: &CampaignSeries,
    rows: &[(Duration, Sample)],
) -> Chart {
    let labels = Labels { title: t.latency_title.0, x: t.since_start.0, y: t.milliseconds.0 };
    let curve = |name: Phrase, points| Curve { name: name.0, points };
    let (p50_line, p99_line) = (curve(t.p50, &series.p50), curve(t.p99, &series.p99));
    let Quantiles { p50, p90, p99 } = figures.latency;
    let quantiles = [(t.p50, p50), (t.p90, p90), (t.p99, p99)];
    let now: Vec<_> = quantiles
        .into_iter()
        .filter_map(|(label, span)| Some(format!("{label} {}", format_millis(span?))))
        .collect();
    Chart {
        id: "chart-latency",
        title: t.latency_title,
        now: now.join(" · "),
        svg: svg_or_empty(&series.p50, || tidegate_charts::latency(p50_line, p99_line, &labels)),
        columns: [t.p50, t.p99],
        rows: table(rows, |sample| {
            [sample.p50, sample.p99].map(|span| span.map_or("–".into(), format_millis))
        }),
    }
}

/// At most `MAX_ROWS` samples including the last, each with the time since the first.
fn sampled_rows(samples: &[Sample]) -> Vec<(Duration, Sample)> {
    let Some(first) = samples.first() else { return Vec::new() };
    let step = samples.len().div_ceil(MAX_ROWS);
    let mut kept: Vec<_> =
        samples.iter().rev().step_by(step).map(|sample| (first.at.until(sample.at), *sample)).collect();
    kept.reverse();
    kept
}

/// Minutes and seconds, with hours if needed: 0:07, 12:05, 1:02:03.
fn format_elapsed(span: Duration) -> String {
    let s = span.as_secs();
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

fn format_millis(span: Duration) -> String {
    let millis = millis(span);
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::i18n::language::Lang;

    #[test]
    fn a_table_has_thirty_rows_at_most_and_ends_with_the_last_point() {
        let (_, figures) = super::super::sample_figures(900);
        for chart in all(DashboardPhrases::of(Lang::En), &figures) {
            assert!((20..=MAX_ROWS).contains(&chart.rows.len()), "{}", chart.rows.len());
            assert_eq!(chart.rows.last().unwrap().0, "14:59");
            assert!(chart.svg.starts_with("<svg"));
        }
        let (_, nothing) = super::super::sample_figures(0);
        assert!(all(DashboardPhrases::of(Lang::Zh), &nothing).iter().all(|chart| chart.svg.is_empty()));
    }

    #[test]
    fn elapsed_time_is_written_like_a_clock() {
        let written = [7, 725, 3723].map(|s| format_elapsed(Duration::from_secs(s)));
        assert_eq!(written, ["0:07", "12:05", "1:02:03"]);
    }
}
