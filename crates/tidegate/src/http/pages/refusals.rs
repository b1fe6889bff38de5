//! Why something was refused, in a sentence of the visitor's language.
//!
//! The same sentences for forms, which find them by the code behind `?said=`, and for scripts, which find them in the page.

use super::phrases::Phrase;
use super::phrases::shop::Shop;

/// A code and what it means.
pub(super) type Sentence = (&'static str, Phrase);

/// Every code that has a sentence of its own. What has none is said to be busy.
fn all(w: &Shop) -> [Sentence; 22] {
    [
        ("busy", w.busy_text),
        ("sold_out", w.said_sold_out),
        ("limit_reached", w.said_limit),
        ("not_started", w.said_not_started),
        ("paused", w.said_paused),
        ("ended", w.said_ended),
        ("rate_limited", w.slower_text),
        ("pass_required", w.said_pass),
        ("pass_invalid", w.said_pass),
        ("place_expired", w.said_place),
        ("queue_required", w.said_place),
        ("challenge_required", w.said_challenge),
        ("challenge_failed", w.said_challenge),
        ("challenge_used", w.said_challenge),
        ("challenge_expired", w.said_challenge),
        ("challenge_invalid", w.said_challenge),
        ("quantity", w.said_quantity),
        ("validation_failed", w.said_quantity),
        ("idempotency_key_reused", w.said_key_reused),
        ("claim_lost", w.said_lost),
        ("order_queued", w.said_still_queued),
        ("csrf", w.foreign_text),
    ]
}

/// What an order's page says besides.
fn of_orders(w: &Shop) -> [Sentence; 4] {
    let late = w.said_too_late;
    [("order_expired", late), ("late", late), ("order_cancelled", late), ("order_refunded", late)]
}

/// What is said about a code; nothing about none.
pub(super) fn said(w: &Shop, code: &str) -> Option<Phrase> {
    if code.is_empty() {
        return None;
    }
    let known = all(w).into_iter().chain(of_orders(w)).find(|(known, _)| *known == code);
    Some(known.map_or(w.busy_text, |(_, sentence)| sentence))
}

/// For scripts.
pub(super) fn sentences(w: &Shop) -> Vec<Sentence> {
    all(w).to_vec()
}

/// Whether the code leaves open what became of what was asked for.
pub(super) fn is_unclear(code: &str) -> bool {
    matches!(code, "busy" | "not_ready" | "outcome_unknown" | "idempotency_in_flight" | "rate_limited")
}
