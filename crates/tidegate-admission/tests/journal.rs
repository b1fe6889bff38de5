//! Faults of the journal: torn writes, damage, full and failing disks, foreign files.
//!
//! Not covered: whether the disk keeps what it reported as synced. That needs a power cut.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_admission::Durability;
use tidegate_admission::embedded::continuity::{JournalFound, Loss, journal_in};
use tidegate_admission::embedded::data_dir::{DataDir, DataDirError};
use tidegate_admission::embedded::journal::disk::{Disk, RealDisk};
use tidegate_admission::embedded::journal::{BatchWritten, Journal, JournalOptions, Observer, OpenError};
use tidegate_admission::intake::{AppendError, Intake};
use tidegate_core::Claim;
use tidegate_ledger::Progress;
use tidegate_testing::conformance::claim;
use tidegate_testing::eventually;

/// A disk with injected faults.
#[derive(Clone, Default)]
struct FaultyDisk(Arc<Faults>);

#[derive(Default)]
struct Faults {
    full: AtomicBool,
    sync_fails: AtomicBool,
    hangs: AtomicBool,
    syncs: AtomicU64,
}

impl Disk for FaultyDisk {
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File> {
        if self.0.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        RealDisk.allocate(path, bytes)
    }
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write(file, at, bytes)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.0.syncs.fetch_add(1, Ordering::SeqCst);
        if self.0.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        while self.0.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        RealDisk.sync(file)
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Observer for Seen {
    fn written(&self, _: BatchWritten) {}
    fn refused(&self, claims: &[Arc<Claim>]) {
        self.0.lock().push(format!("refused {}", claims.len()));
    }
    fn failed(&self, reason: &str) {
        self.0.lock().push(format!("failed: {reason}"));
    }
    fn space(&self, problem: Option<&str>) {
        if let Some(problem) = problem {
            self.0.lock().push(format!("no space: {problem}"));
        }
    }
}

const SEGMENT: u64 = 8 << 10;

fn options(directory: &Path) -> JournalOptions {
    JournalOptions {
        directory: directory.to_owned(),
        segment_bytes: SEGMENT,
        max_unrecorded: 100_000,
        answer_timeout: Duration::from_secs(30),
        max_deferral: Duration::from_secs(1),
    }
}

fn open_with(directory: &Path, recorded: u64, disk: FaultyDisk, seen: Seen) -> Result<Journal, OpenError> {
    let options = options(directory);
    Journal::open(options, recorded, Box::new(disk), Box::new(seen))
}

fn open(directory: &Path, recorded: u64) -> Result<Journal, OpenError> {
    open_with(directory, recorded, FaultyDisk::default(), Seen::default())
}

async fn append(journal: &Journal, orders: std::ops::RangeInclusive<u64>) {
    for order in orders {
        journal.append(claim(order, order, &[1])).await.unwrap();
    }
}

async fn orders(journal: &Journal) -> Vec<u64> {
    let (_, claims) = journal.next(usize::MAX).await;
    claims.iter().map(|claim| claim.id.raw()).collect()
}

fn segments(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|found| found == suffix)).collect();
    files.sort();
    files
}

/// The offsets of the frames of a segment, found by walking their headers.
fn frames(path: &Path) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    let mut at = 32;
    let mut found = Vec::new();
    while bytes.get(at..at + 4) == Some(b"FRM3") {
        found.push(at as u64);
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        at += (24 + length).next_multiple_of(8);
    }
    found
}

fn spoil(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0xff], at).unwrap();
}

#[tokio::test]
async fn a_torn_write_at_the_end_is_dropped_and_writing_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    append(&journal, 1..=3).await;
    drop(journal);
    let segment = &segments(directory.path(), "seg")[0];
    spoil(segment, frames(segment)[2] + 30);
    let journal = open(directory.path(), 0).unwrap();
    assert_eq!(orders(&journal).await, [1, 2]);
    append(&journal, 4..=5).await;
    drop(journal);
    assert_eq!(orders(&open(directory.path(), 0).unwrap()).await, [1, 2, 4, 5]);
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    append(&journal, 1..=3).await;
    drop(journal);
    let segment = &segments(directory.path(), "seg")[0];
    let at = frames(segment)[1];
    spoil(segment, at + 30);
    let Err(error) = open(directory.path(), 0) else { panic!("damage was accepted") };
    let message = error.to_string();
    assert!(message.contains(&format!("damaged at byte {at}")), "{message}");
    assert!(message.contains("Restore the file from a backup"), "{message}");
}

