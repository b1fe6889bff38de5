//! SVG charts for pages whose content security policy allows neither scripts nor inline styles.
//!
//! Invariants: colours come from the page (`currentColor`, `--chart-1` to `--chart-3`, `--line`), so charts follow the
//! light and dark theme; all text comes from the caller and is escaped; any number of points yields a valid chart.

mod bars;
mod frame;

pub use self::bars::bars;
use self::frame::{Frame, Scale};

/// Seconds since the start of the chart, and a value.
pub type Point = (f64, f64);

/// Texts of a chart, in the reader's language.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// Accessible name, read by screen readers.
    pub title: &'a str,
    /// Below the time axis; may be empty.
    pub x: &'a str,
    /// Above the value axis: the quantity and its unit.
    pub y: &'a str,
}

/// A line and its name in the legend.
#[derive(Clone, Copy, Debug)]
pub struct Curve<'a> {
    pub name: &'a str,
    pub points: &'a [Point],
}

/// Units sold, or left, over time.
pub fn sell_through(points: &[Point], labels: &Labels<'_>) -> String {
    let curve = Curve { name: "", points };
    Frame { labels, curves: &[curve], filled: true, scale: Scale::Linear }.draw()
}

/// Attempts per second, and accepted attempts per second.
pub fn rates(attempts: Curve<'_>, accepted: Curve<'_>, labels: &Labels<'_>) -> String {
    Frame { labels, curves: &[attempts, accepted], filled: false, scale: Scale::Linear }.draw()
}

/// Median and 99th percentile of the latency in milliseconds. The scale is logarithmic if the values are far apart.
pub fn latency(p50: Curve<'_>, p99: Curve<'_>, labels: &Labels<'_>) -> String {
    Frame { labels, curves: &[p50, p99], filled: false, scale: Scale::Automatic }.draw()
}

/// Escapes text and attribute values.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A number with at most three digits and a unit prefix: 950, 1.2k, 3M.
fn compact(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scaled, unit) = units
        .into_iter()
        .find(|(size, _)| value.abs() >= *size)
        .map_or((value, ""), |(size, unit)| (value / size, unit));
    let text = if scaled.abs() >= 100.0 { format!("{scaled:.0}") } else { format!("{scaled:.1}") };
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'_> =
        Labels { title: "Sold <\"over\"> time & more", x: "since <start>", y: "units" };

    fn curve<'a>(name: &'a str, points: &'a [Point]) -> Curve<'a> {
        Curve { name, points }
    }

    /// Every type of chart, drawn with these points.
    fn all_of(points: &[Point]) -> Vec<String> {
        let (one, other) = (curve("one <b>", points), curve("尝试次数", points));
        let rows = [("sold <out>", 3), ("busy", u64::MAX), ("ended", 0)];
        vec![
            sell_through(points, &LABELS),
            rates(one, other, &LABELS),
            latency(one, other, &LABELS),
            bars(&rows, LABELS.title),
        ]
    }

    fn assert_valid(svg: &str) {
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
        assert!(
            svg.contains("role=\"img\" aria-label=\"Sold &lt;&quot;over&quot;&gt; time &amp; more\""),
            "{svg}"
        );
        assert!(svg.contains("viewBox=") && svg.contains("class=\"chart\""));
        for never in
            ["style=", "<script", "NaN", "inf", "<b>", "<out>", "<start>", "#01", " width=\"100", "&amp;lt;"]
        {
            assert!(!svg.contains(never), "{never} in {svg}");
        }
    }

    #[test]
    fn any_points_yield_a_valid_chart() {
        let many: Vec<Point> =
            (0..900_u32).map(|second| (f64::from(second), f64::from(second % 7))).collect();
        let cases: [&[Point]; 9] = [
            &[],
            &[(0.0, 5.0)],
            &[(0.0, 0.0), (1.0, 0.0)],
            &[(0.0, 7.0), (1.0, 7.0), (2.0, 7.0)],
            &[(0.0, 1e300), (1e300, f64::MAX)],
            &[(0.0, f64::NAN), (f64::INFINITY, 2.0), (1.0, -3.0)],
            &[(0.0, 0.0001), (0.001, 60_000.0)],
            &[(5.0, 5.0), (5.0, 6.0)],
            &many,
        ];
        for points in cases {
            for svg in all_of(points) {
                assert_valid(&svg);
            }
        }
    }

    #[test]
    fn colours_come_from_the_page() {
        let svg =
            rates(curve("a", &[(0.0, 1.0), (1.0, 2.0)]), curve("b", &[(0.0, 0.5), (1.0, 1.0)]), &LABELS);
        for colour in ["var(--chart-1)", "var(--chart-2)", "var(--line)", "currentColor"] {
            assert!(svg.contains(colour), "{colour}");
        }
        assert!(!svg.contains('#'), "{svg}");
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.5, 9.0, 950.0, 1000.0, 1234.0, 2_500_000.0, 1e15].map(compact);
        assert_eq!(shown.join(" "), "0 0.5 9 950 1k 1.2k 2.5M 1000T");
    }
}
