//! What time it is: the one place that asks.

use jiff::{SignedDuration, Timestamp};

/// The time so many seconds from now, as the API wants it.
pub(crate) fn from_now(seconds: i64) -> String {
    #[expect(clippy::disallowed_methods, reason = "sales of a benchmark run in real time")]
    let now = Timestamp::now();
    (now + SignedDuration::from_secs(seconds)).to_string()
}
