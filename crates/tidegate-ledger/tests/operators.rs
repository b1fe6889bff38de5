//! Operator accounts, console sessions and API keys, on SQLite and on PostgreSQL; migrations of older ledgers.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ApiKeyId, EventKind, Moment, OperatorId, Role, Stored, WebhookId};
use tidegate_ledger::{Actor, Page};
use tidegate_ledger::{
    ApiKey, CreateOutcome, NewConsoleSession, NoObserver, OpenedBy, OperatorAccount, OperatorChange,
    PostgresOptions, SqlLedger, SqliteOptions, Webhook,
};
use tidegate_testing::conformance::NOW;
use tidegate_testing::servers::Postgres;

const ADMIN: Actor = Actor::Operator(None);
const LATER: Duration = Duration::from_secs(3600);

fn sqlite(directory: &Path) -> SqlLedger {
    let options = SqliteOptions { path: directory.join("ledger.db"), readers: 2, cache_mb: 8, max_mb: None };
    SqlLedger::open(&options, Box::new(NoObserver)).unwrap()
}

async fn postgres(server: &Postgres) -> SqlLedger {
    let options =
        PostgresOptions { url: server.create("operators"), readers: 2, writers: 2, insert_new: true };
    let ledger = SqlLedger::postgres(options, Arc::new(NoObserver)).unwrap();
    ledger.migrate().await.unwrap();
    ledger
}

fn lin() -> OperatorAccount {
    OperatorAccount {
        id: OperatorId::from_raw(1),
        name: "lin".into(),
        password: "a hash".into(),
        role: Role::Viewer,
        totp: None,
        disabled: false,
        created_at: NOW,
    }
}

fn new_console(token: u8) -> NewConsoleSession {
    NewConsoleSession { token: [token; 32], opened_at: NOW, expires_at: NOW + LATER, instead_of: None }
}

fn key(id: u64, name: &str) -> ApiKey {
    ApiKey {
        id: ApiKeyId::from_raw(id),
        name: name.into(),
        role: Role::Operator,
        created_at: NOW,
        created_by: "operator".into(),
        revoked_at: None,
        last_used_at: None,
    }
}

async fn kinds(ledger: &SqlLedger) -> Vec<String> {
    let events = ledger.events.list(None, Page::ALL).await.unwrap();
    events.iter().rev().map(|event| format!("{} {}", event.actor, event.kind)).collect()
}

