//! The embedded backends against the conformance suite.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::embedded::gate::MemoryGate;
use tidegate_admission::embedded::journal::disk::RealDisk;
use tidegate_admission::embedded::journal::{BatchWritten, Journal, JournalOptions, Observer};
use tidegate_core::Claim;
use tidegate_ledger::{NoObserver, SqlLedger, SqliteOptions};
use tidegate_testing::conformance;

struct Silent;

impl Observer for Silent {
    fn written(&self, _: BatchWritten) {}
    fn refused(&self, _: &[Arc<Claim>]) {}
    fn failed(&self, _: &str) {}
    fn space(&self, _: Option<&str>) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_gate_conforms() {
    conformance::gate::all(async || MemoryGate::default()).await;
}

fn journal(directory: &Path, recorded: u64) -> Journal {
    let options = JournalOptions {
        directory: directory.to_owned(),
        segment_bytes: 64 << 10,
        max_unrecorded: 1_000,
        answer_timeout: Duration::from_secs(5),
        max_deferral: Duration::from_secs(1),
    };
    Journal::open(options, recorded, Box::new(RealDisk), Box::new(Silent)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_conforms() {
    let directory = tempfile::tempdir().unwrap();
    conformance::intake::all(async |name, recorded| journal(&directory.path().join(name), recorded)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_ledger_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let number = std::sync::atomic::AtomicU32::new(0);
    let make = async || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = directory.path().join(format!("{number}.db"));
        let options = SqliteOptions { path, readers: 2, cache_mb: 8, max_mb: None };
        SqlLedger::open(&options, Box::new(NoObserver)).unwrap()
    };
    conformance::ledger::all(&make).await;
    conformance::draws::all(&make).await;
    conformance::deliveries::all(&make).await;
}
