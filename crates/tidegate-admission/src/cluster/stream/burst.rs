//! Deferring the recorder during a burst of claims.
//!
//! If orders are answered before they are recorded, recording competes with admission for the same cores. So the
//! recorder waits while a burst lasts, within bounds: at most `MAX_WAIT`, and not while too many claims are
//! unrecorded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Claims per sample that make a burst: 2,000 a second.
const BURST_CLAIMS: usize = 20;
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Counts this node's claims.
#[derive(Debug)]
pub struct BurstMonitor {
    /// Since the start of the process.
    granted: AtomicUsize,
    unrecorded: AtomicUsize,
    /// With this many unrecorded claims, recording does not wait.
    max_unrecorded: usize,
}

impl BurstMonitor {
    pub fn new(max_unrecorded: usize) -> Self {
        Self { granted: AtomicUsize::new(0), unrecorded: AtomicUsize::new(0), max_unrecorded }
    }

    pub fn add_granted(&self, claims: usize) {
        self.granted.fetch_add(claims, Ordering::Relaxed);
    }

    pub fn set_unrecorded(&self, claims: usize) {
        self.unrecorded.store(claims, Ordering::Relaxed);
    }

    pub fn unrecorded(&self) -> usize {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Resolves when there is no burst, or when one of the bounds is reached.
    pub async fn wait_for_end(&self) {
        let started = Instant::now();
        loop {
            let before = self.granted.load(Ordering::Relaxed);
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            let granted = self.granted.load(Ordering::Relaxed);
            let is_full = self.unrecorded() >= self.max_unrecorded;
            if granted.wrapping_sub(before) < BURST_CLAIMS || started.elapsed() > MAX_WAIT || is_full {
                return;
            }
        }
    }
}
