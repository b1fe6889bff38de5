//! SQLite's single writer thread: commits pending changes in groups (group commit), then answers their callers.
//!
//! Invariants: a failing change leaves no trace and does not affect the others of its transaction; no caller gets an
//! answer before the commit; after a failed fsync or in a damaged file nothing is written.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Connection;
use super::sqlite;
use super::sqlite::Failure;
use crate::LedgerError;
use crate::Observer;
use crate::engine;
use crate::engine::explain;

/// Changes in one transaction.
const MAX_GROUP: usize = 256;
/// A checkpoint runs after so many transactions, and after this time at the latest.
const CHECKPOINT_COMMITS: u32 = 8;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Capacity of the queue; callers beyond it wait for a permit.
const MAX_WAITING: usize = 4096;

type Answer = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

/// Runs the change, or takes the error that prevents it; returns the callback that answers after the commit.
type Work = Box<dyn FnOnce(Result<&Connection, LedgerError>) -> (Result<(), LedgerError>, Answer) + Send>;

struct Job {
    work: Work,
    /// Runs in a transaction of its own, without a savepoint.
    alone: bool,
    /// Held until the change is done, even if its caller is gone.
    _permit: OwnedSemaphorePermit,
}

pub(crate) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    permits: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        observer: Arc<dyn Observer>,
        failure: Arc<Failure>,
    ) -> Result<Self, LedgerError> {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("ledger".into())
            .spawn(move || run(&connection, &queue, observer.as_ref(), &failure))
            .map_err(|error| LedgerError::Unavailable(error.to_string()))?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            permits: Arc::new(Semaphore::new(MAX_WAITING)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Makes a change; resolves when it is committed.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit(false, change).await
    }

    /// Like `write`, in a transaction of its own.
    pub(crate) async fn write_alone<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit(true, change).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        alone: bool,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let closed = || LedgerError::Unavailable("the ledger is closed".into());
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let (sender, answer) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let changed = connection.and_then(|connection| {
                // A panic ends this change alone, not the thread: its statements are rolled back.
                let changed = std::panic::catch_unwind(AssertUnwindSafe(|| change(connection)));
                let panicked = |_| Err(LedgerError::Unexpected("a change panicked".into()));
                changed.map_or_else(panicked, |changed| changed.map_err(|error| explain(&error)))
            });
            let done = changed.as_ref().map(|_| ()).map_err(Clone::clone);
            let answer = move |committed: Result<(), LedgerError>| {
                // The caller may be gone; the change stands.
                let _ = sender.send(changed.and_then(|value| committed.map(|()| value)));
            };
            (done, Box::new(answer) as Answer)
        });
        self.jobs
            .lock()
            .as_ref()
            .ok_or_else(closed)?
            .send(Job { work, alone, _permit: permit })
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    pub(crate) fn close(&self) {
        self.jobs.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // The thread ends when its queue is empty; it returns no result.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(connection: &Connection, queue: &mpsc::Receiver<Job>, observer: &dyn Observer, failure: &Failure) {
    let mut held_over: Option<Job> = None;
    let mut since = (0, Instant::now());
    while let Some(first) = held_over.take().or_else(|| queue.recv().ok()) {
        let mut group = vec![first];
        while !group[0].alone && group.len() < MAX_GROUP {
            match queue.try_recv() {
                Ok(job) if job.alone => {
                    held_over = Some(job);
                    break;
                }
                Ok(job) => group.push(job),
                Err(_) => break,
            }
        }
        let started = Instant::now();
        let changes = group.len();
        let (outcome, answers) = match failure.get() {
            Some(error) => (Err(error.clone()), refuse(group, error)),
            None => commit(connection, group),
        };
        if outcome.is_ok() {
            observer.committed(changes, started.elapsed());
        }
        report(&outcome, observer, failure);
        for answer in answers {
            answer(outcome.clone());
        }
        since.0 += 1;
        if failure.get().is_none() && (since.0 >= CHECKPOINT_COMMITS || since.1.elapsed() >= CHECKPOINT_EVERY)
        {
            since = (0, Instant::now());
            if let Err(error) = sqlite::checkpoint(connection) {
                report(&Err(error), observer, failure);
            }
        }
    }
}

/// Reports the health of the file and its disk. An invalid change says nothing about it.
fn report(outcome: &Result<(), LedgerError>, observer: &dyn Observer, failure: &Failure) {
    if let Err(error) = outcome {
        failure.note(error);
    }
    match (failure.get(), outcome) {
        (Some(failure), _) => observer.trouble(Some(failure)),
        (None, Ok(())) => observer.trouble(None),
        (None, Err(LedgerError::Refused(_) | LedgerError::Unexpected(_))) => {}
        (None, Err(error)) => observer.trouble(Some(error)),
    }
}

/// Runs the group in one transaction. A failing change is rolled back to its savepoint.
fn commit(connection: &Connection, group: Vec<Job>) -> (Result<(), LedgerError>, Vec<Answer>) {
    let mut answers = Vec::with_capacity(group.len());
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let error = explain(&error);
        let answers = refuse(group, &error);
        return (Err(error), answers);
    }
    let mut trouble = None;
    for job in group {
        if let Some(error) = &trouble {
            answers.extend(refuse(vec![job], error));
            continue;
        }
        match attempt(connection, job) {
            (Ok(()), answer) => answers.push(answer),
            (Err(error), answer) => {
                trouble = Some(error);
                answers.push(answer);
            }
        }
    }
    let outcome = match trouble {
        Some(error) => Err(error),
        None => connection.execute_batch("COMMIT").map_err(|error| explain(&error)),
    };
    if outcome.is_err() && sqlite::is_in_transaction(connection) {
        // The transaction is lost either way; the first error is the one to report.
        let _ = connection.execute_batch("ROLLBACK");
    }
    (outcome, answers)
}

/// Runs one change. `Err` only if the whole transaction must be rolled back.
fn attempt(connection: &Connection, job: Job) -> (Result<(), LedgerError>, Answer) {
    if job.alone {
        return (job.work)(Ok(connection));
    }
    if let Err(error) = connection.execute_batch("SAVEPOINT change") {
        let (_, answer) = (job.work)(Err(explain(&error)));
        return (Err(explain(&error)), answer);
    }
    let (done, answer) = (job.work)(Ok(connection));
    let undo = if done.is_ok() { "RELEASE change" } else { "ROLLBACK TO change; RELEASE change" };
    let fatal = match done {
        // A full disk, for example, ends the transaction.
        Err(error @ (LedgerError::Unavailable(_) | LedgerError::Failed(_) | LedgerError::Damaged(_))) => {
            Some(error)
        }
        _ => connection.execute_batch(undo).err().map(|error| explain(&error)),
    };
    (fatal.map_or(Ok(()), Err), answer)
}

/// Answers every job of the group with this error, without running any.
fn refuse(group: Vec<Job>, error: &LedgerError) -> Vec<Answer> {
    group.into_iter().map(|job| (job.work)(Err(error.clone())).1).collect()
}
