//! Axes and lines. Plotters cannot write CSS variables, so it draws in placeholder colours that are replaced
//! afterwards.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Curve, Labels, Point, compact, escape};

/// Nominal size in CSS pixels: between the width of a phone and of a column on a desktop, so that text is readable on
/// both.
const WIDTH: u32 = 420;
const HEIGHT: u32 = 200;
/// Plotters rounds to whole pixels, so the chart is drawn larger to keep lines smooth.
const SUPERSAMPLING: u32 = 4;
const FONT_SIZE: u32 = 12;
/// Plotters divides font sizes by this factor.
const PLOTTERS_FONT_SCALE: f64 = 1.24;

const TEXT: RGBColor = RGBColor(1, 2, 3);
const CURVES: [RGBColor; 3] = [RGBColor(1, 2, 4), RGBColor(1, 2, 5), RGBColor(1, 2, 6)];
const GRID: RGBColor = RGBColor(1, 2, 7);
/// Replacements of the placeholder colours.
const CSS_COLOURS: [(&str, &str); 5] = [
    ("#010203", "currentColor"),
    ("#010204", "var(--chart-1)"),
    ("#010205", "var(--chart-2)"),
    ("#010206", "var(--chart-3)"),
    ("#010207", "var(--line)"),
];
/// Larger values are clamped: plotters computes with the range.
const MAX_VALUE: f64 = 1e15;
/// Milliseconds below this are ignored when a scale is chosen.
const MIN_MILLIS: f64 = 0.01;
/// Ratio of largest to smallest value above which the scale is logarithmic.
const LOGARITHMIC_RATIO: f64 = 20.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Logarithmic if the values are far apart.
    Automatic,
}

#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) labels: &'a Labels<'a>,
    pub(super) curves: &'a [Curve<'a>],
    /// Shades the area below the line.
    pub(super) filled: bool,
    pub(super) scale: Scale,
}

/// Unit of the time axis: seconds, minutes or hours.
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

/// Valid points in the units of their axes, and the ranges of the axes.
struct Plot {
    lines: Vec<Vec<Point>>,
    unit: TimeUnit,
    x: Range<f64>,
    y: Range<f64>,
    logarithmic: bool,
}

