//! A rush: recording steps aside while many claims come in at once.
//!
//! Writing rows costs as much as taking the claims they come from, and on a small machine both want the same cores. The
//! journal is what keeps the claims, so rows can wait a little: a burst of 100,000 orders is a quarter to a half faster. What always holds: a rush
//! holds recording up for `LONGEST` at most, not beyond half of the journal's room, and not while somebody waits for a row;
//! then everything is recorded before the next one may.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::Position;
use super::Shared;

const LONGEST: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Claims from one look to the next that make a rush: 5,000 a second.
const CROWD: f64 = 50.0;

/// What the recorder has seen of it.
#[derive(Debug)]
pub(super) struct Rush {
    /// The newest claim at the last look, and when that was.
    seen: (Position, Instant),
    is_on: bool,
    /// Since when recording has stepped aside, now and then, without having caught up.
    aside_since: Option<Instant>,
}

impl Rush {
    pub(super) fn new(end: Position) -> Self {
        Self { seen: (end, Instant::now()), is_on: false, aside_since: None }
    }

    /// Everything is recorded.
    pub(super) fn caught_up(&mut self) {
        self.aside_since = None;
    }

    /// The first claims after a pause: whether they are a rush is told by the next look.
    pub(super) fn may_begin(&mut self, before: Position, now: Instant) {
        self.seen = (before, now);
        self.is_on = true;
    }

    /// Whether recording had better wait.
    fn holds(&mut self, end: Position, now: Instant) -> bool {
        let (before, then) = self.seen;
        let looks = now.duration_since(then).div_duration_f64(LOOK_EVERY);
        if looks >= 1.0 {
            // Less than before where a full disk took some back.
            #[expect(clippy::cast_precision_loss, reason = "claims since the last look")]
            let claims = end.saturating_sub(before) as f64;
            self.is_on = claims >= CROWD * looks;
            self.seen = (end, now);
        }
        self.is_on && now.duration_since(*self.aside_since.get_or_insert(now)) < LONGEST
    }
}

/// Waits until it is over.
pub(super) async fn pass(shared: &Shared) {
    loop {
        let (end, must_go_on) = {
            let backlog = shared.backlog.lock();
            let is_waited_for = backlog.recorded() < shared.wanted.load(Ordering::Acquire);
            (backlog.end(), is_waited_for || backlog.is_half_full())
        };
        if must_go_on || !shared.rush.lock().holds(end, Instant::now()) {
            return;
        }
        tokio::select! {
            () = shared.hurry.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_holds_recording_up_for_a_while_and_then_not_until_it_has_caught_up() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut rush = Rush { seen: (0, start), is_on: false, aside_since: None };
        assert!(!rush.holds(10, at(5)), "too early to tell");
        assert!(!rush.holds(49, at(10)), "a few");
        assert!(rush.holds(150, at(20)), "a crowd");
        assert!(rush.holds(150, at(25)), "it is one until the next look");
        assert!(!rush.holds(151, at(40)), "gone");
        assert!(rush.holds(10_000, at(1000)));
        assert!(!rush.holds(30_000, at(3020)), "long enough");
        assert!(!rush.holds(40_000, at(3100)), "not again before everything is recorded");
        rush.caught_up();
        assert!(rush.holds(50_000, at(3200)));
        rush.caught_up();
        rush.may_begin(50_000, at(9000));
        assert!(rush.holds(50_001, at(9000)), "it may be one");
        assert!(!rush.holds(50_020, at(9010)), "it was none");
    }
}
