//! Whether the gate is in a rush, for whoever can wait until it is over.
//!
//! Where orders are answered before they are recorded, recording takes from a rush the time it needs itself. So it waits, but
//! never for long: not while there is no rush, not beyond a bound of time, not while too much waits to be recorded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Claims between two looks that make a rush: 2,000 a second.
const MANY: usize = 20;
/// Nothing waits longer than this for the end of a rush.
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Rush {
    /// Claims this node has taken since it began.
    taken: AtomicUsize,
    /// Claims of this node that are not recorded, and how many they may be before nothing waits any more.
    unrecorded: AtomicUsize,
    most: usize,
}

impl Rush {
    pub fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), unrecorded: AtomicUsize::new(0), most }
    }

    pub fn took(&self, claims: usize) {
        self.taken.fetch_add(claims, Ordering::Relaxed);
    }

    pub fn waits(&self, unrecorded: usize) {
        self.unrecorded.store(unrecorded, Ordering::Relaxed);
    }

    pub fn unrecorded(&self) -> usize {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Resolves when there is none any more, or when it cannot be waited for.
    pub async fn end(&self) {
        let begun = Instant::now();
        loop {
            let before = self.taken.load(Ordering::Relaxed);
            tokio::time::sleep(LOOK_EVERY).await;
            let taken = self.taken.load(Ordering::Relaxed);
            let full = self.unrecorded() >= self.most;
            if taken.wrapping_sub(before) < MANY || begun.elapsed() > LONGEST || full {
                return;
            }
        }
    }
}
