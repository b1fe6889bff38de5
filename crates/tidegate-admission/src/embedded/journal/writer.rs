//! The writer thread of the journal: writes all queued claims, and how far the ledger is, with one fdatasync and has
//! their requests answered.
//!
//! After a failed write or sync the thread ends and the journal accepts nothing more: only reopening can tell what is
//! on disk. Without space the queued claims are refused, and the thread tries again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use tidegate_core::Claim;
use tidegate_ledger::{Kept, Position, Progress};

use super::segment::WriteError;
use super::{BatchWritten, Shared, frame};
use crate::intake::AppendError;

/// Claims in one batch.
const MAX_BATCH: usize = 4096;
/// A batch waits for more claims: this long for each claim of the previous batch, up to a maximum, checked in steps.
const GATHER_PER_CLAIM: Duration = Duration::from_micros(5);
const MAX_GATHER: Duration = Duration::from_millis(1);
const GATHER_STEP: Duration = Duration::from_micros(100);
/// Recorded claims are kept as progress of the ledger with the next batch, and after this time at the latest.
const KEEP_WITHIN: Duration = Duration::from_millis(100);
/// How often a journal without space tries again.
const RETRY_SPACE: Duration = Duration::from_millis(500);

pub(super) fn run(shared: &Arc<Shared>) {
    let recyclable_after = shared.segments.lock().recyclable_after();
    let max_batch = batch_size(shared);
    let mut writer = Writer { shared, max_batch, is_out_of_space: false, last_batch: 1, recyclable_after };
    while let Some(batch) = writer.next_batch() {
        if writer.write(batch).is_break() {
            return;
        }
    }
}

/// One frame to write, and who waits for the progress in it.
struct Batch {
    first: Position,
    claims: Vec<Arc<Claim>>,
    progress: Progress,
    kept: Vec<Kept>,
}

struct Writer<'a> {
    shared: &'a Shared,
    max_batch: usize,
    is_out_of_space: bool,
    /// Claims in the previous batch.
    last_batch: u32,
    /// Once the ledger's file has everything up to here, a segment can be recycled.
    recyclable_after: Position,
}

impl Writer<'_> {
    /// Waits for claims or for progress of the ledger; `None` once the journal is closed and everything is written.
    fn next_batch(&mut self) -> Option<Batch> {
        let shared = self.shared;
        let mut backlog = shared.backlog.lock();
        let mut is_due = false;
        loop {
            is_due |= backlog.progress.is_awaited() || (backlog.is_closed() && backlog.progress.is_behind());
            if backlog.unwritten() > 0 || is_due {
                // Without concurrency, waiting for more claims gains nothing.
                if self.last_batch > 1 && backlog.unwritten() > 0 {
                    MutexGuard::unlocked(&mut backlog, || gather(shared, self.max_batch, self.last_batch));
                }
                let (first, claims) = backlog.take_unwritten(self.max_batch);
                let (progress, kept) = backlog.progress.take();
                return Some(Batch { first, claims, progress, kept });
            }
            if backlog.is_closed() {
                return None;
            }
            if !self.is_out_of_space {
                if backlog.progress.is_behind() {
                    is_due = shared.work.wait_for(&mut backlog, KEEP_WITHIN).timed_out();
                } else {
                    shared.work.wait(&mut backlog);
                }
                continue;
            }
            shared.work.wait_for(&mut backlog, RETRY_SPACE);
            if shared.segments.lock().allocate_spares(1).is_ok() {
                backlog.set_problem(None);
                self.is_out_of_space = false;
                shared.observer.space(None);
            }
        }
    }

    fn write(&mut self, Batch { first, claims, progress, kept }: Batch) -> ControlFlow<()> {
        let shared = self.shared;
        let started = Instant::now();
        if !claims.is_empty() {
            self.last_batch = u32::try_from(claims.len()).unwrap_or(u32::MAX);
        }
        match self.write_and_recycle(first, progress, &claims) {
            Ok(()) => {
                let waiters = {
                    let mut backlog = shared.backlog.lock();
                    backlog.progress.wrote(progress);
                    backlog.wrote(claims.len())
                };
                if !claims.is_empty() {
                    shared.durable.notify_one();
                    shared.observer.space(None);
                    shared.observer.written(BatchWritten { claims: claims.len(), took: started.elapsed() });
                }
                answer(shared, waiters, Ok(()), kept);
            }
            // Not even in the reserve: the ledger has the change all the same.
            Err(WriteError::NoSpace(_)) if claims.is_empty() => {
                shared.backlog.lock().progress.wrote(progress);
                answer(shared, Vec::new(), Ok(()), kept);
            }
            Err(WriteError::NoSpace(error)) => {
                let problem = AppendError::NoSpace(error.to_string());
                let (dropped, waiters) = {
                    let mut backlog = shared.backlog.lock();
                    backlog.set_problem(Some(problem.clone()));
                    backlog.refuse_unwritten()
                };
                self.is_out_of_space = true;
                shared.observer.refused(&dropped);
                shared.observer.space(Some(&error.to_string()));
                answer(shared, waiters, Err(problem), Vec::new());
                // The ledger's progress has room in the reserve.
                return self.write(Batch { first, claims: Vec::new(), progress, kept });
            }
            Err(WriteError::Failed(error)) => {
                let problem = AppendError::Failed(error.to_string());
                let waiters = shared.backlog.lock().fail(problem.clone());
                shared.observer.failed(&error.to_string());
                let (_, later) = shared.backlog.lock().progress.take();
                answer(shared, waiters, Err(problem), kept.into_iter().chain(later).collect());
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn write_and_recycle(
        &mut self,
        first: Position,
        progress: Progress,
        claims: &[Arc<Claim>],
    ) -> Result<(), WriteError> {
        let mut segments = self.shared.segments.lock();
        let checkpointed = self.shared.checkpointed.load(Ordering::Acquire);
        if checkpointed >= self.recyclable_after {
            segments.recycle(checkpointed);
        }
        let result = segments.write(first, progress, claims.iter().map(AsRef::as_ref));
        self.recyclable_after = segments.recyclable_after();
        result
    }
}

/// As many claims as fit into one segment even at their maximum size.
fn batch_size(shared: &Shared) -> usize {
    let fit =
        usize::try_from(shared.segments.lock().for_claims()).unwrap_or(usize::MAX) / frame::MAX_CLAIM_BYTES;
    MAX_BATCH.min(fit.saturating_sub(1)).max(1)
}

/// Waits while more claims arrive, longer after a larger batch: a sync of fifty claims costs as much as one of five.
/// Without it there are ten times as many syncs of 35 µs CPU time each.
fn gather(shared: &Shared, max_batch: usize, last_batch: u32) {
    let until = Instant::now() + MAX_GATHER.min(GATHER_PER_CLAIM * last_batch);
    let mut gathered = 0;
    loop {
        let queued = shared.backlog.lock().unwritten();
        if queued == gathered || queued >= max_batch || Instant::now() >= until {
            return;
        }
        gathered = queued;
        std::thread::sleep(GATHER_STEP);
    }
}

fn answer(shared: &Shared, waiters: Vec<super::Waiter>, result: Result<(), AppendError>, kept: Vec<Kept>) {
    // The answering task ends with the runtime, and with it all requests.
    let _ = shared.answers.send((waiters, result, kept));
}
