//! Bounded polling for asynchronous tests, instead of sleeps and hand-written loops.
//!
//! A wait that times out panics with the claim and the last value seen.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

const BOUND: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The result of one poll: the awaited value, or the value seen instead.
pub trait Look {
    type Awaited;
    type Seen: Debug;

    fn outcome(self) -> Result<Self::Awaited, Self::Seen>;
}

impl Look for bool {
    type Awaited = ();
    type Seen = bool;

    fn outcome(self) -> Result<(), bool> {
        if self { Ok(()) } else { Err(self) }
    }
}

impl<T, E: Debug> Look for Result<T, E> {
    type Awaited = T;
    type Seen = E;

    fn outcome(self) -> Self {
        self
    }
}

/// Polls `look` for at most 30 seconds until it returns `true` or `Ok`; panics on timeout.
pub async fn eventually<L: Look>(claim: &str, look: impl AsyncFnMut() -> L) -> L::Awaited {
    eventually_within(BOUND, claim, look).await
}

/// `eventually` with another bound.
pub async fn eventually_within<L: Look>(
    bound: Duration,
    claim: &str,
    mut look: impl AsyncFnMut() -> L,
) -> L::Awaited {
    let (deadline, mut pause) = (Instant::now() + bound, SHORTEST_PAUSE);
    let mut last = None;
    // `timeout_at` never interrupts a future that is ready at once, so the deadline is checked here, too.
    while Instant::now() < deadline {
        match tokio::time::timeout_at(deadline, look()).await.map(Look::outcome) {
            Ok(Ok(awaited)) => return awaited,
            Ok(Err(seen)) => last = Some(seen),
            Err(_elapsed) => break,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    panic!("not within {bound:?}: {claim}; last seen: {last:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_awaited_value_is_returned() {
        let mut looks = 0;
        let found = eventually("three looks", async || {
            looks += 1;
            if looks == 3 { Ok("found") } else { Err(looks) }
        });
        assert_eq!(found.await, "found");
        eventually("it is true", async || true).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 10ms: it is even; last seen: Some(7)")]
    async fn a_claim_that_stays_false_panics_with_the_last_value() {
        eventually_within(Duration::from_millis(10), "it is even", async || Err::<(), _>(7)).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 10ms: it answers; last seen: None")]
    async fn a_poll_that_hangs_is_bounded_too() {
        eventually_within(Duration::from_millis(10), "it answers", std::future::pending::<bool>).await;
    }
}
