//! How many claims this node was granted and does not know the outcome of; read without a lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug)]
pub struct ClaimCounts {
    /// Since the start of the process.
    granted: AtomicU64,
    unrecorded: AtomicUsize,
    /// With this many unrecorded claims, no further claims are submitted.
    max_unrecorded: usize,
}

impl ClaimCounts {
    pub(super) fn new(max_unrecorded: usize) -> Self {
        Self { granted: AtomicU64::new(0), unrecorded: AtomicUsize::new(0), max_unrecorded }
    }

    pub(super) fn add_granted(&self, claims: u64) {
        self.granted.fetch_add(claims, Ordering::Relaxed);
    }

    pub(super) fn set_unrecorded(&self, claims: usize) {
        self.unrecorded.store(claims, Ordering::Relaxed);
    }

    pub(super) fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }

    pub(super) fn unrecorded(&self) -> usize {
        self.unrecorded.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.unrecorded() >= self.max_unrecorded
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.unrecorded() >= self.max_unrecorded / 2
    }
}
