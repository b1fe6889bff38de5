//! Messages for problem codes. Forms pass the code in `?said=`; scripts find all messages in the page.

use tidegate_core::ProblemCode;

use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::shop::ShopPhrases;

/// A problem code and its message.
pub(crate) type CodeMessage = (ProblemCode, String);

/// Codes with a fixed message. `limit_reached` is not among them: its message contains the limit.
fn common_phrases(t: &ShopPhrases) -> [(ProblemCode, Phrase); 21] {
    [
        (ProblemCode::Busy, t.busy_text),
        (ProblemCode::SoldOut, t.msg_sold_out),
        (ProblemCode::NotStarted, t.msg_not_started),
        (ProblemCode::Paused, t.msg_paused),
        (ProblemCode::Ended, t.msg_ended),
        (ProblemCode::RateLimited, t.rate_limited_text),
        (ProblemCode::PassRequired, t.msg_pass),
        (ProblemCode::PassInvalid, t.msg_pass),
        (ProblemCode::PlaceExpired, t.msg_place),
        (ProblemCode::QueueRequired, t.msg_place),
        (ProblemCode::ChallengeRequired, t.msg_challenge),
        (ProblemCode::ChallengeFailed, t.msg_challenge),
        (ProblemCode::ChallengeUsed, t.msg_challenge),
        (ProblemCode::ChallengeExpired, t.msg_challenge),
        (ProblemCode::ChallengeInvalid, t.msg_challenge),
        (ProblemCode::Quantity, t.msg_quantity),
        (ProblemCode::ValidationFailed, t.msg_quantity),
        (ProblemCode::IdempotencyKeyReused, t.msg_key_reused),
        (ProblemCode::ClaimLost, t.msg_claim_lost),
        (ProblemCode::OrderQueued, t.msg_still_queued),
        (ProblemCode::Csrf, t.csrf_text),
    ]
}

/// Codes that only the page of an order reports.
const fn order_phrase(t: &ShopPhrases, code: ProblemCode) -> Option<Phrase> {
    match code {
        ProblemCode::OrderExpired | ProblemCode::OrderCancelled | ProblemCode::OrderRefunded => {
            Some(t.msg_too_late)
        }
        _ => None,
    }
}

/// The message for a code, `None` for an empty one. Unknown codes get the message of `busy`.
pub(crate) fn message(t: &ShopPhrases, code: &str, per_user_limit: u32) -> Option<String> {
    if code.is_empty() {
        return None;
    }
    let text = ProblemCode::parse(code).and_then(|code| {
        let known = all_messages(t, per_user_limit).into_iter().find(|(known, _)| *known == code);
        known.map(|(_, text)| text).or_else(|| order_phrase(t, code).map(|phrase| phrase.to_string()))
    });
    Some(text.unwrap_or_else(|| t.busy_text.to_string()))
}

/// All messages that the scripts of sales and draws may show.
pub(crate) fn all_messages(t: &ShopPhrases, per_user_limit: u32) -> Vec<CodeMessage> {
    let limit = (ProblemCode::LimitReached, t.msg_limit.with(per_user_limit));
    common_phrases(t).into_iter().map(|(code, phrase)| (code, phrase.to_string())).chain([limit]).collect()
}

/// Whether the outcome is still unknown, so that the request must be repeated with the same key.
pub(crate) const fn is_outcome_unknown(code: ProblemCode) -> bool {
    matches!(
        code,
        ProblemCode::Busy
            | ProblemCode::NotReady
            | ProblemCode::OutcomeUnknown
            | ProblemCode::IdempotencyInFlight
            | ProblemCode::RateLimited
    )
}