async fn accounts_and_consoles(ledger: &SqlLedger) {
    let ends = NOW + LATER;
    assert_eq!(ledger.operators.create(lin(), 2, ADMIN, None).await.unwrap(), CreateOutcome::Created);
    let twin = OperatorAccount { id: OperatorId::from_raw(2), ..lin() };
    assert_eq!(
        ledger.operators.create(twin.clone(), 2, ADMIN, None).await.unwrap(),
        CreateOutcome::NameTaken
    );
    assert_eq!(ledger.operators.create(twin, 1, ADMIN, None).await.unwrap(), CreateOutcome::TooMany);
    let open = async |token: u8, account: &OperatorAccount, step| {
        ledger.console_sessions.open(new_console(token), account.clone(), step).await.unwrap()
    };
    let change_from = async |console, change| {
        ledger.operators.update("lin".into(), vec![change], console, ADMIN, NOW).await.unwrap().unwrap()
    };
    let change = async |change| change_from(None, change).await;
    let seen = async |token: u8| ledger.console_sessions.get([token; 32]).await.unwrap();
    assert!(open(1, &lin(), None).await);
    let promoted = change(OperatorChange::Role(Role::Operator)).await;
    let expected = OpenedBy::Operator { name: "lin".into(), role: Role::Operator };
    assert_eq!(seen(1).await.unwrap().opened_by, expected, "a session has the current role of its operator");

    assert!(open(8, &promoted, None).await);
    let factored = change_from(Some([1; 32]), OperatorChange::Totp(Some((vec![7; 20], 100)))).await;
    assert!(seen(1).await.is_some(), "the session that enabled the second factor stays open");
    assert_eq!(seen(8).await, None, "all other sessions end");
    assert!(!open(2, &promoted, None).await, "the second factor was enabled during the password check");
    assert!(!open(2, &factored, Some(100)).await, "the code that confirmed the second factor is used up");
    assert!(open(2, &factored, Some(101)).await);
    assert!(!open(3, &factored, Some(101)).await, "a code works once");
    assert!(!open(3, &factored, Some(100)).await, "an earlier code does not work either");

    assert!(!ledger.operators.consume_totp_step(factored.clone(), 101).await.unwrap());
    assert!(
        ledger.operators.consume_totp_step(factored.clone(), 102).await.unwrap(),
        "the next code can be used without a sign-in"
    );
    let same = change(OperatorChange::Totp(Some((vec![7; 20], 90)))).await;
    assert!(!open(3, &same, Some(102)).await, "setting the same secret again does not re-enable used codes");
    let other = change(OperatorChange::Totp(Some((vec![8; 20], 90)))).await;
    assert!(open(3, &other, Some(91)).await, "a new secret starts with unused codes");
    let factored = other;

    change(OperatorChange::Disabled(true)).await;
    assert_eq!((seen(1).await, seen(2).await), (None, None));
    assert!(!open(4, &factored, Some(102)).await);
    change(OperatorChange::Disabled(false)).await;
    assert_eq!(seen(1).await, None, "enabling the account does not restore ended sessions");
    assert!(ledger.operators.update("mei".into(), vec![], None, ADMIN, NOW).await.unwrap().is_none());

    ledger.console_sessions.open_with_admin_key(new_console(9), [5; 32]).await.unwrap();
    assert_eq!(seen(9).await.unwrap().opened_by, OpenedBy::AdminKey([5; 32]));
    ledger.console_sessions.extend([9; 32], ends + LATER).await.unwrap();
    assert_eq!(ledger.console_sessions.delete_expired(ends + LATER).await.unwrap(), 0);
    assert_eq!(ledger.console_sessions.delete_expired(ends + LATER + LATER).await.unwrap(), 1);
    ledger.console_sessions.open_with_admin_key(new_console(6), [5; 32]).await.unwrap();
    let again = NewConsoleSession { instead_of: Some([6; 32]), ..new_console(7) };
    ledger.console_sessions.open_with_admin_key(again, [5; 32]).await.unwrap();
    assert_eq!(seen(6).await, None, "a new session replaces the one of the same browser");
    ledger.console_sessions.end([7; 32], NOW).await.unwrap();
    ledger.console_sessions.end([7; 32], NOW).await.unwrap();
    assert_eq!(seen(7).await, None);
    ledger
        .operators
        .log_refusal(lin().id, EventKind::OperatorSignInRefused, "lin".into(), NOW)
        .await
        .unwrap();
}

async fn keys(ledger: &SqlLedger) {
    let create = async |key, digest: u8, most| {
        ledger.api_keys.create(key, [digest; 32], most, ADMIN, None).await.unwrap()
    };
    assert_eq!(create(key(11, "deploy"), 1, 2).await, CreateOutcome::Created);
    assert_eq!(create(key(12, "deploy"), 2, 2).await, CreateOutcome::NameTaken);
    let used_at: Moment = NOW + LATER;
    ledger.api_keys.set_last_used(ApiKeyId::from_raw(11), used_at).await.unwrap();
    let found = ledger.api_keys.active_by_digest([1; 32]).await.unwrap().unwrap();
    assert_eq!(found, ApiKey { last_used_at: Some(used_at), ..key(11, "deploy") });
    let revoke = async || ledger.api_keys.revoke(ApiKeyId::from_raw(11), ADMIN, NOW).await.unwrap();
    assert_eq!((revoke().await, revoke().await), (Some([1; 32]), None));
    assert_eq!(ledger.api_keys.active_by_digest([1; 32]).await.unwrap(), None);
    assert_eq!(
        create(key(13, "deploy"), 3, 1).await,
        CreateOutcome::Created,
        "a revoked key frees its name and counts no more"
    );
    assert_eq!(create(key(14, "other"), 4, 1).await, CreateOutcome::TooMany);
    let clash = ledger.api_keys.create(key(15, "other"), [3; 32], 9, ADMIN, None).await;
    assert!(clash.is_err(), "a duplicate digest is an error, not `NameTaken`");
    let listed: Vec<u64> = ledger.api_keys.list(9).await.unwrap().iter().map(|key| key.id.raw()).collect();
    assert_eq!(listed, [13, 11], "active keys come first");
    assert_eq!(ledger.api_keys.delete_revoked(NOW + LATER).await.unwrap(), 1);
}

