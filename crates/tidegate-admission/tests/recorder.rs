//! The recorder sets aside a claim that the ledger cannot record, and records the others.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_admission::embedded::journal;
use tidegate_admission::embedded::journal::disk::RealDisk;
use tidegate_admission::embedded::journal::{BatchWritten, Journal, JournalOptions};
use tidegate_admission::intake::Intake;
use tidegate_admission::recorder::{self, Listener};
use tidegate_core::{Claim, OrderId, OrderState};
use tidegate_ledger::{Actor, LedgerError, RecordOutcome};
use tidegate_ledger::{NoObserver, SqlLedger, SqliteOptions};
use tidegate_testing::conformance::{CAMPAIGN, NOW, campaign, claim, item};

struct Silent;

impl journal::Observer for Silent {
    fn written(&self, _: BatchWritten) {}
    fn refused(&self, _: &[Arc<Claim>]) {}
    fn failed(&self, _: &str) {}
    fn space(&self, _: Option<&str>) {}
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(u64, RecordOutcome)>>>);

impl Listener for Heard {
    fn recorded(&self, claims: &[Arc<Claim>], outcomes: &[RecordOutcome]) {
        let orders = claims.iter().map(|claim| claim.id.raw());
        self.0.lock().extend(orders.zip(outcomes.iter().copied()));
    }
    fn failing(&self, _: &LedgerError) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_claim_is_set_aside_and_the_others_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let options = SqliteOptions { path: path.clone(), readers: 2, cache_mb: 4, max_mb: None };
    let ledger = Arc::new(SqlLedger::open(&options, Box::new(NoObserver)).unwrap());
    ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
    ledger.campaigns.create(campaign(10, 5), vec![], Actor::Operator(None), None).await.unwrap();
    // The ledger refuses an active order with id 3.
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(
        "CREATE TRIGGER poison BEFORE INSERT ON orders WHEN NEW.id = 3 AND NEW.state <> 'rejected'
         BEGIN SELECT RAISE(ABORT, 'poison'); END;",
    )
    .unwrap();
    let options = JournalOptions {
        directory: directory.path().join("journal"),
        segment_bytes: 64 << 10,
        max_unrecorded: 1_000,
        answer_timeout: Duration::from_secs(5),
        max_deferral: Duration::from_secs(1),
    };
    let journal = Arc::new(Journal::open(options, 0, Box::new(RealDisk), Box::new(Silent)).unwrap());
    for order in 1..=6 {
        journal.append(claim(order.into(), order.into(), &[order])).await.unwrap();
    }
    let heard = Heard::default();
    let progress = tokio::sync::watch::Sender::new(0);
    let mut recorded = progress.subscribe();
    let recording = tokio::spawn(recorder::run(
        journal.clone(),
        ledger.clone(),
        Arc::new(heard.clone()),
        || NOW,
        progress,
    ));
    tokio::time::timeout(Duration::from_secs(10), recorded.wait_for(|last| *last == 6))
        .await
        .unwrap()
        .unwrap();
    recording.abort();
    let outcomes = heard.0.lock().clone();
    assert_eq!(outcomes.iter().map(|(order, _)| *order).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(outcomes.iter().filter(|(_, outcome)| *outcome == RecordOutcome::Order).count(), 5);
    let order = ledger.orders.get(OrderId::from_raw(3)).await.unwrap().unwrap();
    assert_eq!(order.state, OrderState::Rejected, "the buyer sees the rejection");
    let why: String =
        raw.query_row("SELECT why FROM set_aside WHERE position = 3", [], |row| row.get(0)).unwrap();
    assert!(why.contains("poison"), "{why}");
    let seed = ledger.stock.seed(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!(seed.taken, [1, 2, 4, 5, 6], "the unit is on sale again");
    assert_eq!(journal.depth(), 0);
}
