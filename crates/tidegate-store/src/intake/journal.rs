//! The embedded intake: a journal on disk, one fdatasync per batch of whatever waits.
//!
//! A thread of its own writes; callers wait for their batch and are woken together by one task, since waking
//! each from the writer's thread is what such a journal spends its time on. What always holds: a claim is
//! written once, in the order of its position; after a failed fdatasync nothing is written any more; a segment
//! is reused only after the ledger has all of it.

mod backlog;
pub mod disk;
mod frame;
mod patience;
mod rush;
mod scan;
mod segment;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_core::{Claim, UserId};
use tokio::sync::{Notify, mpsc, oneshot};

use self::backlog::Backlog;
use self::disk::Disk;
use self::rush::Rush;
use self::segment::Segments;
use super::{AppendError, Intake, Position, Unrecorded};

#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub directory: PathBuf,
    pub segment_bytes: u64,
    /// Claims that may wait to be recorded; beyond that appends are refused.
    pub max_unrecorded: usize,
    /// Whoever waits for a claim longer than this is told that it is late; zero where nobody waits.
    pub patience: Duration,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the journal in {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "the journal segment {} is damaged at byte {offset}: {what}. Claims after that place are intact, so this is \
         not a write cut short by a crash. Restore the file from a backup, or move the journal directory away to start \
         from what the ledger has recorded and lose the rest", path.display()
    )]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error(
        "the ledger has recorded claims up to {recorded}, but the journal in {} {holds}. They do not belong together: \
         restore both from the same backup", path.display()
    )]
    Foreign { path: PathBuf, recorded: Position, holds: String },
}

/// What the writer did with one batch, for whoever measures.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub claims: usize,
    pub took: Duration,
}

/// Called from the writer's thread; must be quick.
pub trait Observer: Send + Sync + 'static {
    fn written(&self, written: Written);
    /// These claims were not kept, and never will be.
    fn refused(&self, claims: &[Arc<Claim>]);
    /// The journal can write no more until it is reopened.
    fn failed(&self, reason: &str);
    /// There was no room, or there is again.
    fn room(&self, problem: Option<&str>);
}

type Waiter = oneshot::Sender<Result<(), AppendError>>;

/// Who is to be told, and what.
type Woken = (Vec<Waiter>, Result<(), AppendError>);

pub(crate) struct Shared {
    backlog: Mutex<Backlog>,
    /// Something waits to be written, or the journal is to stop.
    work: Condvar,
    /// Something became durable.
    durable: Notify,
    /// Somebody waits for everything up to here to be recorded.
    wanted: AtomicU64,
    hurry: Notify,
    rush: Mutex<Rush>,
    segments: Mutex<Segments>,
    /// Once everything up to here is recorded, a segment can be used again. Kept apart so that recording does not wait
    /// for a sync to ask.
    recyclable_after: AtomicU64,
    observer: Box<dyn Observer>,
    wake: mpsc::UnboundedSender<Woken>,
}

pub struct Journal {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    directory: PathBuf,
    patience: Duration,
}

