//! The wheel of a draw: a slice per prize, and where not every play wins, one without between them.
//!
//! It only shows what the server has decided; the slices' sizes say nothing about the odds, which stand beside it.

use std::f64::consts::TAU;

use tidegate_core::Draw;

/// Beyond this slices could not be read.
const MOST: usize = 12;
const MIDDLE: f64 = 160.0;
const RADIUS: f64 = 152.0;
const LABEL: f64 = 98.0;
const LETTERS: usize = 14;

#[derive(Clone, Debug)]
pub(super) struct Slice {
    /// The prize's id; 0 for no win.
    pub(super) prize: String,
    pub(super) label: String,
    pub(super) class: String,
    pub(super) path: String,
    /// Where the label stands, and how it is turned.
    pub(super) turn: String,
}

/// The slices in their order; `None` where there are more prizes than a wheel can show.
pub(super) fn slices(draw: &Draw, always_wins: bool, no_win: &str) -> Option<Vec<Slice>> {
    if draw.prizes.len() > MOST {
        return None;
    }
    let mut labels: Vec<(String, String, String)> = Vec::new();
    for (number, prize) in draw.prizes.iter().enumerate() {
        labels.push(((number + 1).to_string(), short(&prize.name), format!("slice-{}", number % 6)));
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
    // From twelve o'clock, with the clock.
    let point = |angle: f64| (MIDDLE + RADIUS * angle.sin(), MIDDLE - RADIUS * angle.cos());
    let ((x1, y1), (x2, y2)) = (point(from), point(to));
    let degrees = f64::midpoint(from, to).to_degrees();
    Slice {
        prize,
        label,
        class,
        path: format!("M{MIDDLE} {MIDDLE}L{x1:.2} {y1:.2}A{RADIUS} {RADIUS} 0 0 1 {x2:.2} {y2:.2}Z"),
        turn: format!(
            "rotate({degrees:.2} {MIDDLE} {MIDDLE}) translate({MIDDLE} {}) rotate(90)",
            MIDDLE - LABEL
        ),
    }
}

fn short(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).collect::<String>() + "…"
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
    fn every_prize_has_a_slice_and_so_has_no_win() {
        let ids = |always| -> Vec<String> {
            slices(&draw(3), always, "No win").unwrap().into_iter().map(|slice| slice.prize).collect()
        };
        assert_eq!(ids(false), ["1", "0", "2", "0", "3", "0"]);
        assert_eq!(ids(true), ["1", "2", "3"]);
        assert!(slices(&draw(13), false, "No win").is_none());
    }
}