async fn story(ledger: SqlLedger) {
    accounts_and_consoles(&ledger).await;
    keys(&ledger).await;
    assert_eq!(ledger.highest_id().await.unwrap(), 13);
    let expected = [
        "operator operator.created",
        "operator:lin operator.signed_in",
        "operator operator.changed",
        "operator:lin operator.signed_in",
        "operator operator.changed",
        "operator:lin operator.signed_in",
        "operator operator.changed",
        "operator operator.changed",
        "operator:lin operator.signed_in",
        "operator operator.changed",
        "operator operator.changed",
        "operator operator.signed_in",
        "operator operator.signed_in",
        "operator operator.signed_out",
        "operator operator.signed_in",
        "operator operator.signed_out",
        "clock operator.sign_in_refused",
        "operator api_key.created",
        "operator api_key.revoked",
        "operator api_key.created",
    ];
    assert_eq!(kinds(&ledger).await, expected, "the log has every change, and nothing else");
}

/// A webhook that subscribes to everything receives events about sales and orders, not about operators.
#[test]
fn webhooks_receive_no_events_about_operators() {
    let webhook = Webhook {
        id: WebhookId::from_raw(1),
        url: "https://shop.example/".into(),
        events: vec!["*".into(), "operator.*".into(), "api_key.created".into()],
        secret: vec![],
        old_secret: None,
        disabled: None,
        created_at: NOW,
        updated_at: NOW,
    };
    assert!(webhook.wants(&Stored::Known(EventKind::OrderPaid)));
    assert!(webhook.wants(&Stored::Unknown("order.eaten".into())), "an event kind of a later version");
    assert!(!webhook.wants(&Stored::Unknown("operator.eaten".into())));
    assert!(!webhook.wants(&Stored::Unknown("meal.eaten".into())));
    for kind in [
        "operator.created",
        "operator.changed",
        "operator.signed_in",
        "operator.signed_out",
        "operator.sign_in_refused",
        "operator.code_refused",
        "api_key.created",
        "api_key.revoked",
    ] {
        assert!(!webhook.wants(&Stored::read(kind.into())), "{kind}");
    }
}

#[tokio::test]
async fn operators_are_kept_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    story(sqlite(directory.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_kept_in_postgresql() {
    let server = Postgres::start();
    story(postgres(&server).await).await;
}

/// A ledger from before operators is migrated and keeps its data.
#[tokio::test]
async fn a_ledger_of_the_second_version_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let raw = rusqlite::Connection::open(directory.path().join("ledger.db")).unwrap();
    raw.execute_batch(include_str!("../src/schema/sqlite/1_sales.sql")).unwrap();
    raw.execute_batch(include_str!("../src/schema/sqlite/2_draws.sql")).unwrap();
    raw.execute_batch(
        "PRAGMA user_version = 2;
         INSERT INTO outbox (at, actor, kind, subject) VALUES (0, 'operator', 'webhook.created', 1);",
    )
    .unwrap();
    drop(raw);
    let ledger = sqlite(directory.path());
    assert_eq!(kinds(&ledger).await, ["operator webhook.created"]);
    assert_eq!(ledger.operators.create(lin(), 1, ADMIN, None).await.unwrap(), CreateOutcome::Created);
}

/// On PostgreSQL, the first node that starts migrates the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_ledger_of_the_first_version_is_migrated() {
    let server = Postgres::start();
    let url = server.create("operators");
    let first_version = concat!(
        include_str!("../src/schema/postgres/1_sales_and_draws.sql"),
        "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1);"
    );
    let made = std::process::Command::new("psql").args(["-d", &url, "-c", first_version]).output();
    let made = made.expect("psql is needed: apt-get install postgresql");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let options = PostgresOptions { url: server.url("operators"), readers: 1, writers: 1, insert_new: true };
    let ledger = SqlLedger::postgres(options, Arc::new(NoObserver)).unwrap();
    ledger.migrate().await.unwrap();
    assert_eq!(ledger.operators.create(lin(), 1, ADMIN, None).await.unwrap(), CreateOutcome::Created);
}
