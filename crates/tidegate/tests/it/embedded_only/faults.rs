//! Full, failing and slow disks, and bounds on pending work: new orders are refused with 503, reads still work, and
//! nothing is lost.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tidegate_admission::embedded::journal::disk::{Disk, RealDisk};
use tidegate_app::live::BalanceState;
use tidegate_testing::eventually;

use crate::support::{TestApp, bought, order, refused, state};

/// A disk that is full while the flag is set.
#[derive(Clone, Default)]
struct FullDisk(Arc<AtomicBool>);

impl Disk for FullDisk {
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File> {
        if self.0.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        RealDisk.allocate(path, bytes)
    }
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write(file, at, bytes)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        RealDisk.sync(file)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_orders_and_recovers_by_itself() {
    let disk = FullDisk::default();
    let mut app = TestApp::builder()
        .on(disk.clone())
        .alive()
        .with("TIDEGATE__JOURNAL__MAX_UNRECORDED", "1")
        .start()
        .await;
    let sale = app.sale(1_000_000, 1000).await;
    // Enough to fill the segment that is being written.
    let mut buyers = app.buyers(300).await;
    disk.0.store(true, Ordering::SeqCst);
    // Spare segments are deleted, so that the journal has to allocate.
    let journal = app.data_dir().join("journal");
    let mut accepted = 0;
    let refusal = 'full: loop {
        for entry in std::fs::read_dir(&journal).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|suffix| suffix == "spare") {
                // The journal may have reused the file in the meantime.
                let _ = std::fs::remove_file(path);
            }
        }
        for buyer in &mut buyers {
            let answer = order(buyer, &sale, 20).await;
            match answer.status {
                201 => accepted += 20,
                503 if answer.code() == "busy" => {}
                _ => break 'full answer,
            }
            assert!(accepted < 900_000, "the disk never ran full");
        }
    };
    refused(&refusal, 503, "not_ready");
    let ready = buyers[0].get("/readyz").await.unwrap();
    assert!(ready.json()["detail"].as_str().unwrap().contains("no room"), "{:?}", ready.body);
    disk.0.store(false, Ordering::SeqCst);
    eventually("orders are taken again", async || {
        let answer = order(&mut buyers[29], &sale, 1).await;
        if answer.status == 201 { Ok(()) } else { Err(answer.code()) }
    })
    .await;
    app.sound(&sale, 1_000_000 - accepted - 1, accepted + 1, 0).await;
}

#[derive(Clone, Default)]
struct FailingDisk(Arc<AtomicBool>);

impl Disk for FailingDisk {
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File> {
        RealDisk.allocate(path, bytes)
    }
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write(file, at, bytes)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(io::Error::other("I/O error")) } else { RealDisk.sync(file) }
    }
}

#[tokio::test]
async fn a_failed_sync_refuses_orders_for_good_and_serves_reads() {
    let disk = FailingDisk::default();
    let mut app = TestApp::builder().on(disk.clone()).start().await;
    let sale = app.sale(10, 10).await;
    let mut buyer = app.buyer().await;
    let kept = bought(&mut buyer, &sale, 1).await;
    disk.0.store(true, Ordering::SeqCst);
    refused(&order(&mut buyer, &sale, 1).await, 503, "outcome_unknown");
    disk.0.store(false, Ordering::SeqCst);
    refused(&order(&mut buyer, &sale, 1).await, 503, "not_ready");
    let ready = buyer.get("/readyz").await.unwrap();
    refused(&ready, 503, "not_ready");
    assert!(ready.json()["detail"].as_str().unwrap().contains("journal"), "{:?}", ready.body);
    assert_eq!(state(&mut buyer, &kept).await, "awaiting_payment");
    assert_eq!(buyer.get(&format!("/v1/sales/{sale}")).await.unwrap().status, 200);
    assert_eq!(
        crate::support::pay(&mut buyer, &kept).await.status,
        200,
        "a recorded order can still be paid"
    );
}

/// Only a restart can tell what is on disk, and the supervisor restarts only what has ended.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_the_program_ends_with_a_message() {
    let disk = FailingDisk::default();
    let mut app = TestApp::builder().on(disk.clone()).in_serve_mode().start().await;
    let sale = app.sale(10, 10).await;
    let mut buyer = app.buyer().await;
    bought(&mut buyer, &sale, 1).await;
    disk.0.store(true, Ordering::SeqCst);
    refused(&order(&mut buyer, &sale, 1).await, 503, "outcome_unknown");
    let ended = tokio::time::timeout(Duration::from_secs(20), app.ended.take().unwrap()).await.unwrap();
    let why = ended.unwrap().unwrap_err().to_string();
    assert!(why.contains("the journal failed") && why.contains("supervisor"), "{why}");
    let mut app = app.restart().await;
    app.recorded().await;
    let counters = app.counters(&sale).await;
    let kept = counters["awaiting_payment"].as_u64().unwrap();
    assert!((1..=2).contains(&kept), "the acknowledged order is kept: {counters}");
}

