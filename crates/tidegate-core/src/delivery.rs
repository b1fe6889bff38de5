//! A delivery: of a prize to its winner, or of an event to a webhook.
//!
//! waiting → new → delivered; new → failed → … → delivered or dead; dead → new by an operator. At-least-once
//! delivery: the receiver recognizes repetitions by the delivery's or event's id.

use std::time::Duration;

use crate::words::words;

words! {
    /// A delivery's state. `failed` is retried when due, `dead` is not.
    DeliveryState { Waiting "waiting" New "new" Failed "failed" Delivered "delivered" Dead "dead" }
}

words! {
    /// The condition for the first attempt.
    WaitsFor { Close "close" Operator "operator" Address "address" }
}

/// The first pause of the exponential backoff.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(4 * 3600);

/// The pause after the `tries`-th failure: exponential backoff with jitter. `chance`, from 0 to 1, selects between
/// three quarters and all of the pause, so that deliveries that failed together are not retried together.
pub fn pause_after(tries: u32, chance: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1_u32 << tries.saturating_sub(1).min(20));
    doubled.min(LONGEST_PAUSE).mul_f64(0.75 + chance.clamp(0.0, 1.0) / 4.0)
}

/// What lateness of an attempt counts: this program was busy, not off.
const LATE: Duration = Duration::from_secs(60);

/// How much of the time since the last attempt counts towards giving up: the pause that was planned, or longer if the
/// target was seen failing for longer meanwhile. So attempts use up the patience, and neither a step of the clock nor a
/// time in which this program was off does.
pub fn counting(planned: Duration, seen_failing: Duration) -> Duration {
    planned.max(seen_failing) + LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_four_hours_with_jitter() {
        assert_eq!(pause_after(1, 1.0), Duration::from_secs(1));
        assert_eq!(pause_after(5, 1.0), Duration::from_secs(16));
        assert_eq!(pause_after(5, 0.0), Duration::from_secs(12));
        assert_eq!(pause_after(u32::MAX, 1.0), LONGEST_PAUSE);
        // Three days of retries are about thirty attempts.
        let mut waited = Duration::ZERO;
        let tries = (1..100).find(|tries| {
            waited += pause_after(*tries, 0.5);
            waited > Duration::from_secs(72 * 3600)
        });
        assert!((25..=40).contains(&tries.unwrap()), "{tries:?}");
    }
}
