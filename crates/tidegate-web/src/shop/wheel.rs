//! The wheel of a draw: one slice per prize, with "no win" slices in between unless every play wins.
//!
//! The wheel only reveals what the server decided. Slices have equal sizes; the page lists the odds beside the wheel.

use std::f64::consts::TAU;

use tidegate_core::Draw;

/// With more prizes, labels would not fit.
const MAX_PRIZES: usize = 12;
const CENTER: f64 = 160.0;
const RADIUS: f64 = 152.0;
const LABEL_RADIUS: f64 = 98.0;
const MAX_LABEL_CHARS: usize = 14;

#[derive(Clone, Debug)]
pub(crate) struct Slice {
    /// The prize's id; 0 for no win.
    pub(crate) prize: String,
    pub(crate) label: String,
    pub(crate) class: String,
    pub(crate) path: String,
    /// SVG transform of the label.
    pub(crate) transform: String,
}

/// All slices in order; `None` if there are more prizes than a wheel can show.
pub(crate) fn slices(draw: &Draw, always_wins: bool, no_win: &str) -> Option<Vec<Slice>> {
    if draw.prizes.len() > MAX_PRIZES {
        return None;
    }
    let mut labels: Vec<(String, String, String)> = Vec::new();
    for (number, prize) in draw.prizes.iter().enumerate() {
        labels.push(((number + 1).to_string(), shorten(&prize.name), format!("slice-{}", number % 6)));
        if !always_wins {
            labels.push(("0".into(), no_win.to_owned(), "slice-none".into()));
        }
    }
    if labels.len() == 1 {
        labels.push(labels[0].clone());
    }
    let count = labels.len();
    Some(labels.into_iter().enumerate().map(|(at, label)| slice(at, count, label)).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a dozen or two")]
fn slice(at: usize, count: usize, (prize, label, class): (String, String, String)) -> Slice {
    let (from, to) = (at as f64 / count as f64 * TAU, (at + 1) as f64 / count as f64 * TAU);
    // Clockwise from the top.
    let point = |angle: f64| (CENTER + RADIUS * angle.sin(), CENTER - RADIUS * angle.cos());
    let ((x1, y1), (x2, y2)) = (point(from), point(to));
    let degrees = f64::midpoint(from, to).to_degrees();
    Slice {
        prize,
        label,
        class,
        path: format!("M{CENTER} {CENTER}L{x1:.2} {y1:.2}A{RADIUS} {RADIUS} 0 0 1 {x2:.2} {y2:.2}Z"),
        transform: format!(
            "rotate({degrees:.2} {CENTER} {CENTER}) translate({CENTER} {}) rotate(90)",
            CENTER - LABEL_RADIUS
        ),
    }
}

fn shorten(name: &str) -> String {
    if name.chars().count() <= MAX_LABEL_CHARS {
        return name.to_owned();
    }
    name.chars().take(MAX_LABEL_CHARS - 1).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use tidegate_core::Prize;
    use tidegate_core::draw::{Grant, PrizeKind, Strategy};

    use super::*;

    fn draw(prizes: usize) -> Draw {
        let prize = |number: usize| Prize {
            name: format!("Prize number {number}"),
            kind: PrizeKind::Text,
            odds: 1,
            stock: 1,
            grant: Grant::Instant,
            content: "x".into(),
        };
        let prizes = (1..=prizes).map(prize).collect();
        Draw { name: "A draw".into(), strategy: Strategy::Single, prizes, seed: [0; 32] }
    }

    #[test]
    fn every_prize_and_no_win_have_a_slice() {
        let ids = |always| -> Vec<String> {
            slices(&draw(3), always, "No win").unwrap().into_iter().map(|slice| slice.prize).collect()
        };
        assert_eq!(ids(false), ["1", "0", "2", "0", "3", "0"]);
        assert_eq!(ids(true), ["1", "2", "3"]);
        assert!(slices(&draw(13), false, "No win").is_none());
    }
}
