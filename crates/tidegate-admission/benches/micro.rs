//! The cost of admission: the gate in memory, the journal with its fdatasync, the gate on Redis. Run by `make micro`.
//!
//! With several callers the time is that of the whole batch, from the first request to the last reply. The journal is
//! in the system's temporary directory, so its figures depend on that disk. Redis is a private server on the same
//! machine.

#![expect(clippy::unwrap_used, reason = "a failed unwrap stops the benchmark")]

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::future::join_all;
use tidegate_admission::cluster::gate::{RedisGate, SubmitOptions};
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::embedded::gate::MemoryGate;
use tidegate_admission::embedded::journal::disk::RealDisk;
use tidegate_admission::embedded::journal::{BatchWritten, Journal, JournalOptions, Observer};
use tidegate_admission::gate::Gate;
use tidegate_core::{Claim, IdempotencyKey, Rejection};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, claim, request};
use tidegate_testing::servers::Redis;
use tokio::runtime::{Builder, Runtime};

const STOCK: u32 = 10_000_000;

fn main() {
    divan::main();
}

struct Silent;

impl Observer for Silent {
    fn written(&self, _: BatchWritten) {}
    fn refused(&self, _: &[Arc<Claim>]) {}
    fn failed(&self, _: &str) {}
    fn space(&self, _: Option<&str>) {}
}

/// One thread: all claims of a batch are queued before the first is sent.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn journal(directory: &Path) -> Journal {
    let options = JournalOptions {
        directory: directory.to_owned(),
        segment_bytes: 64 << 20,
        max_unrecorded: STOCK as usize,
        answer_timeout: std::time::Duration::from_secs(5),
        max_deferral: std::time::Duration::ZERO,
    };
    Journal::open(options, 0, Box::new(RealDisk), Box::new(Silent)).unwrap()
}

#[divan::bench(sample_count = 100, sample_size = 100)]
fn memory_gate_decide(bencher: Bencher<'_, '_>) {
    let gate = MemoryGate::default();
    runtime().block_on(gate.install(CAMPAIGN, seed(STOCK))).unwrap();
    let mut last = 0;
    bencher.bench_local(|| {
        last += 1;
        gate.decide(request(last, last, 1, 1), |_| Ok::<_, Rejection>(())).unwrap()
    });
}

#[divan::bench(args = [1, 64], sample_count = 200, sample_size = 1)]
fn journal_append(bencher: Bencher<'_, '_>, callers: u32) {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let journal = runtime.block_on(async { journal(directory.path()) });
    let mut last = 0;
    bencher.counter(ItemsCount::new(callers)).bench_local(|| {
        let appended = (0..callers).map(|_| {
            last += 1;
            journal.enqueue(Arc::new(claim(last.into(), last.into(), &[last]))).unwrap()
        });
        for done in runtime.block_on(join_all(appended)) {
            done.unwrap().unwrap();
        }
    });
}

#[divan::bench(args = [1, 64], sample_count = 300, sample_size = 1)]
fn redis_gate_decide(bencher: Bencher<'_, '_>, callers: u64) {
    let server = Redis::start(&[]);
    let runtime = runtime();
    let link = runtime.block_on(Link::open(&server.url())).unwrap();
    let gate = RedisGate::new(link, "", "one");
    runtime.block_on(gate.install(CAMPAIGN, seed(STOCK))).unwrap();
    let mut last = 0;
    bencher.counter(ItemsCount::new(callers)).bench_local(|| {
        let asked = (0..callers).map(|_| {
            last += 1;
            let key = Some(IdempotencyKey(u128::from(last).to_be_bytes()));
            gate.decide(request_with(last, key), SubmitOptions { key_checked: true, rate_per_s: 0 })
        });
        for decided in runtime.block_on(join_all(asked)) {
            decided.unwrap();
        }
    });
}

fn request_with(number: u64, key: Option<IdempotencyKey>) -> tidegate_core::ClaimRequest {
    tidegate_core::ClaimRequest { key, ..request(number, number, 1, 1) }
}
