//! The writer thread of the journal: writes all queued claims with one fdatasync and has their requests answered.
//!
//! After a failed write or sync the thread ends and the journal accepts nothing more: only reopening can tell what is
//! on disk. Without space the queued claims are refused, and the thread tries again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use tidegate_core::Claim;
use tidegate_ledger::Position;

use super::segment::WriteError;
use super::{BatchWritten, Shared, frame};
use crate::intake::AppendError;

/// Claims in one batch.
const MAX_BATCH: usize = 4096;
/// A batch waits for more claims: this long for each claim of the previous batch, up to a maximum, checked in steps.
const GATHER_PER_CLAIM: Duration = Duration::from_micros(5);
const MAX_GATHER: Duration = Duration::from_millis(1);
const GATHER_STEP: Duration = Duration::from_micros(100);
/// How often a journal without space tries again.
const RETRY_SPACE: Duration = Duration::from_millis(500);

pub(super) fn run(shared: &Arc<Shared>) {
    let mut writer = Writer { shared, max_batch: batch_size(shared), is_out_of_space: false, last_batch: 1 };
    while let Some((first, claims)) = writer.next_batch() {
        if writer.write(first, &claims).is_break() {
            return;
        }
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    max_batch: usize,
    is_out_of_space: bool,
    /// Claims in the previous batch.
    last_batch: u32,
}

impl Writer<'_> {
    /// Waits for claims; `None` once the journal is closed and everything is written.
    fn next_batch(&mut self) -> Option<(Position, Vec<Arc<Claim>>)> {
        let shared = self.shared;
        let mut backlog = shared.backlog.lock();
        loop {
            if backlog.unwritten() > 0 {
                // Without concurrency, waiting for more claims gains nothing.
                if self.last_batch > 1 {
                    MutexGuard::unlocked(&mut backlog, || gather(shared, self.max_batch, self.last_batch));
                }
                return Some(backlog.take_unwritten(self.max_batch));
            }
            if backlog.is_closed() {
                return None;
            }
            if !self.is_out_of_space {
                shared.work.wait(&mut backlog);
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

    fn write(&mut self, first: Position, claims: &[Arc<Claim>]) -> ControlFlow<()> {
        let shared = self.shared;
        let started = Instant::now();
        self.last_batch = u32::try_from(claims.len()).unwrap_or(u32::MAX);
        let result = {
            let mut segments = shared.segments.lock();
            let result = segments.write(first, claims.iter().map(AsRef::as_ref));
            shared.recyclable_after.store(segments.recyclable_after(), Ordering::Release);
            result
        };
        match result {
            Ok(()) => {
                let waiters = shared.backlog.lock().wrote(claims.len());
                shared.durable.notify_one();
                answer(shared, waiters, Ok(()));
                shared.observer.space(None);
                shared.observer.written(BatchWritten { claims: claims.len(), took: started.elapsed() });
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
                answer(shared, waiters, Err(problem));
            }
            Err(WriteError::Failed(error)) => {
                let problem = AppendError::Failed(error.to_string());
                let waiters = shared.backlog.lock().fail(problem.clone());
                shared.observer.failed(&error.to_string());
                answer(shared, waiters, Err(problem));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// As many claims as fit into one segment even at their maximum size.
fn batch_size(shared: &Shared) -> usize {
    let fit = usize::try_from(shared.segments.lock().bytes).unwrap_or(usize::MAX) / frame::MAX_CLAIM_BYTES;
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

pub(super) fn answer(shared: &Shared, waiters: Vec<super::Waiter>, result: Result<(), AppendError>) {
    // The answering task ends with the runtime, and with it all requests.
    let _ = shared.answers.send((waiters, result));
}
