//! The ledger's progress on its way into the journal, and who waits until it is there.
//!
//! Every frame carries the newest progress. Changes that only the ledger has wait for a frame; recorded claims do not,
//! since the journal has them: their frame may come later, and mostly it is the next batch of claims.

use tidegate_ledger::{Kept, Progress};

#[derive(Default)]
pub(super) struct KeptProgress {
    newest: Progress,
    written: Progress,
    waiting: Vec<Kept>,
}

impl KeptProgress {
    /// What the journal already has.
    pub(super) fn start(&mut self, written: Progress) {
        (self.newest, self.written) = (written, written);
    }

    /// Notes the progress; returns whether the writer must be woken.
    pub(super) fn note(&mut self, progress: Progress, kept: Option<Kept>) -> bool {
        let was_written = !self.is_behind() && !self.is_awaited();
        self.newest = progress;
        self.waiting.extend(kept);
        was_written || self.waiting.len() == 1
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_behind(&self) -> bool {
        self.newest != self.written
    }

    /// What the next frame is to carry, and who waits for that.
    pub(super) fn take(&mut self) -> (Progress, Vec<Kept>) {
        (self.newest, std::mem::take(&mut self.waiting))
    }

    pub(super) fn wrote(&mut self, progress: Progress) {
        self.written = progress;
    }
}

impl std::fmt::Debug for KeptProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptProgress").field("newest", &self.newest).finish_non_exhaustive()
    }
}
