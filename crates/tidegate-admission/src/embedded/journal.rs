//! The embedded intake: a journal on disk, one fdatasync per batch of claims.
//!
//! A thread of its own writes. One task answers the requests of a whole batch, because waking each task from the
//! writer thread costs more than the writing. It also keeps the ledger's progress (`tidegate_ledger::Witness`), so that
//! a ledger that went backwards is noticed at the next start. Invariants: a claim is written once, in the order of its
//! position; after a failed fdatasync nothing is written any more; a segment is reused only after the ledger's file has
//! all of its claims without its write-ahead log.

mod backlog;
pub mod disk;
mod frame;
mod kept_progress;
mod scan;
mod segment;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_core::{CampaignId, Claim, UserId};
use tidegate_ledger::{Kept, Position, Progress, Witness};
use tokio::sync::{Notify, mpsc, oneshot};

use self::backlog::Backlog;
use self::disk::Disk;
pub(super) use self::scan::{Contents, look};
use self::segment::Segments;
use crate::burst::{BurstDetector, SAMPLE_INTERVAL};
use crate::intake::{AppendError, Intake, Unrecorded};

#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub directory: PathBuf,
    pub segment_bytes: u64,
    /// Claims that may wait to be recorded; beyond that, appends are refused.
    pub max_unrecorded: usize,
    /// A request that waits longer than this is answered as late; zero if requests do not wait.
    pub answer_timeout: Duration,
    /// How long a burst may defer recording; zero if it may not.
    pub max_deferral: Duration,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the journal in {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "the journal segment {} is damaged at byte {offset}: {what}. Claims after that place are intact, so this is \
         not a write cut short by a crash. Restore the file from a backup, or move the journal directory away and \
         accept with `tidegate accept-loss` that orders which were not recorded are lost", path.display()
    )]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error(
        "the ledger has recorded claims up to {recorded}, but the journal in {} {holds}. They do not belong together: \
         restore both from the same backup", path.display()
    )]
    Foreign { path: PathBuf, recorded: Position, holds: String },
}

/// One batch that was written, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct BatchWritten {
    pub claims: usize,
    pub took: Duration,
}

/// Called from the writer thread; must be quick.
pub trait Observer: Send + Sync + 'static {
    fn written(&self, batch: BatchWritten);
    /// These claims were not kept and never will be.
    fn refused(&self, claims: &[Arc<Claim>]);
    /// The journal writes no more until it is reopened.
    fn failed(&self, reason: &str);
    /// There is no space on disk (`Some`), or there is again.
    fn space(&self, problem: Option<&str>);
}

type Waiter = oneshot::Sender<Result<(), AppendError>>;

/// Requests to answer, and the answer; and callers of the ledger whose changes are kept.
type Answers = (Vec<Waiter>, Result<(), AppendError>, Vec<Kept>);

pub(crate) struct Shared {
    backlog: Mutex<Backlog>,
    /// Claims wait to be written, or the journal is to stop.
    work: Condvar,
    /// Claims became durable.
    durable: Notify,
    /// A request waits until everything up to here is recorded; `record_now` wakes the recorder.
    record_through: AtomicU64,
    record_now: Notify,
    burst: Mutex<BurstDetector>,
    segments: Mutex<Segments>,
    /// The ledger's file has everything up to here; the writer recycles segments.
    checkpointed: AtomicU64,
    observer: Box<dyn Observer>,
    answers: mpsc::UnboundedSender<Answers>,
}

impl Shared {
    /// Waits for the end of a burst, unless the backlog is half full or a request waits for a row.
    async fn wait_for_burst(&self) {
        loop {
            let (end, must_record) = {
                let backlog = self.backlog.lock();
                let is_awaited = backlog.recorded() < self.record_through.load(Ordering::Acquire);
                (backlog.end(), is_awaited || backlog.is_half_full())
            };
            if must_record || !self.burst.lock().defers(end, Instant::now()) {
                return;
            }
            tokio::select! {
                () = self.record_now.notified() => {}
                () = tokio::time::sleep(SAMPLE_INTERVAL) => {}
            }
        }
    }
}

pub struct Journal {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    directory: PathBuf,
    answer_timeout: Duration,
}

