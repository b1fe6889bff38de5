//! Axes and lines, drawn by plotters in colours that stand for others, and put right afterwards.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Curve, Point, Words, compact, escape};

/// As the reader sees it, in pixels where the chart is as wide as this: between a telephone and a column of a desk's screen, so
/// that letters can be read on both.
const WIDTH: u32 = 420;
const HEIGHT: u32 = 200;
/// Plotters knows whole pixels only: it draws larger, so that curves are smooth.
const FINE: u32 = 4;
const LETTERS: u32 = 12;
/// What plotters divides a letter's size by.
const PLOTTERS_LETTERS: f64 = 1.24;

const TEXT: RGBColor = RGBColor(1, 2, 3);
const CURVES: [RGBColor; 3] = [RGBColor(1, 2, 4), RGBColor(1, 2, 5), RGBColor(1, 2, 6)];
const GRID: RGBColor = RGBColor(1, 2, 7);
/// What the colours above stand for.
const MEANT: [(&str, &str); 5] = [
    ("#010203", "currentColor"),
    ("#010204", "var(--chart-1)"),
    ("#010205", "var(--chart-2)"),
    ("#010206", "var(--chart-3)"),
    ("#010207", "var(--line)"),
];
/// Beyond this nothing is told apart any more.
const LARGEST: f64 = 1e15;
/// Milliseconds below this are as good as none.
const SMALLEST: f64 = 0.01;
/// Where values differ by more than this factor, powers of ten are shown.
const FAR_APART: f64 = 20.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Powers of ten where that shows more.
    Fitting,
}

#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) words: &'a Words<'a>,
    pub(super) curves: &'a [Curve<'a>],
    /// Whether the area under the curve is shaded.
    pub(super) filled: bool,
    pub(super) scale: Scale,
}

/// Seconds, minutes or hours: whichever makes small numbers.
#[derive(Clone, Copy)]
struct TimeUnit {
    seconds: f64,
    name: &'static str,
}

impl TimeUnit {
    fn of(span: f64) -> Self {
        match span {
            span if span > 3.0 * 3600.0 => Self { seconds: 3600.0, name: "h" },
            span if span > 180.0 => Self { seconds: 60.0, name: "min" },
            _ => Self { seconds: 1.0, name: "s" },
        }
    }
}

/// What is drawn: cleaned points in the units of their axes.
struct Plot {
    lines: Vec<Vec<Point>>,
    unit: TimeUnit,
    x: Range<f64>,
    y: Range<f64>,
    logarithmic: bool,
}

impl Plot {
    fn of(frame: &Frame<'_>) -> Self {
        let sane = |(x, y): &Point| {
            (x.is_finite() && y.is_finite()).then(|| (x.min(LARGEST), y.clamp(0.0, LARGEST)))
        };
        let clean = |curve: &Curve<'_>| curve.points.iter().filter_map(sane).collect();
        let mut lines: Vec<Vec<Point>> = frame.curves.iter().map(clean).collect();
        let xs = range_of(lines.iter().flatten().map(|point| point.0)).unwrap_or(0.0..60.0);
        let xs = xs.start.min(0.0)..xs.end;
        let unit = TimeUnit::of(xs.end - xs.start);
        for point in lines.iter_mut().flatten() {
            point.0 /= unit.seconds;
        }
        let x = widened(xs.start / unit.seconds..xs.end / unit.seconds);
        let values = || lines.iter().flatten().map(|point| point.1);
        let above_zero = range_of(values().filter(|value| *value > SMALLEST));
        let logarithmic = frame.scale == Scale::Fitting
            && above_zero.as_ref().is_some_and(|range| range.end / range.start > FAR_APART);
        let y = if let Some(range) = above_zero.filter(|_| logarithmic) {
            for point in lines.iter_mut().flatten() {
                point.1 = point.1.max(range.start).log10();
            }
            range.start.log10().floor()..range.end.log10().ceil()
        } else {
            let most = range_of(values()).map_or(0.0, |range| range.end);
            0.0..if most > 0.0 { most * 1.08 } else { 1.0 }
        };
        Self { lines, unit, x, y, logarithmic }
    }

    /// One tick for each power of ten, or a few.
    fn y_ticks(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 20")]
        let decades = (self.y.end - self.y.start) as usize;
        if self.logarithmic { decades + 1 } else { 5 }
    }
}

fn range_of(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    values.fold(None, |range: Option<Range<f64>>, value| {
        Some(range.map_or(value..value, |range| range.start.min(value)..range.end.max(value)))
    })
}

/// A range that has an extent.
fn widened(range: Range<f64>) -> Range<f64> {
    if range.end - range.start > range.end.abs() * 1e-9 {
        range
    } else {
        range.start..range.start + range.start.abs().max(1.0)
    }
}

