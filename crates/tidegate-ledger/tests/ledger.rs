//! The SQLite ledger: a full disk, constraints that hold even if the program is wrong, migrations, delivery lanes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::WebhookId;
use tidegate_ledger::{Actor, Attempt, Delivery, LedgerError, RecordOutcome, Records, Target};
use tidegate_ledger::{AttemptOutcome, NoObserver, Observer, SqlLedger, SqliteOptions, Webhook};
use tidegate_testing::conformance::{CAMPAIGN, NOW, campaign, claim, item};

fn options(directory: &Path) -> SqliteOptions {
    SqliteOptions { path: directory.join("ledger.db"), readers: 1, cache_mb: 4, max_mb: None }
}

#[derive(Clone, Default)]
struct Troubles(Arc<Mutex<Vec<bool>>>);

impl Observer for Troubles {
    fn committed(&self, _: usize, _: Duration) {}
    fn trouble(&self, problem: Option<&LedgerError>) {
        self.0.lock().push(problem.is_some());
    }
}

#[tokio::test]
async fn a_full_disk_fails_cleanly_and_reads_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let troubles = Troubles::default();
    let small = SqliteOptions { max_mb: Some(1), ..options(directory.path()) };
    let ledger = SqlLedger::open(&small, Box::new(troubles.clone())).unwrap();
    ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
    ledger
        .campaigns
        .create(campaign(1_000_000, 1_000_000), vec![], Actor::Operator(None), None)
        .await
        .unwrap();
    let mut recorded = 0_u32;
    let error = loop {
        let claims = (1..=500).map(|n| Arc::new(claim((recorded + n).into(), 1, &[recorded + n]))).collect();
        match ledger.record(u64::from(recorded) + 1, claims, NOW).await {
            Ok(_) => recorded += 500,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LedgerError::Unavailable(_)), "{error}");
    assert_eq!(troubles.0.lock().last(), Some(&true));
    assert_eq!(
        ledger.claims.position().await.unwrap(),
        u64::from(recorded),
        "the failed batch was rolled back"
    );
    let audit = ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!((audit.violations.len(), audit.tally.awaiting_payment), (0, recorded));
}

#[tokio::test]
async fn the_tables_themselves_refuse_to_oversell() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap();
    ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
    ledger.campaigns.create(campaign(2, 1), vec![], Actor::Operator(None), None).await.unwrap();
    ledger.record(1, vec![Arc::new(claim(1, 1, &[1]))], NOW).await.unwrap();
    drop(ledger);
    let raw = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    let refused = |statement: &str| raw.execute(statement, []).unwrap_err().to_string();
    assert!(refused("INSERT INTO held VALUES (77, 1, 2)").contains("UNIQUE"), "the same slot twice");
    assert!(
        refused("INSERT INTO held VALUES (77, 3, 2)").contains("does not exist"),
        "a slot beyond the stock"
    );
    assert!(refused("UPDATE campaign SET awaiting = 3").contains("CHECK"), "more units than stock");
    assert!(refused("UPDATE held_by_user SET units = -1").contains("CHECK"), "a negative count");
    raw.execute("INSERT INTO payment VALUES ('p', 'r', 1, 5, 'CNY', 0)", []).unwrap();
    let refund = "INSERT INTO refund VALUES ('p', 'r', 1, 5, 'CNY', 'x', 0, NULL)";
    raw.execute(refund, []).unwrap();
    assert!(refused(refund).contains("UNIQUE"), "two refunds for one payment");
}

#[tokio::test]
async fn the_audit_reports_corrupted_tables() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap();
    ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
    ledger.campaigns.create(campaign(5, 2), vec![], Actor::Operator(None), None).await.unwrap();
    ledger.record(1, vec![Arc::new(claim(1, 1, &[1])), Arc::new(claim(2, 2, &[2]))], NOW).await.unwrap();
    assert!(ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap().violations.is_empty());
    let raw = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    let spoils = [
        ("DELETE FROM held WHERE slot = 2", "not held"),
        ("UPDATE held SET order_id = 2 WHERE slot = 1", "does not have them"),
        ("UPDATE held_by_user SET units = 3 WHERE user = 1", "above the limit"),
        ("UPDATE campaign SET awaiting = 1", "tally"),
        ("UPDATE orders SET state = 'paid' WHERE id = 1", "exactly one payment"),
        ("DELETE FROM outbox WHERE subject = 1", "outbox"),
        ("INSERT INTO stock_log VALUES (77, 0, 5, 'restock', 5, NULL, '', 0, NULL)", "gaps"),
        ("UPDATE campaign SET stock = 4", "stock differs"),
    ];
    for (spoil, expected) in spoils {
        let backup = directory.path().join("backup.db");
        raw.execute("VACUUM INTO ?", [backup.to_str().unwrap()]).unwrap();
        raw.execute(spoil, []).unwrap();
        let violations = ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap().violations.join("; ");
        assert!(violations.contains(expected), "after {spoil}: {violations:?}");
        restore(&raw, &backup);
        std::fs::remove_file(&backup).unwrap();
    }
    assert!(
        ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap().violations.is_empty(),
        "the restored ledger is sound"
    );
}

