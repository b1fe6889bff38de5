//! The journal's thread: takes whatever waits, makes it durable with one fdatasync, has its buyers woken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::super::AppendError;
use super::segment::WriteError;
use super::{Shared, Written, frame};

/// Claims in one batch.
const MAX_BATCH: usize = 4096;
/// How long a batch waits for more, for each claim of the one before and at most, and how often it looks.
const GATHERING_PER_CLAIM: Duration = Duration::from_micros(5);
const LONGEST_GATHERING: Duration = Duration::from_millis(1);
const GATHERING_STEP: Duration = Duration::from_micros(100);
/// How often a journal without room tries again.
const RETRY_ROOM: Duration = Duration::from_millis(500);

pub(super) fn run(shared: &Arc<Shared>) {
    let most = batch_size(shared);
    let (mut out_of_room, mut last) = (false, 1);
    loop {
        let (first, claims) = {
            let mut backlog = shared.backlog.lock();
            loop {
                if backlog.unwritten() > 0 {
                    // Whoever is alone does not wait for company.
                    if last > 1 {
                        MutexGuard::unlocked(&mut backlog, || gather(shared, most, last));
                    }
                    break backlog.take_unwritten(most);
                }
                if backlog.is_closed() {
                    return;
                }
                if !out_of_room {
                    shared.work.wait(&mut backlog);
                    continue;
                }
                shared.work.wait_for(&mut backlog, RETRY_ROOM);
                let room = shared.segments.lock().provide_spares(1);
                if room.is_ok() {
                    backlog.set_problem(None);
                    out_of_room = false;
                    shared.observer.room(None);
                }
            }
        };
        let started = Instant::now();
        last = u32::try_from(claims.len()).unwrap_or(u32::MAX);
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
                wake(shared, waiters, Ok(()));
                shared.observer.room(None);
                shared.observer.written(Written { claims: claims.len(), took: started.elapsed() });
            }
            Err(WriteError::NoRoom(error)) => {
                let problem = AppendError::NoRoom(error.to_string());
                let (dropped, waiters) = {
                    let mut backlog = shared.backlog.lock();
                    backlog.set_problem(Some(problem.clone()));
                    backlog.refuse()
                };
                out_of_room = true;
                shared.observer.refused(&dropped);
                shared.observer.room(Some(&error.to_string()));
                wake(shared, waiters, Err(problem));
            }
            Err(WriteError::Failed(error)) => {
                let problem = AppendError::Failed(error.to_string());
                let waiters = shared.backlog.lock().fail(problem.clone());
                shared.observer.failed(&error.to_string());
                wake(shared, waiters, Err(problem));
                return;
            }
        }
    }
}

/// Claims that fit one segment even at their largest.
fn batch_size(shared: &Shared) -> usize {
    let fit = usize::try_from(shared.segments.lock().bytes).unwrap_or(usize::MAX) / frame::MAX_CLAIM_BYTES;
    MAX_BATCH.min(fit.saturating_sub(1)).max(1)
}

/// Waits while more is coming, the longer the larger the crowd: one sync for fifty claims costs as much as one for five.
/// Without it there are ten times as many syncs, and each takes 35 µs of a core.
fn gather(shared: &Shared, most: usize, last: u32) {
    let until = Instant::now() + LONGEST_GATHERING.min(GATHERING_PER_CLAIM * last);
    let mut gathered = 0;
    loop {
        let waiting = shared.backlog.lock().unwritten();
        if waiting == gathered || waiting >= most || Instant::now() >= until {
            return;
        }
        gathered = waiting;
        std::thread::sleep(GATHERING_STEP);
    }
}

pub(super) fn wake(shared: &Shared, waiters: Vec<super::Waiter>, result: Result<(), AppendError>) {
    // The task that wakes them ends with the runtime; then nobody is left to wake.
    let _ = shared.wake.send((waiters, result));
}