#[tokio::test]
async fn a_damaged_header_or_a_missing_segment_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    append(&journal, 1..=300).await;
    drop(journal);
    let files = segments(directory.path(), "seg");
    assert!(files.len() >= 3, "{} segments", files.len());
    spoil(&files[1], 3);
    assert!(matches!(open(directory.path(), 0), Err(OpenError::Damaged { .. })));
    std::fs::remove_file(&files[1]).unwrap();
    assert!(matches!(open(directory.path(), 0), Err(OpenError::Damaged { .. })));
}

#[tokio::test]
async fn recorded_segments_are_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    for round in 0..20 {
        append(&journal, round * 100 + 1..=round * 100 + 100).await;
        journal.recorded(round * 100 + 100).await;
        journal.witness().checkpointed(round * 100 + 100);
    }
    let (used, spare) = (segments(directory.path(), "seg").len(), segments(directory.path(), "spare").len());
    assert!(used <= 2 && spare <= 8, "{used} in use and {spare} spare after 2,000 claims");
    append(&journal, 2001..=2002).await;
    drop(journal);
    let journal = open(directory.path(), 2000).unwrap();
    assert_eq!(orders(&journal).await, [2001, 2002], "frames of an earlier use of the file are ignored");
}

/// What is recorded may still be lost with the ledger's write-ahead log.
#[tokio::test]
async fn segments_are_kept_until_the_ledgers_file_has_their_claims() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    append(&journal, 1..=1000).await;
    journal.recorded(1000).await;
    append(&journal, 1001..=1001).await;
    drop(journal);
    let journal = open(directory.path(), 0).unwrap();
    assert_eq!(orders(&journal).await, (1..=1001).collect::<Vec<_>>(), "all can be recorded again");
    journal.recorded(1001).await;
    journal.witness().checkpointed(1001);
    append(&journal, 1002..=1002).await;
    let kept = segments(directory.path(), "seg").len();
    assert!(kept <= 2, "{kept} segments: only the one that is being written, and one before it");
}

#[tokio::test]
async fn the_ledgers_progress_survives_and_a_ledger_behind_it_is_a_loss() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&journal_in(directory.path()), 0).unwrap();
    append(&journal, 1..=3).await;
    journal.recorded(3).await;
    let progress = Progress { recorded: 3, changes: 7 };
    let (kept, is_kept) = tokio::sync::oneshot::channel();
    journal.witness().committed(progress, Some(Box::new(move || kept.send(()).unwrap())));
    is_kept.await.unwrap();
    let compare = |recorded, changes| {
        let found = JournalFound::look(directory.path()).unwrap();
        let compared = found.compare(Progress { recorded, changes }, true);
        (compared.recorded_again, compared.losses)
    };
    assert!(matches!(&compare(3, 7), (0, losses) if losses.is_empty()), "beside the running journal");
    assert!(matches!(&compare(3, 9), (0, losses) if losses.is_empty()), "a ledger may be ahead");
    assert!(matches!(&compare(1, 7), (2, losses) if losses.is_empty()), "claims are recorded again");
    assert!(matches!(&compare(3, 5).1[..], [Loss::Changes { changes: 2, .. }]));
    assert!(matches!(&compare(4, 7).1[..], [Loss::JournalEnd { last: 3, .. }]));
    // Claims that are written later carry it on, and so does a journal that is opened again.
    append(&journal, 4..=4).await;
    drop(journal);
    append(&open(&journal_in(directory.path()), 4).unwrap(), 5..=5).await;
    assert!(matches!(&compare(3, 6).1[..], [Loss::Changes { changes: 1, .. }]));
    std::fs::remove_dir_all(journal_in(directory.path())).unwrap();
    assert!(matches!(&compare(4, 7).1[..], [Loss::Journal { .. }]));
}

