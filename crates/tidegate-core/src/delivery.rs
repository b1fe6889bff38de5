//! A delivery: something that has to reach somebody, a prize its winner or an event a webhook.
//!
//! waiting → new → delivered; new → failed → … → delivered or dead; dead → new by an operator. At least once: whoever
//! receives tells repetitions apart by the delivery's or event's id.

use std::time::Duration;

use crate::words::words;

words! {
    /// How far it is. `failed` is tried again at its time, `dead` is not.
    DeliveryState { Waiting "waiting" New "new" Failed "failed" Delivered "delivered" Dead "dead" }
}

words! {
    /// What a delivery has to wait for before it is tried.
    WaitsFor { Close "close" Operator "operator" Address "address" }
}

/// The first pause; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(4 * 3600);

/// How long to rest after the `tries`-th failure. `chance`, from 0 to 1, spreads those that failed together: between
/// three quarters and all of the pause.
pub fn pause_after(tries: u32, chance: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1_u32 << tries.saturating_sub(1).min(20));
    doubled.min(LONGEST_PAUSE).mul_f64(0.75 + chance.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_hours_and_are_spread() {
        assert_eq!(pause_after(1, 1.0), Duration::from_secs(1));
        assert_eq!(pause_after(5, 1.0), Duration::from_secs(16));
        assert_eq!(pause_after(5, 0.0), Duration::from_secs(12));
        assert_eq!(pause_after(u32::MAX, 1.0), LONGEST_PAUSE);
        // Three days take some thirty tries.
        let mut waited = Duration::ZERO;
        let tries = (1..100).find(|tries| {
            waited += pause_after(*tries, 0.5);
            waited > Duration::from_secs(72 * 3600)
        });
        assert!((25..=40).contains(&tries.unwrap()), "{tries:?}");
    }
}
