//! A horizontal bar chart, used for funnels.

use std::fmt::Write as _;

use super::escape;

const WIDTH: u32 = 420;
/// Height of a row: label and bar.
const ROW: u32 = 36;
const BAR: u32 = 8;
/// Shortest visible bar of a value above zero.
const MIN_LENGTH: u32 = 3;

/// One bar per row; the longest is as wide as the chart. `title` is the accessible name.
pub fn bars(rows: &[(&str, u64)], title: &str) -> String {
    let max = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let mut drawn = String::new();
    for ((name, count), top) in rows.iter().zip((0_u32..).step_by(ROW as usize)) {
        let length = u128::from(*count) * u128::from(WIDTH) / u128::from(max);
        let length = u32::try_from(length).unwrap_or(WIDTH).max(if *count > 0 { MIN_LENGTH } else { 0 });
        let (name, count, text_y, bar_y) = (escape(name), grouped(*count), top + 14, top + 20);
        let radius = BAR / 2;
        // Writing to a String cannot fail.
        let _ = write!(
            drawn,
            "<text x=\"0\" y=\"{text_y}\" font-size=\"13\" fill=\"currentColor\">{name}</text>\
             <text x=\"{WIDTH}\" y=\"{text_y}\" font-size=\"13\" text-anchor=\"end\" \
             fill=\"currentColor\">{count}</text>\
             <rect x=\"0\" y=\"{bar_y}\" width=\"{WIDTH}\" height=\"{BAR}\" rx=\"{radius}\" \
             fill=\"var(--line)\" opacity=\"0.5\"/>\
             <rect x=\"0\" y=\"{bar_y}\" width=\"{length}\" height=\"{BAR}\" rx=\"{radius}\" fill=\"var(--chart-1)\"/>"
        );
    }
    let height = ROW * u32::try_from(rows.len().max(1)).unwrap_or(1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\" font-family=\"inherit\">{drawn}</svg>",
        escape(title)
    )
}

/// Thousands separated by a narrow space, which needs no translation.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join("\u{202f}")
}
