//! What time it is: the one place that asks.

use jiff::{SignedDuration, Timestamp};

#[expect(clippy::disallowed_methods, reason = "sales of a benchmark run in real time")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The time so many seconds from now, as the API wants it.
pub(crate) fn from_now(seconds: i64) -> String {
    (now() + SignedDuration::from_secs(seconds)).to_string()
}

/// As the ledger keeps it.
pub(crate) fn now_ms() -> i64 {
    now().as_millisecond()
}
