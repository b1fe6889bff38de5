//! Bars beside each other's lengths: how many came how far, or were refused for what.

use std::fmt::Write as _;

use super::escape;

const WIDTH: u32 = 420;
/// One row: its words, and the bar under them.
const ROW: u32 = 36;
const BAR: u32 = 8;
/// A bar that stands for something can be seen.
const LEAST: u32 = 3;

/// One bar for each row, the longest as wide as the chart. `label` is for those who hear it instead of seeing it.
pub fn bars(rows: &[(&str, u64)], label: &str) -> String {
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let mut drawn = String::new();
    for ((name, count), top) in rows.iter().zip((0_u32..).step_by(ROW as usize)) {
        let length = u128::from(*count) * u128::from(WIDTH) / u128::from(most);
        let length = u32::try_from(length).unwrap_or(WIDTH).max(if *count > 0 { LEAST } else { 0 });
        let (name, count, words, bar) = (escape(name), grouped(*count), top + 14, top + 20);
        let radius = BAR / 2;
        // Writing to a String cannot fail.
        let _ = write!(
            drawn,
            "<text x=\"0\" y=\"{words}\" font-size=\"13\" fill=\"currentColor\">{name}</text>\
             <text x=\"{WIDTH}\" y=\"{words}\" font-size=\"13\" text-anchor=\"end\" fill=\"currentColor\">{count}</text>\
             <rect x=\"0\" y=\"{bar}\" width=\"{WIDTH}\" height=\"{BAR}\" rx=\"{radius}\" fill=\"var(--line)\" opacity=\"0.5\"/>\
             <rect x=\"0\" y=\"{bar}\" width=\"{length}\" height=\"{BAR}\" rx=\"{radius}\" fill=\"var(--chart-1)\"/>"
        );
    }
    let height = ROW * u32::try_from(rows.len().max(1)).unwrap_or(1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\" font-family=\"inherit\">{drawn}</svg>",
        escape(label)
    )
}

/// With a narrow space between thousands, which every language reads.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join("\u{202f}")
}