impl Journal {
    /// Opens or creates the journal; `recorded` is the last position that the ledger has. A torn write at the end is
    /// dropped, any other damage is refused. Must be called inside a tokio runtime.
    pub fn open(
        options: JournalOptions,
        recorded: Position,
        disk: Box<dyn Disk>,
        observer: Box<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let directory = options.directory.clone();
        let (segments, unrecorded, progress) = scan::open(&options, recorded, disk)?;
        let mut backlog = Backlog::new(recorded, unrecorded, options.max_unrecorded);
        backlog.progress.start(progress);
        let (answers, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            backlog: Mutex::new(backlog),
            work: Condvar::new(),
            durable: Notify::new(),
            record_through: AtomicU64::new(0),
            record_now: Notify::new(),
            burst: Mutex::new(BurstDetector::new(options.max_deferral, recorded, Instant::now())),
            checkpointed: AtomicU64::new(0),
            segments: Mutex::new(segments),
            observer,
            answers,
        });
        tokio::spawn(answer_requests(receiver));
        let writer = std::thread::Builder::new()
            .name("journal".into())
            .spawn({
                let shared = shared.clone();
                move || writer::run(&shared)
            })
            .map_err(|source| OpenError::Io { path: directory.clone(), source })?;
        Ok(Self {
            shared,
            writer: Mutex::new(Some(writer)),
            directory,
            answer_timeout: options.answer_timeout,
        })
    }

    /// Queues the claim; the receiver resolves once it is durable. Dropping the receiver does not cancel the claim.
    pub fn enqueue(
        &self,
        claim: Arc<Claim>,
    ) -> Result<oneshot::Receiver<Result<(), AppendError>>, AppendError> {
        let (waiter, outcome) = oneshot::channel();
        // With other claims in the queue the writer is awake already.
        if self.shared.backlog.lock().push(claim, waiter)? {
            self.shared.work.notify_one();
        }
        Ok(outcome)
    }

    /// Ends a deferral of recording for everything up to this position.
    pub fn record_now(&self, through: Position) {
        self.shared.record_through.fetch_max(through, Ordering::AcqRel);
        self.shared.record_now.notify_one();
    }

    /// What keeps the ledger's progress here.
    pub fn witness(&self) -> Box<dyn Witness> {
        Box::new(JournalWitness(self.shared.clone()))
    }

    /// The error that an append would return now.
    pub fn check(&self) -> Result<(), AppendError> {
        self.shared.backlog.lock().check()
    }

    /// The unrecorded claims of this user, oldest first.
    pub fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        self.shared.backlog.lock().unrecorded_of(user)
    }

    /// The position of the newest claim, durable or not.
    pub fn end(&self) -> Position {
        self.shared.backlog.lock().end()
    }

    /// The position of the newest durable claim.
    pub fn durable_end(&self) -> Position {
        self.shared.backlog.lock().written()
    }

    /// The greatest order id among the claims that are not recorded.
    pub fn highest_order(&self) -> u64 {
        self.shared.backlog.lock().highest_order()
    }

    pub fn recorded_through(&self) -> Position {
        self.shared.backlog.lock().recorded()
    }

    /// Units in claims on this campaign that are not recorded.
    pub fn queued_units(&self, campaign: CampaignId) -> u32 {
        self.shared.backlog.lock().queued_units(campaign)
    }

    /// Writes the queued claims, then stops. Appends from now on are refused.
    pub fn close(&self) {
        self.shared.backlog.lock().close();
        self.shared.work.notify_all();
        if let Some(writer) = self.writer.lock().take() {
            // The thread ends once the backlog is closed, and returns nothing.
            let _ = writer.join();
        }
    }

    /// How long a request waits until its claim is durable; `None` if requests do not wait.
    pub fn answer_timeout(&self) -> Option<Duration> {
        Some(self.answer_timeout).filter(|timeout| !timeout.is_zero())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("directory", &self.directory).finish_non_exhaustive()
    }
}

struct JournalWitness(Arc<Shared>);

impl Witness for JournalWitness {
    fn committed(&self, progress: Progress, kept: Option<Kept>) {
        let mut backlog = self.0.backlog.lock();
        // A journal that writes no more cannot keep anything: the process is about to end.
        let is_ended = backlog.is_closed() || matches!(backlog.check(), Err(AppendError::Failed(_)));
        if !is_ended {
            if backlog.progress.note(progress, kept) {
                self.0.work.notify_one();
            }
            return;
        }
        drop(backlog);
        if let Some(kept) = kept {
            kept();
        }
    }

    fn checkpointed(&self, recorded: Position) {
        self.0.checkpointed.fetch_max(recorded, Ordering::AcqRel);
    }
}

async fn answer_requests(mut answers: mpsc::UnboundedReceiver<Answers>) {
    while let Some((waiters, result, kept)) = answers.recv().await {
        for kept in kept {
            kept();
        }
        for waiter in waiters {
            // The request may have been cancelled.
            let _ = waiter.send(result.clone());
        }
    }
}

impl Intake for Journal {
    async fn append(&self, claim: Claim) -> Result<Arc<Claim>, AppendError> {
        let claim = Arc::new(claim);
        let closed = || AppendError::Failed("the journal was closed".into());
        self.enqueue(claim.clone())?.await.map_err(|_| closed())??;
        Ok(claim)
    }

    async fn next(&self, max: usize) -> (Position, Vec<Arc<Claim>>) {
        self.shared.wait_for_burst().await;
        loop {
            let durable = self.shared.durable.notified();
            let (first, claims) = self.shared.backlog.lock().durable(max);
            if !claims.is_empty() {
                return (first, claims);
            }
            self.shared.burst.lock().caught_up();
            durable.await;
            self.shared.burst.lock().assume_burst(first - 1, Instant::now());
            self.shared.wait_for_burst().await;
        }
    }

    async fn recorded(&self, through: Position) {
        self.shared.backlog.lock().forget(through);
    }

    async fn unrecorded_of(&self, user: UserId) -> Vec<Unrecorded> {
        Self::unrecorded_of(self, user)
    }

    fn depth(&self) -> usize {
        self.shared.backlog.lock().depth()
    }
}
