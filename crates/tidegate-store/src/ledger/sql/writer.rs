//! SQLite's one writer: takes the changes that wait, commits them together, then lets each know.
//!
//! What always holds: a change that fails leaves nothing behind and does not disturb the others of its
//! transaction; nobody is answered before the commit; after a failed sync nothing is written any more.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::engine::{self, Connection};
use super::{Observer, explain, sqlite};
use crate::ledger::LedgerError;

/// Changes in one transaction.
const MAX_GROUP: usize = 256;
/// Transactions after which the log is brought into the database file, and the time after which it is anyway.
const CHECKPOINT_COMMITS: u32 = 8;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Changes that may wait; more callers than this wait for a place.
const MAX_WAITING: usize = 4096;

type Answer = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

/// Does its work, or takes note that it cannot be done, and gives back how to answer once the commit is known.
type Work = Box<dyn FnOnce(Result<&Connection, LedgerError>) -> (Result<(), LedgerError>, Answer) + Send>;

struct Job {
    work: Work,
    /// So large that it gets its own transaction, and needs no savepoint.
    alone: bool,
    /// Held until the change is done, even if whoever asked is gone.
    _place: OwnedSemaphorePermit,
}

pub(super) struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    places: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(connection: Connection, observer: Box<dyn Observer>) -> Result<Self, LedgerError> {
        let (jobs, queue) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("ledger".into())
            .spawn(move || run(&connection, &queue, observer.as_ref()))
            .map_err(|error| LedgerError::Unavailable(error.to_string()))?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            places: Arc::new(Semaphore::new(MAX_WAITING)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Makes a change; resolves when it is committed.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit(false, change).await
    }

    /// The same in a transaction of its own.
    pub(super) async fn write_alone<T: Send + 'static>(
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
        let place = self.places.clone().acquire_owned().await.map_err(|_| closed())?;
        let (sender, answer) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            let changed =
                connection.and_then(|connection| change(connection).map_err(|error| explain(&error)));
            let done = changed.as_ref().map(|_| ()).map_err(Clone::clone);
            let answer = move |committed: Result<(), LedgerError>| {
                // Whoever asked may be gone; the change stands.
                let _ = sender.send(changed.and_then(|value| committed.map(|()| value)));
            };
            (done, Box::new(answer) as Answer)
        });
        self.jobs
            .lock()
            .as_ref()
            .ok_or_else(closed)?
            .send(Job { work, alone, _place: place })
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    pub(super) fn close(&self) {
        self.jobs.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // It ends once its queue is empty; it has nothing to report.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(connection: &Connection, queue: &mpsc::Receiver<Job>, observer: &dyn Observer) {
    let mut failed: Option<LedgerError> = None;
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
        let (outcome, answers) = match &failed {
            Some(error) => (Err(error.clone()), refuse(group, error)),
            None => commit(connection, group),
        };
        if outcome.is_ok() {
            observer.committed(changes, started.elapsed());
        }
        report(&outcome, observer, &mut failed);
        for answer in answers {
            answer(outcome.clone());
        }
        since.0 += 1;
        if failed.is_none() && (since.0 >= CHECKPOINT_COMMITS || since.1.elapsed() >= CHECKPOINT_EVERY) {
            since = (0, Instant::now());
            if let Err(error) = sqlite::checkpoint(connection) {
                report(&Err(error), observer, &mut failed);
            }
        }
    }
}

/// Tells of trouble with the disk, or that there is none. A change that is wrong in itself says nothing about it.
fn report(outcome: &Result<(), LedgerError>, observer: &dyn Observer, failed: &mut Option<LedgerError>) {
    match outcome {
        Ok(()) => observer.trouble(None),
        Err(LedgerError::Unexpected(_)) => {}
        Err(error) => {
            if matches!(error, LedgerError::Failed(_)) {
                *failed = Some(error.clone());
            }
            observer.trouble(Some(error));
        }
    }
}

/// Runs the group in one transaction. A change that fails by itself is undone by itself.
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
        // The transaction is lost either way; the error that matters is the first.
        let _ = connection.execute_batch("ROLLBACK");
    }
    (outcome, answers)
}

/// One change. `Err` only where the whole transaction is spoilt.
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
    let spoilt = match done {
        // Disk full and the like end the transaction, or ought to.
        Err(error @ (LedgerError::Unavailable(_) | LedgerError::Failed(_))) => Some(error),
        _ => connection.execute_batch(undo).err().map(|error| explain(&error)),
    };
    (spoilt.map_or(Ok(()), Err), answer)
}

/// Nothing is done; everybody hears why.
fn refuse(group: Vec<Job>, error: &LedgerError) -> Vec<Answer> {
    group.into_iter().map(|job| (job.work)(Err(error.clone())).1).collect()
}