/// Restores every table from the backup.
fn restore(raw: &rusqlite::Connection, backup: &Path) {
    raw.execute("ATTACH ? AS backup", [backup.to_str().unwrap()]).unwrap();
    raw.execute_batch(
        "PRAGMA foreign_keys = OFF; BEGIN;
         DELETE FROM main.held; DELETE FROM main.campaign; DELETE FROM main.orders; DELETE FROM main.outbox;
         DELETE FROM main.held_by_user; DELETE FROM main.stock_log;
         INSERT INTO main.campaign SELECT * FROM backup.campaign;
         INSERT INTO main.orders SELECT * FROM backup.orders;
         INSERT INTO main.held SELECT * FROM backup.held;
         INSERT INTO main.outbox SELECT * FROM backup.outbox;
         INSERT INTO main.held_by_user SELECT * FROM backup.held_by_user;
         INSERT INTO main.stock_log SELECT * FROM backup.stock_log;
         COMMIT; DETACH backup;",
    )
    .unwrap();
}

#[tokio::test]
async fn a_ledger_of_a_newer_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap());
    let raw = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let error = SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
}

/// A ledger from before draws is migrated and keeps its data.
#[tokio::test]
async fn a_ledger_of_the_first_version_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let raw = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    raw.execute_batch(include_str!("../src/schema/sqlite/1_sales.sql")).unwrap();
    raw.execute_batch(
        "PRAGMA user_version = 1;
         INSERT INTO item VALUES (7, 'A sample', '', 9900, 'CNY', NULL, 0, 0);
         INSERT INTO campaign (id, item, price, currency, stock, top, starts_at, ends_at, per_user_limit, pay_within_s,
             shards, protect, state, epoch, opened, created_at, updated_at, awaiting)
         VALUES (77, 7, 9900, 'CNY', 3, 3, 0, 9000000000000, 2, 60, 1,
             '{\"challenge\":\"none\",\"pass\":false,\"pass_factor\":3,\"user_rate_per_s\":0,\"admit_per_s\":null}',
             'live', 1, 1, 0, 0, 1);
         INSERT INTO orders VALUES (1, 77, 1, '1', 9900, 'CNY', 'awaiting_payment', NULL, NULL, 0, 9000000000000, 0);
         INSERT INTO held VALUES (77, 1, 1);
         INSERT INTO held_by_user VALUES (77, 1, 1);
         INSERT INTO outbox (at, actor, kind, campaign, subject) VALUES (0, 'buyer:1', 'order.created', 77, 1);
         UPDATE intake SET recorded = 1;",
    )
    .unwrap();
    drop(raw);
    let ledger = SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap();
    let outcomes = ledger.record(2, vec![Arc::new(claim(2, 2, &[2]))], NOW).await.unwrap();
    assert_eq!(outcomes, [RecordOutcome::Order]);
    let audit = ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!((audit.violations, audit.tally.awaiting_payment), (vec![], 2));
    assert_eq!(ledger.campaigns.get(CAMPAIGN).await.unwrap().unwrap().sale().unwrap().price.amount, 9900);
    assert_eq!(
        ledger.webhooks.fan_out(NOW, 10).await.unwrap(),
        1,
        "only events since the migration are fanned out"
    );
}

/// Within a lane, deliveries are taken one at a time and wait behind a failed one. Finished ones are deleted later.
#[tokio::test]
async fn events_of_a_lane_are_sent_in_order_and_deleted_later() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = SqlLedger::open(&options(directory.path()), Box::new(NoObserver)).unwrap();
    let id = WebhookId::from_raw(5);
    let webhook = Webhook {
        id,
        url: "https://shop.example/".into(),
        events: vec!["*".into()],
        secret: vec![1; 32],
        old_secret: None,
        disabled: None,
        created_at: NOW,
        updated_at: NOW,
    };
    ledger.webhooks.create(webhook, Actor::Operator(None), None).await.unwrap();
    ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
    ledger.items.update(item(), Actor::Operator(None)).await.unwrap();
    assert!(ledger.deliveries.dispatcher_work(NOW).await.unwrap().fan_out);
    assert_eq!(
        ledger.webhooks.fan_out(NOW, 10).await.unwrap(),
        3,
        "the webhook's own creation is counted, but not sent"
    );
    let target = Target::Webhook(id);
    let take = async |now, in_hand| {
        let due = ledger.deliveries.due(vec![(target, 10)], in_hand, now).await.unwrap();
        due.into_iter().map(|due| due.delivery).collect::<Vec<_>>()
    };
    let store = async |delivery: &Delivery, outcome, at| {
        let attempt = Attempt { delivery: delivery.clone(), outcome, at };
        ledger.deliveries.record_attempts(Arc::new(vec![attempt])).await.unwrap();
    };
    let first = take(NOW, vec![]).await;
    assert_eq!(first.len(), 1, "two events of one item share a lane");
    assert_eq!(take(NOW, vec![first[0].id]).await, [], "the delivery is being sent");
    let later = NOW + Duration::from_secs(60);
    let failed = AttemptOutcome::Failed { error: "500".into(), due_at: later, counts: Duration::ZERO };
    store(&first[0], failed, NOW).await;
    ledger.items.update(item(), Actor::Operator(None)).await.unwrap();
    ledger.webhooks.fan_out(NOW, 10).await.unwrap();
    assert_eq!(
        take(NOW + Duration::from_secs(59), vec![]).await,
        [],
        "later deliveries of the lane wait for the retry"
    );
    let mut events = Vec::new();
    while let Some(next) = take(later, vec![]).await.pop() {
        events.extend(next.event);
        store(&next, AttemptOutcome::Delivered { content: None }, later).await;
    }
    assert!(events.len() == 3 && events.is_sorted(), "{events:?}");
    assert_eq!(ledger.deliveries.delete_finished(later).await.unwrap(), 0);
    assert_eq!(ledger.deliveries.delete_finished(later + Duration::from_millis(1)).await.unwrap(), 3);
}