impl Frame<'_> {
    pub(super) fn draw(&self) -> String {
        let plot = Plot::of(self);
        let mut drawn = String::new();
        {
            let area = SVGBackend::with_string(&mut drawn, (WIDTH * FINE, HEIGHT * FINE)).into_drawing_area();
            // Writing to a String cannot fail; a chart that could not be drawn would be one without lines.
            let _ = self
                .draw_on(&area, &plot)
                .inspect_err(|error| tracing::warn!(%error, "a chart is incomplete"));
        }
        self.finish(&drawn)
    }

    fn draw_on(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        plot: &Plot,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let mut chart = ChartBuilder::on(area)
            .margin_top(32 * FINE)
            .margin_right(14 * FINE)
            .margin_bottom(if self.words.x.is_empty() { 2 } else { 16 } * FINE)
            .x_label_area_size(24 * FINE)
            .y_label_area_size(44 * FINE)
            .build_cartesian_2d(plot.x.clone(), plot.y.clone())?;
        let letters = ("inherit", f64::from(LETTERS * FINE) * PLOTTERS_LETTERS).with_color(TEXT.mix(0.65));
        chart
            .configure_mesh()
            .disable_x_mesh()
            .axis_style(TRANSPARENT)
            .bold_line_style(GRID.mix(0.6).stroke_width(FINE))
            .light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(6 * FINE)
            .x_labels(5)
            .y_labels(plot.y_ticks())
            .label_style(letters)
            .x_label_formatter(&|x| format!("{} {}", compact(*x), plot.unit.name))
            .y_label_formatter(&|y| compact(if plot.logarithmic { 10_f64.powf(*y) } else { *y }))
            .draw()?;
        let baseline = vec![(plot.x.start, plot.y.start), (plot.x.end, plot.y.start)];
        chart.draw_series([PathElement::new(baseline, GRID.stroke_width(FINE))])?;
        for (line, colour) in plot.lines.iter().zip(CURVES) {
            let points = || line.iter().copied();
            if self.filled {
                chart.draw_series(AreaSeries::new(points(), plot.y.start, colour.mix(0.12)))?;
            }
            match line[..] {
                [point] => {
                    chart.draw_series([Circle::new(point, 3 * FINE, colour.filled())])?;
                }
                _ => {
                    chart.draw_series(LineSeries::new(points(), colour.stroke_width(2 * FINE)))?;
                }
            }
        }
        area.present()
    }

    /// The page's colours, a head of our own, and the words.
    fn finish(&self, drawn: &str) -> String {
        let body = drawn.split_once('>').map_or("", |(_, body)| body);
        let body = body.trim_end().strip_suffix("</svg>").unwrap_or(body);
        let mut body =
            body.replace("<polyline ", "<polyline stroke-linejoin=\"round\" stroke-linecap=\"round\" ");
        for (stands_for, meant) in MEANT {
            body = body.replace(stands_for, meant);
        }
        let (width, height) = (WIDTH * FINE, HEIGHT * FINE);
        let label = escape(self.words.label);
        let (legend, titles) = (self.legend(), self.titles());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{label}\" font-family=\"inherit\">{body}{titles}{legend}</svg>"
        )
    }

    fn titles(&self) -> String {
        let size = LETTERS * FINE;
        let text = |x: u32, y: u32, anchor: &str, words: &str| {
            format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\" opacity=\"0.65\" \
                 fill=\"currentColor\">{}</text>",
                x * FINE,
                y * FINE,
                escape(words)
            )
        };
        let mut titles = text(8, 14, "start", self.words.y);
        if !self.words.x.is_empty() {
            titles.push_str(&text(WIDTH - 14, HEIGHT - 5, "end", self.words.x));
        }
        titles
    }

    /// Names in the colours of their lines, from the right.
    fn legend(&self) -> String {
        let size = LETTERS * FINE;
        let mut right = (WIDTH - 14) * FINE;
        let mut legend = String::new();
        for (number, curve) in
            self.curves.iter().enumerate().rev().filter(|(_, curve)| !curve.name.is_empty())
        {
            let dash = right.saturating_sub(wide(curve.name) + 6 * FINE);
            let (from, at, number) = (dash.saturating_sub(14 * FINE), 10 * FINE, number + 1);
            // Writing to a String cannot fail.
            let _ = write!(
                legend,
                "<line x1=\"{from}\" y1=\"{at}\" x2=\"{dash}\" y2=\"{at}\" stroke=\"var(--chart-{number})\" \
                 stroke-width=\"{}\" stroke-linecap=\"round\"/><text x=\"{right}\" y=\"{}\" text-anchor=\"end\" \
                 font-size=\"{size}\" fill=\"currentColor\">{}</text>",
                3 * FINE,
                14 * FINE,
                escape(curve.name)
            );
            right = from.saturating_sub(16 * FINE);
        }
        legend
    }
}

/// About how wide a text is: letters of the west are half as wide as those of the east.
fn wide(text: &str) -> u32 {
    let halves: u32 = text.chars().map(|letter| if letter.is_ascii() { 1 } else { 2 }).sum();
    halves * LETTERS * FINE * 11 / 20
}