impl Journal {
    /// Opens or creates the journal; `recorded` is the last position the ledger has. A write cut short by a crash is
    /// dropped; damage anywhere else is refused. Must be called inside a tokio runtime.
    pub fn open(
        options: JournalOptions,
        recorded: Position,
        disk: Box<dyn Disk>,
        observer: Box<dyn Observer>,
    ) -> Result<Self, OpenError> {
        let directory = options.directory.clone();
        let (segments, unrecorded) = scan::open(&options, recorded, disk)?;
        let (wake, woken) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            backlog: Mutex::new(Backlog::new(recorded, unrecorded, options.max_unrecorded)),
            work: Condvar::new(),
            durable: Notify::new(),
            wanted: AtomicU64::new(0),
            hurry: Notify::new(),
            rush: Mutex::new(Rush::new(recorded)),
            recyclable_after: AtomicU64::new(segments.recyclable_after()),
            segments: Mutex::new(segments),
            observer,
            wake,
        });
        tokio::spawn(wake_waiters(woken));
        if !options.patience.is_zero() {
            tokio::spawn(patience::watch(Arc::downgrade(&shared), options.patience));
        }
        let writer = std::thread::Builder::new()
            .name("journal".into())
            .spawn({
                let shared = shared.clone();
                move || writer::run(&shared)
            })
            .map_err(|source| OpenError::Io { path: directory.clone(), source })?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)), directory, patience: options.patience })
    }

    /// Queues the claim at once, and tells when it is durable. Not listening does not take it back.
    pub fn enqueue(
        &self,
        claim: Arc<Claim>,
    ) -> Result<oneshot::Receiver<Result<(), AppendError>>, AppendError> {
        let (waiter, done) = oneshot::channel();
        // Whoever is behind others need not wake the writer: it takes all of them.
        if self.shared.backlog.lock().push(claim, waiter)? {
            self.shared.work.notify_one();
        }
        Ok(done)
    }

    /// Has everything up to here given out for recording at once.
    pub fn hurry(&self, through: Position) {
        self.shared.wanted.fetch_max(through, Ordering::AcqRel);
        self.shared.hurry.notify_one();
    }

    /// Whether an append now would be refused, and why.
    pub fn check(&self) -> Result<(), AppendError> {
        self.shared.backlog.lock().check()
    }

    /// What this buyer has in the journal that is not recorded yet.
    pub fn of_buyer(&self, user: UserId) -> Vec<Unrecorded> {
        self.shared.backlog.lock().of_user(user)
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

    /// Units in claims that are not recorded, of one campaign.
    pub fn queued_units(&self, campaign: tidegate_core::CampaignId) -> u32 {
        self.shared.backlog.lock().queued_units(campaign)
    }

    /// Writes what waits, then stops. Appends from now on are refused.
    pub fn close(&self) {
        self.shared.backlog.lock().close();
        self.shared.work.notify_all();
        if let Some(writer) = self.writer.lock().take() {
            // The thread ends by itself once the backlog is closed; it has nothing to report.
            let _ = writer.join();
        }
    }

    /// Whether anybody waits for claims to be durable.
    pub fn is_waited_for(&self) -> bool {
        !self.patience.is_zero()
    }

    pub fn directory(&self) -> &Path {
        &self.directory
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

async fn wake_waiters(mut batches: mpsc::UnboundedReceiver<Woken>) {
    while let Some((waiters, result)) = batches.recv().await {
        for waiter in waiters {
            // A buyer who hung up is not waiting any more.
            let _ = waiter.send(result.clone());
        }
    }
}

impl Intake for Journal {
    async fn append(&self, claim: Claim) -> Result<Arc<Claim>, AppendError> {
        let claim = Arc::new(claim);
        let stopped = || AppendError::Failed("the journal was closed".into());
        self.enqueue(claim.clone())?.await.map_err(|_| stopped())??;
        Ok(claim)
    }

    async fn next(&self, most: usize) -> (Position, Vec<Arc<Claim>>) {
        rush::pass(&self.shared).await;
        loop {
            let durable = self.shared.durable.notified();
            let (first, claims) = self.shared.backlog.lock().durable(most);
            if !claims.is_empty() {
                return (first, claims);
            }
            self.shared.rush.lock().caught_up();
            durable.await;
            self.shared.rush.lock().may_begin(first - 1, Instant::now());
            rush::pass(&self.shared).await;
        }
    }

    async fn recorded(&self, through: Position) {
        self.shared.backlog.lock().forget(through);
        if through >= self.shared.recyclable_after.load(Ordering::Acquire) {
            let mut segments = self.shared.segments.lock();
            segments.recycle(through);
            self.shared.recyclable_after.store(segments.recyclable_after(), Ordering::Release);
        }
    }

    async fn of_user(&self, user: UserId) -> Vec<Unrecorded> {
        self.of_buyer(user)
    }

    fn depth(&self) -> usize {
        self.shared.backlog.lock().depth()
    }
}
