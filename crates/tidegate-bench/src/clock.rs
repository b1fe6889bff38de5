//! The only place that reads the wall clock.

use jiff::{SignedDuration, Timestamp};

#[expect(clippy::disallowed_methods, reason = "sales of a benchmark run in real time")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The time `seconds` from now, in the API's format.
pub(crate) fn from_now(seconds: i64) -> String {
    (now() + SignedDuration::from_secs(seconds)).to_string()
}

/// The current time in the ledger's format.
pub(crate) fn now_ms() -> i64 {
    now().as_millisecond()
}
