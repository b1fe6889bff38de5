//! How long buyers wait for the disk: whoever waits longer is told that their claim is late. It stays where it is.
//!
//! One look now and then for everybody. A timer for each claim would be set and taken back 80,000 times a second, in a wheel
//! that all cores lock; without them, and with fewer looks at the clock, orders are 2 to 3 % faster.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::{Duration, Instant};

use super::super::{AppendError, Position};
use super::{Shared, writer};

/// So often within the time that anybody may wait.
const LOOKS: u32 = 20;
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// Tells whoever waits too long, until the journal is gone.
pub(super) async fn watch(shared: Weak<Shared>, patience: Duration) {
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep((patience / LOOKS).max(SHORTEST_REST)).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut backlog = shared.backlog.lock();
        let late = seen.through(backlog.end(), Instant::now(), patience);
        let waiters = backlog.waiting_through(late);
        drop(backlog);
        if !waiters.is_empty() {
            writer::wake(&shared, waiters, Err(AppendError::Late));
        }
    }
}

/// The newest claim at every look of late.
#[derive(Default)]
struct Seen(VecDeque<(Instant, Position)>);

impl Seen {
    /// Up to where claims have been here for as long as anybody waits.
    fn through(&mut self, end: Position, now: Instant, patience: Duration) -> Position {
        // Less than before where a full disk took some back: nobody waits for those any more. Whoever came in their place before
        // this look may be told too soon, and that their claim is on its way is true.
        self.0.iter_mut().for_each(|(_, position)| *position = end.min(*position));
        self.0.push_back((now, end));
        let old = self.0.partition_point(|(at, _)| now.duration_since(*at) >= patience);
        self.0.drain(..old).next_back().map_or(0, |(_, position)| position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_before_their_time_and_everybody_soon_after() {
        let (mut seen, start, patience) = (Seen::default(), Instant::now(), Duration::from_millis(100));
        let mut look = |ms, end| seen.through(end, start + Duration::from_millis(ms), patience);
        assert_eq!([look(0, 5), look(40, 9), look(99, 9)], [0, 0, 0]);
        assert_eq!(look(100, 12), 5);
        assert_eq!(look(150, 12), 9);
        // All but seven were taken back, and one is new.
        assert_eq!(look(199, 7), 7);
        assert_eq!(look(210, 8), 7);
        assert_eq!(look(320, 8), 8);
    }
}