/// SQLite reports a full disk when its file reaches the configured maximum.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_ledger_refuses_orders_and_keeps_what_it_accepted() {
    let mut app = TestApp::builder().alive().with("TIDEGATE__LEDGER__MAX_MB", "1").start().await;
    let sale = app.sale(1_000_000, 1000).await;
    let mut buyers = app.buyers(20).await;
    let mut accepted = 0;
    let answer = 'full: loop {
        for buyer in &mut buyers {
            let answer = order(buyer, &sale, 1).await;
            if answer.status != 201 {
                break 'full answer;
            }
            accepted += 1;
            assert!(accepted < 20_000, "a ledger of 1 MiB never ran full");
        }
    };
    refused(&answer, 503, "not_ready");
    let ready = buyers[0].get("/readyz").await.unwrap();
    assert!(ready.json()["detail"].as_str().unwrap().contains("full"), "{:?}", ready.body);
    assert_eq!(buyers[0].get(&format!("/v1/sales/{sale}")).await.unwrap().status, 200);
    let counters = app.counters(&sale).await;
    let kept = counters["queued"].as_u64().unwrap() + counters["awaiting_payment"].as_u64().unwrap();
    assert_eq!(kept, accepted, "every accepted order is recorded or still in the journal: {counters}");
    let mut listed = 0;
    for buyer in &mut buyers {
        listed +=
            buyer.get("/v1/orders?limit=1000").await.unwrap().json()["data"].as_array().unwrap().len() as u64;
    }
    assert_eq!(listed, accepted, "buyers see all of their orders");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_backlog_refuses_orders_as_busy_and_loses_none() {
    let mut app = TestApp::builder()
        .with("TIDEGATE__JOURNAL__MAX_UNRECORDED", "5")
        .with("TIDEGATE__LEDGER__MAX_MB", "1000")
        .start()
        .await;
    let sale = app.sale(1000, 1000).await;
    let mut crowd = tokio::task::JoinSet::new();
    for mut buyer in app.buyers(64).await {
        let sale = sale.clone();
        crowd.spawn(async move { order(&mut buyer, &sale, 1).await });
    }
    let answers = crowd.join_all().await;
    let accepted = answers.iter().filter(|answer| answer.status == 201).count();
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        refused(answer, 503, "busy");
    }
    assert!(accepted >= 5);
    let accepted = u32::try_from(accepted).unwrap();
    app.sound(&sale, 1000 - accepted, accepted, 0).await;
}

/// A disk whose syncs block while the flag is set.
#[derive(Clone, Default)]
pub(crate) struct SlowDisk(pub(crate) Arc<AtomicBool>);

impl Disk for SlowDisk {
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File> {
        RealDisk.allocate(path, bytes)
    }
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        RealDisk.write(file, at, bytes)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        while self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        RealDisk.sync(file)
    }
}

#[tokio::test]
async fn orders_over_the_in_flight_limit_are_refused_at_once() {
    let disk = SlowDisk::default();
    let mut app =
        TestApp::builder().on(disk.clone()).with("TIDEGATE__HTTP__MAX_ORDERS_IN_FLIGHT", "1").start().await;
    let sale = app.sale(5, 1).await;
    let mut buyers = app.buyers(2).await;
    disk.0.store(true, Ordering::SeqCst);
    let mut second = buyers.remove(1);
    let mut first = buyers.remove(0);
    let waiting = tokio::spawn({
        let sale = sale.clone();
        async move { order(&mut first, &sale, 1).await }
    });
    eventually("the first order is queued", async || app.counters(&sale).await["queued"] != 0).await;
    refused(&order(&mut second, &sale, 1).await, 503, "busy");
    disk.0.store(false, Ordering::SeqCst);
    assert_eq!(waiting.await.unwrap().status, 201);
    assert_eq!(order(&mut second, &sale, 1).await.status, 201);
}

#[tokio::test]
async fn an_order_that_waits_too_long_is_answered_202_and_found_by_its_id() {
    let disk = SlowDisk::default();
    let mut app =
        TestApp::builder().on(disk.clone()).with("TIDEGATE__SALES__ANSWER_WITHIN_MS", "50").start().await;
    let sale = app.sale(1, 1).await;
    let mut buyer = app.buyer().await;
    disk.0.store(true, Ordering::SeqCst);
    let answer = order(&mut buyer, &sale, 1).await;
    assert_eq!((answer.status, &answer.json()["state"]), (202, &json!("queued")));
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(state(&mut buyer, &id).await, "queued");
    disk.0.store(false, Ordering::SeqCst);
    eventually("the claim is recorded as an order", async || match state(&mut buyer, &id).await.as_str() {
        "awaiting_payment" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
    app.sound(&sale, 0, 1, 0).await;
}

#[tokio::test]
async fn unaccounted_units_turn_the_light_to_broken() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 5).await;
    let id = app.app.parse(&sale).unwrap();
    assert_eq!(app.app.live.figures(id).await.unwrap().light, BalanceState::Ok);
    app.raw_ledger().execute("UPDATE campaign SET stock = stock + 1, top = top + 1", ()).unwrap();
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(
        app.app.live.figures(id).await.unwrap().light,
        BalanceState::Moving,
        "a single difference may be transient"
    );
    app.clock.advance(Duration::from_secs(1));
    assert_eq!(app.app.live.figures(id).await.unwrap().light, BalanceState::Broken);
}