impl Plot {
    fn of(frame: &Frame<'_>) -> Self {
        let valid = |(x, y): &Point| {
            (x.is_finite() && y.is_finite()).then(|| (x.min(MAX_VALUE), y.clamp(0.0, MAX_VALUE)))
        };
        let clean = |curve: &Curve<'_>| curve.points.iter().filter_map(valid).collect();
        let mut lines: Vec<Vec<Point>> = frame.curves.iter().map(clean).collect();
        let xs = range_of(lines.iter().flatten().map(|point| point.0)).unwrap_or(0.0..60.0);
        let xs = xs.start.min(0.0)..xs.end;
        let unit = TimeUnit::of(xs.end - xs.start);
        for point in lines.iter_mut().flatten() {
            point.0 /= unit.seconds;
        }
        let x = widened(xs.start / unit.seconds..xs.end / unit.seconds);
        let values = || lines.iter().flatten().map(|point| point.1);
        let above_zero = range_of(values().filter(|value| *value > MIN_MILLIS));
        let logarithmic = frame.scale == Scale::Automatic
            && above_zero.as_ref().is_some_and(|range| range.end / range.start > LOGARITHMIC_RATIO);
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

    /// One tick per power of ten on a logarithmic scale.
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

/// Extends an empty range.
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
            let area = SVGBackend::with_string(&mut drawn, (WIDTH * SUPERSAMPLING, HEIGHT * SUPERSAMPLING))
                .into_drawing_area();
            // Writing to a String cannot fail; if drawing failed, the chart would merely lack lines.
            let _ = self
                .draw_on(&area, &plot)
                .inspect_err(|error| tracing::warn!(%error, "failed to draw a chart"));
        }
        self.finish(&drawn)
    }

    fn draw_on(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        plot: &Plot,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let mut chart = ChartBuilder::on(area)
            .margin_top(32 * SUPERSAMPLING)
            .margin_right(14 * SUPERSAMPLING)
            .margin_bottom(if self.labels.x.is_empty() { 2 } else { 16 } * SUPERSAMPLING)
            .x_label_area_size(24 * SUPERSAMPLING)
            .y_label_area_size(44 * SUPERSAMPLING)
            .build_cartesian_2d(plot.x.clone(), plot.y.clone())?;
        let font = ("inherit", f64::from(FONT_SIZE * SUPERSAMPLING) * PLOTTERS_FONT_SCALE)
            .with_color(TEXT.mix(0.65));
        chart
            .configure_mesh()
            .disable_x_mesh()
            .axis_style(TRANSPARENT)
            .bold_line_style(GRID.mix(0.6).stroke_width(SUPERSAMPLING))
            .light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(6 * SUPERSAMPLING)
            .x_labels(5)
            .y_labels(plot.y_ticks())
            .label_style(font)
            .x_label_formatter(&|x| format!("{} {}", compact(*x), plot.unit.name))
            .y_label_formatter(&|y| compact(if plot.logarithmic { 10_f64.powf(*y) } else { *y }))
            .draw()?;
        let baseline = vec![(plot.x.start, plot.y.start), (plot.x.end, plot.y.start)];
        chart.draw_series([PathElement::new(baseline, GRID.stroke_width(SUPERSAMPLING))])?;
        for (line, colour) in plot.lines.iter().zip(CURVES) {
            let points = || line.iter().copied();
            if self.filled {
                chart.draw_series(AreaSeries::new(points(), plot.y.start, colour.mix(0.12)))?;
            }
            match line[..] {
                [point] => {
                    chart.draw_series([Circle::new(point, 3 * SUPERSAMPLING, colour.filled())])?;
                }
                _ => {
                    chart.draw_series(LineSeries::new(points(), colour.stroke_width(2 * SUPERSAMPLING)))?;
                }
            }
        }
        area.present()
    }

    /// Replaces the colours and the `<svg>` element, and adds titles and legend.
    fn finish(&self, drawn: &str) -> String {
        let body = drawn.split_once('>').map_or("", |(_, body)| body);
        let body = body.trim_end().strip_suffix("</svg>").unwrap_or(body);
        let mut body =
            body.replace("<polyline ", "<polyline stroke-linejoin=\"round\" stroke-linecap=\"round\" ");
        for (placeholder, colour) in CSS_COLOURS {
            body = body.replace(placeholder, colour);
        }
        let (width, height) = (WIDTH * SUPERSAMPLING, HEIGHT * SUPERSAMPLING);
        let label = escape(self.labels.title);
        let (legend, titles) = (self.legend(), self.titles());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{label}\" font-family=\"inherit\">{body}{titles}{legend}</svg>"
        )
    }

    fn titles(&self) -> String {
        let size = FONT_SIZE * SUPERSAMPLING;
        let text = |x: u32, y: u32, anchor: &str, text: &str| {
            format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\" opacity=\"0.65\" \
                 fill=\"currentColor\">{}</text>",
                x * SUPERSAMPLING,
                y * SUPERSAMPLING,
                escape(text)
            )
        };
        let mut titles = text(8, 14, "start", self.labels.y);
        if !self.labels.x.is_empty() {
            titles.push_str(&text(WIDTH - 14, HEIGHT - 5, "end", self.labels.x));
        }
        titles
    }

    /// Names and colours of the lines, right-aligned.
    fn legend(&self) -> String {
        let size = FONT_SIZE * SUPERSAMPLING;
        let mut right = (WIDTH - 14) * SUPERSAMPLING;
        let mut legend = String::new();
        for (number, curve) in
            self.curves.iter().enumerate().rev().filter(|(_, curve)| !curve.name.is_empty())
        {
            let dash = right.saturating_sub(text_width(curve.name) + 6 * SUPERSAMPLING);
            let (from, at, number) =
                (dash.saturating_sub(14 * SUPERSAMPLING), 10 * SUPERSAMPLING, number + 1);
            // Writing to a String cannot fail.
            let _ = write!(
                legend,
                "<line x1=\"{from}\" y1=\"{at}\" x2=\"{dash}\" y2=\"{at}\" stroke=\"var(--chart-{number})\" \
                 stroke-width=\"{}\" stroke-linecap=\"round\"/><text x=\"{right}\" y=\"{}\" text-anchor=\"end\" \
                 font-size=\"{size}\" fill=\"currentColor\">{}</text>",
                3 * SUPERSAMPLING,
                14 * SUPERSAMPLING,
                escape(curve.name)
            );
            right = from.saturating_sub(16 * SUPERSAMPLING);
        }
        legend
    }
}

/// Estimated width of a text: ASCII characters are about half as wide as Chinese ones.
fn text_width(text: &str) -> u32 {
    let halves: u32 = text.chars().map(|letter| if letter.is_ascii() { 1 } else { 2 }).sum();
    halves * FONT_SIZE * SUPERSAMPLING * 11 / 20
}