#[tokio::test]
async fn a_journal_of_another_ledger_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(directory.path(), 0).unwrap();
    append(&journal, 1..=3).await;
    drop(journal);
    assert!(matches!(open(directory.path(), 9), Err(OpenError::Foreign { .. })), "the ledger is ahead");
    drop(open(directory.path(), 3).unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let journal = open(elsewhere.path(), 50).unwrap();
    append(&journal, 51..=51).await;
    drop(journal);
    assert!(
        matches!(open(elsewhere.path(), 10), Err(OpenError::Foreign { .. })),
        "claims between them are missing"
    );
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers_without_losing_anything() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, seen) = (FaultyDisk::default(), Seen::default());
    let journal = open_with(directory.path(), 0, disk.clone(), seen.clone()).unwrap();
    disk.0.full.store(true, Ordering::SeqCst);
    let mut kept = 0;
    let error = loop {
        match journal.append(claim(kept + 1, 1, &[1])).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::NoSpace(_)), "{error}");
    assert!(matches!(journal.check(), Err(AppendError::NoSpace(_))), "refused before the gate decides");
    assert_eq!(seen.0.lock()[0], "refused 1", "the observer hears that the claim was not kept");
    assert_eq!(orders(&journal).await.len() as u64, kept);
    disk.0.full.store(false, Ordering::SeqCst);
    eventually("it recovers by itself", async || journal.append(claim(kept + 1, 1, &[1])).await).await;
    drop(journal);
    assert_eq!(orders(&open(directory.path(), 0).unwrap()).await.len() as u64, kept + 1);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let (disk, seen) = (FaultyDisk::default(), Seen::default());
    let journal = open_with(directory.path(), 0, disk.clone(), seen.clone()).unwrap();
    append(&journal, 1..=1).await;
    disk.0.sync_fails.store(true, Ordering::SeqCst);
    assert!(matches!(journal.append(claim(2, 2, &[2])).await, Err(AppendError::Failed(_))));
    disk.0.sync_fails.store(false, Ordering::SeqCst);
    let syncs = disk.0.syncs.load(Ordering::SeqCst);
    assert!(matches!(journal.append(claim(3, 3, &[3])).await, Err(AppendError::Failed(_))));
    assert_eq!(disk.0.syncs.load(Ordering::SeqCst), syncs, "a failed sync is never retried");
    assert_eq!(seen.0.lock().join(";"), "failed: the disk is gone");
    assert_eq!(orders(&journal).await, [1], "only claims that are certainly durable are recorded");
}

#[tokio::test]
async fn the_backlog_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let options = JournalOptions { max_unrecorded: 2, ..options(directory.path()) };
    let journal = Journal::open(options, 0, Box::new(RealDisk), Box::new(Seen::default())).unwrap();
    append(&journal, 1..=2).await;
    assert!(matches!(journal.append(claim(3, 3, &[1])).await, Err(AppendError::Full)));
    journal.recorded(1).await;
    append(&journal, 3..=3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_too_long_for_the_disk_is_answered_as_late_and_its_claim_is_kept() {
    let (directory, disk) = (tempfile::tempdir().unwrap(), FaultyDisk::default());
    let timeout = Duration::from_millis(500);
    let journal =
        Journal::open(options(directory.path()), 0, Box::new(disk.clone()), Box::new(Seen::default()))
            .unwrap();
    append(&journal, 1..=1).await;
    let started = std::time::Instant::now();
    disk.0.hangs.store(true, Ordering::SeqCst);
    // The first of these is being written, the second waits behind it.
    let first = journal.enqueue(Arc::new(claim(2, 2, &[2]))).unwrap();
    while disk.0.syncs.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    let second = journal.enqueue(Arc::new(claim(3, 3, &[3]))).unwrap();
    let (first, second) = (Durability::new(first, timeout), Durability::new(second, timeout));
    assert_eq!(tokio::join!(first.wait(), second.wait()), (Err(AppendError::Late), Err(AppendError::Late)));
    assert!(started.elapsed() >= timeout, "answered before the timeout");
    // A later request has a timeout of its own.
    let third = journal.enqueue(Arc::new(claim(4, 4, &[4]))).unwrap();
    disk.0.hangs.store(false, Ordering::SeqCst);
    assert_eq!(Durability::new(third, Duration::from_secs(30)).wait().await, Ok(()));
    assert_eq!(orders(&journal).await, [1, 2, 3, 4]);
}

#[test]
fn a_second_process_cannot_use_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = DataDir::lock(directory.path()).unwrap();
    assert!(matches!(DataDir::lock(directory.path()), Err(DataDirError::InUse(_))));
    drop(first);
    DataDir::lock(directory.path()).unwrap();
}
