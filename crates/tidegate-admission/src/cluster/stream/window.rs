//! The claims that one reader has fetched from its stream and the ledger does not have yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Claim;
use tidegate_ledger::Position;

/// Entries of the first fetch. Each may hold as many claims as one call of the gate grants.
pub(super) const INITIAL_FETCH: usize = 8;

/// A claim with the id of its entry.
pub(super) type FetchedClaim = (Arc<str>, Arc<Claim>);

#[derive(Debug)]
pub(super) struct Window {
    /// The position of the last claim that is recorded.
    pub(super) recorded: Position,
    /// Fetched and not recorded. Claims of one entry are adjacent.
    pub(super) claims: VecDeque<FetchedClaim>,
    /// Recorded claims whose entry has others that are not.
    partial: Vec<FetchedClaim>,
    /// When entries of dead readers were last looked for.
    pub(super) takeover_at: Option<Instant>,
    /// How long the reader sleeps when the stream is empty.
    pub(super) pause: Duration,
    /// Entries of the next fetch: as many as contained enough claims the last time.
    pub(super) fetch_size: usize,
}

impl Window {
    pub(super) fn new(recorded: Position, pause: Duration) -> Self {
        Self {
            recorded,
            claims: VecDeque::new(),
            partial: Vec::new(),
            takeover_at: None,
            pause,
            fetch_size: INITIAL_FETCH,
        }
    }

    pub(super) fn contains(&self, entry: &str) -> bool {
        self.claims.iter().any(|(known, _)| **known == *entry)
    }

    /// Removes the first `count` claims, which are recorded. Returns the claims whose entries are recorded completely.
    pub(super) fn remove_recorded(&mut self, count: usize) -> Vec<FetchedClaim> {
        let mut recorded = std::mem::take(&mut self.partial);
        recorded.extend(self.claims.drain(..count));
        if let Some((next, _)) = self.claims.front() {
            let complete = recorded.iter().position(|(entry, _)| entry == next).unwrap_or(recorded.len());
            self.partial = recorded.split_off(complete);
        }
        recorded
    }

    /// Adapts the size of the next fetch to how many claims the last one contained.
    pub(super) fn adapt_fetch_size(&mut self, claims: usize, wanted: usize) {
        if claims < wanted {
            self.fetch_size = (self.fetch_size * 2).min(wanted.max(INITIAL_FETCH));
        } else if claims > wanted {
            self.fetch_size = (self.fetch_size / 2).max(1);
        }
    }
}
