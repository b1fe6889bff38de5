//! SQLite's single writer thread: commits pending changes in groups (group commit), then answers their callers.
//!
//! Invariants: a failing change leaves no trace and does not affect the others of its transaction; no caller gets an
//! answer before the commit, and with a witness not before it has kept the ledger's progress; after a failed fsync or
//! in a damaged file nothing is written.

mod transaction;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use self::transaction::{Answer, Committed, Job, Kind, Work, commit, refuse};
use super::Connection;
use super::sqlite;
use super::sqlite::Failure;
use crate::engine::explain;
use crate::{LedgerError, Observer, Progress, Witness, engine};

/// Changes in one transaction.
const MAX_GROUP: usize = 256;
/// A checkpoint runs after so many transactions, and after this time at the latest.
const CHECKPOINT_COMMITS: u32 = 8;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(1);
/// Capacity of the queue; callers beyond it wait for a permit.
const MAX_WAITING: usize = 4096;

/// What the thread and its handle share.
struct Shared {
    failure: Arc<Failure>,
    witness: OnceLock<Box<dyn Witness>>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
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
        let shared = Arc::new(Shared { failure, witness: OnceLock::new() });
        let thread = std::thread::Builder::new()
            .name("ledger".into())
            .spawn({
                let shared = shared.clone();
                move || {
                    let mut thread = Thread {
                        needs_checkpoint: !sqlite::is_read_only(&connection),
                        connection: &connection,
                        shared: &shared,
                        observer: observer.as_ref(),
                        held_over: None,
                        progress: None,
                        since: (0, Instant::now()),
                    };
                    thread.run(&queue);
                }
            })
            .map_err(|error| LedgerError::Unavailable(error.to_string()))?;
        Ok(Self {
            shared,
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
        self.submit(Kind::Shared, change).await
    }

    /// Like `write`, in a transaction of its own.
    pub(crate) async fn write_alone<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit(Kind::Alone, change).await
    }

    /// Like `write_alone`, for claims of the journal.
    pub(crate) async fn write_claims<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.submit(Kind::Claims, change).await
    }

    pub(crate) fn set_witness(&self, witness: Box<dyn Witness>) {
        // One is set, once, at the start.
        let _ = self.shared.witness.set(witness);
    }

    async fn submit<T: Send + 'static>(
        &self,
        kind: Kind,
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
            .send(Job { work, kind, _permit: permit })
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

/// The thread of the writer.
struct Thread<'a> {
    connection: &'a Connection,
    shared: &'a Shared,
    observer: &'a dyn Observer,
    held_over: Option<Job>,
    /// The progress of the last commit.
    progress: Option<Progress>,
    /// Transactions since the last checkpoint, and when that was.
    since: (u32, Instant),
    /// The log may hold what the file does not, or the witness has not been told.
    needs_checkpoint: bool,
}

impl Thread<'_> {
    fn run(&mut self, queue: &mpsc::Receiver<Job>) {
        while let Some(group) = self.next_group(queue) {
            let started = Instant::now();
            let changes = group.len();
            let (outcome, answers) = match self.shared.failure.get() {
                Some(error) => (Err(error.clone()), refuse(group, error)),
                None => commit(self.connection, group, self.progress),
            };
            if outcome.is_ok() {
                self.observer.committed(changes, started.elapsed());
            }
            report(&outcome, self.observer, &self.shared.failure);
            self.answer(outcome, answers);
            self.since.0 += 1;
            if self.since.0 >= CHECKPOINT_COMMITS || self.since.1.elapsed() >= CHECKPOINT_EVERY {
                self.checkpoint();
            }
        }
        self.checkpoint();
    }

    /// The changes of the next transaction; `None` once the queue is closed. Nothing stays in the log for long when
    /// there are no changes: what is in the file itself cannot be lost with the log.
    fn next_group(&mut self, queue: &mpsc::Receiver<Job>) -> Option<Vec<Job>> {
        let first = loop {
            if let Some(job) = self.held_over.take() {
                break job;
            }
            if !self.needs_checkpoint {
                break queue.recv().ok()?;
            }
            match queue.recv_timeout(CHECKPOINT_EVERY) {
                Ok(job) => break job,
                Err(mpsc::RecvTimeoutError::Timeout) => self.checkpoint(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            }
        };
        let mut group = vec![first];
        while group[0].kind == Kind::Shared && group.len() < MAX_GROUP {
            match queue.try_recv() {
                Ok(job) if job.kind == Kind::Shared => group.push(job),
                Ok(job) => {
                    self.held_over = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        Some(group)
    }

    /// Answers the callers: after the witness has kept that there were changes other than claims.
    fn answer(&mut self, outcome: Result<Committed, LedgerError>, answers: Vec<Answer>) {
        let reply = {
            let outcome = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
            move || answers.into_iter().for_each(|answer| answer(outcome.clone()))
        };
        let Ok(Committed { progress: Some(progress), must_be_kept }) = outcome else { return reply() };
        self.progress = Some(progress);
        self.needs_checkpoint = true;
        match self.shared.witness.get() {
            Some(witness) if must_be_kept => witness.committed(progress, Some(Box::new(reply))),
            Some(witness) => {
                witness.committed(progress, None);
                reply();
            }
            None => reply(),
        }
    }

    fn checkpoint(&mut self) {
        self.since = (0, Instant::now());
        if self.shared.failure.get().is_some() || !self.needs_checkpoint {
            return;
        }
        match sqlite::checkpoint(self.connection) {
            Ok(true) => {
                let witness = self.shared.witness.get();
                if let (Some(witness), Some(progress)) = (witness, self.progress) {
                    witness.checkpointed(progress.recorded);
                }
                // Without a witness it is tried again, since one may be set at any time.
                self.needs_checkpoint = witness.is_none();
            }
            Ok(false) => {}
            Err(error) => report(&Err(error), self.observer, &self.shared.failure),
        }
    }
}

/// Reports the health of the file and its disk. An invalid change says nothing about it.
fn report(outcome: &Result<Committed, LedgerError>, observer: &dyn Observer, failure: &Failure) {
    if let Err(error) = outcome {
        failure.note(error);
    }
    match (failure.get(), outcome) {
        (Some(failure), _) => observer.trouble(Some(failure)),
        (None, Ok(_)) => observer.trouble(None),
        (None, Err(LedgerError::Refused(_) | LedgerError::Unexpected(_))) => {}
        (None, Err(error)) => observer.trouble(Some(error)),
    }
}
