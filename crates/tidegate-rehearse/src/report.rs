//! The report of a rehearsal as a self-contained HTML page without scripts, readable on any screen.

use std::path::Path;

use anyhow::Context;
use askama::Template;
use tidegate_charts::{Curve, Labels};

use super::timeline::Timeline;
use super::verdict::Report;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a Report,
    /// Figures that must be zero.
    promises: Vec<(&'static str, u64)>,
    figures: Vec<(&'static str, String)>,
    /// Violations found by the audit and by this program.
    violations: &'a [String],
    /// `Orders` or `Plays`.
    noun: &'static str,
    rates: String,
    latency: String,
    accepted_total: String,
}

/// Opens the report's file for writing, so that an unwritable path fails before the rehearsal instead of after it. An
/// existing report is kept until the new one is written.
pub(super) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(|_| ()).with_context(|| unwritable(path))
}

pub(super) fn write(path: &Path, report: &Report, timeline: &Timeline) -> anyhow::Result<()> {
    write_file(path, &render(report, timeline)?)
}

fn write_file(path: &Path, page: &str) -> anyhow::Result<()> {
    std::fs::write(path, page).with_context(|| unwritable(path))
}

fn unwritable(path: &Path) -> String {
    format!("failed to write the report to {}", path.display())
}

fn render(report: &Report, timeline: &Timeline) -> anyhow::Result<String> {
    let (attempts, accepted) = (timeline.attempts_per_s(), timeline.accepted_per_s());
    let (half, most) = (timeline.latency(500), timeline.latency(990));
    let labels = |title, y| Labels { title, x: "since the start", y };
    let page = Page {
        report,
        promises: vec![
            ("oversold", report.oversold),
            ("undersold", report.undersold),
            ("lost", report.lost),
            ("unannounced", report.unannounced),
            ("limits broken", report.limit_broken),
            ("without a clear answer", report.errors),
        ],
        figures: figures(report),
        violations: &report.violations,
        noun: if report.draw.is_some() { "Plays" } else { "Orders" },
        rates: tidegate_charts::rates(
            Curve { name: "attempts", points: &attempts },
            Curve { name: "accepted", points: &accepted },
            &labels("Attempts and accepted attempts per second", "per second"),
        ),
        latency: tidegate_charts::latency(
            Curve { name: "half within", points: &half },
            Curve { name: "99 % within", points: &most },
            &labels("Within how many milliseconds attempts were answered", "milliseconds"),
        ),
        accepted_total: tidegate_charts::sell_through(
            &timeline.accepted_total(),
            &labels("How many buyers were told of theirs, over time", "told"),
        ),
    };
    Ok(page.render()?)
}

/// Figures for information, without a required value.
fn figures(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("units", report.stock.to_string()),
        ("buyers", report.buyers.to_string()),
        ("attempts", report.attempts.to_string()),
        ("accepted", report.accepted.to_string()),
        ("units sold", report.sold.to_string()),
        ("attempts/s", format!("{:.0}", report.rps)),
        ("half within", format!("{:.2} ms", report.p50_ms)),
        ("99 % within", format!("{:.2} ms", report.p99_ms)),
        ("all within", format!("{:.2} ms", report.max_ms)),
        ("took", format!("{:.2} s", report.elapsed_s)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_report_stays_until_there_is_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        check_writable(&path).unwrap();
        std::fs::write(&path, "an earlier report").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an earlier report");
        assert!(check_writable(directory.path()).is_err());
    }
}
