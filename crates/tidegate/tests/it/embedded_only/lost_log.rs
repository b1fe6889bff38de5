//! A ledger that goes backwards: SQLite's write-ahead log is damaged or missing, the file is an older copy, the
//! journal is gone. Recorded orders are recorded again; any other loss refuses the start until an operator accepts it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hyper::Method;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tidegate_testing::eventually;

use crate::support::{ADMIN_KEY, bought, order, pay, program, state};

/// A killed server's data directory as it was at some moments: with what SQLite has not moved into its file yet.
struct Shop {
    directory: tempfile::TempDir,
    server: Option<Server>,
    sale: String,
    tokens: Vec<String>,
}

impl Shop {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut shop = Self { directory, server: None, sale: String::new(), tokens: Vec::new() };
        shop.start().await;
        let mut operator = shop.operator();
        let price = json!({"amount": 1, "currency": "CNY"});
        let item = json!({"name": "Lamp", "price": price});
        let item = operator.post("/v1/admin/items", &item).await.unwrap().json();
        let now = Clock::System.now();
        let terms = json!({
            "item_id": item["id"], "price": price, "stock": 1000, "per_user_limit": 100, "pay_within_s": 3600,
            "starts_at": now.to_string(), "ends_at": (now + std::time::Duration::from_secs(3600)).to_string(),
        });
        let sale = operator.post("/v1/admin/sales", &terms).await.unwrap().json();
        shop.sale = sale["id"].as_str().unwrap().to_owned();
        let publish = format!("/v1/admin/sales/{}/publish", shop.sale);
        operator.expect(200, Method::POST, &publish, None).await.unwrap();
        let minted = operator.post("/v1/admin/tokens", &json!({"count": 1})).await.unwrap().json();
        shop.tokens = vec![minted["tokens"][0].as_str().unwrap().to_owned()];
        shop
    }

    fn data_dir(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.data_dir().join(name)
    }

    async fn start(&mut self) {
        let server = Server::start_in(&program(), self.directory.path(), ADMIN_KEY, &[]).await.unwrap();
        self.server = Some(server);
    }

    async fn kill(&mut self) {
        self.server.take().unwrap().kill().await.unwrap();
    }

    fn operator(&self) -> Client {
        Client::new(self.server.as_ref().unwrap().url(), Some(ADMIN_KEY)).unwrap()
    }

    fn buyer(&self) -> Client {
        Client::new(self.server.as_ref().unwrap().url(), Some(&self.tokens[0])).unwrap()
    }

    /// Waits until the log is moved into the file. What is changed while the returned reader lives is in the log alone.
    async fn keep_log(&self) -> rusqlite::Connection {
        eventually("the log is empty or has been moved", async || {
            let raw = rusqlite::Connection::open(self.file("ledger.db")).unwrap();
            let moved = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? == row.get::<_, i64>(2)?);
            raw.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], moved).unwrap()
        })
        .await;
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let reader = rusqlite::Connection::open_with_flags(self.file("ledger.db"), flags).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM intake;").unwrap();
        reader
    }

    /// Waits until every accepted order is recorded.
    async fn is_recorded(&self) {
        eventually("every accepted order is recorded", async || {
            let metrics = self.operator().get("/metrics").await.unwrap();
            tidegate_testing::metrics::is_recorded(&String::from_utf8_lossy(&metrics.body))
        })
        .await;
    }

    fn run(&self, command: &str) -> Output {
        let mut run = Command::new("timeout");
        run.arg("30")
            .arg(program())
            .arg(command)
            .arg("--data-dir")
            .arg(self.data_dir())
            .env("TIDEGATE_LISTEN", "127.0.0.1:0");
        run.env("TIDEGATE_DEMO", "off").output().unwrap()
    }

    /// The start is refused, with this in its message; the audit says the same.
    fn is_refused(&self, because: &str) {
        let served = self.run("serve");
        let message = String::from_utf8_lossy(&served.stderr).into_owned();
        assert_eq!(served.status.code(), Some(2), "{message}");
        assert!(
            message.contains(because) && message.contains("tidegate accept-loss --data-dir"),
            "{message}"
        );
        let audit = self.run("audit");
        let message = String::from_utf8_lossy(&audit.stdout).into_owned();
        assert_eq!(audit.status.code(), Some(1), "{audit:?}");
        assert!(message.contains(because), "{message}");
    }

    /// The operator accepts the loss: once, and the server starts.
    async fn is_accepted(&mut self) {
        let accepted = self.run("accept-loss");
        assert!(accepted.status.success(), "{accepted:?}");
        let again = self.run("accept-loss");
        assert!(String::from_utf8_lossy(&again.stdout).contains("Nothing is lost"), "{again:?}");
        self.start().await;
        let audit = self.run("audit");
        assert!(audit.status.success(), "{audit:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_log_the_ledger_records_lost_orders_again_but_misses_lost_payments() {
    let mut shop = Shop::open().await;
    let mut buyer = shop.buyer();
    let early = bought(&mut buyer, &shop.sale, 1).await;
    shop.is_recorded().await;
    // Only a recorded order is lost with the log.
    let reader = shop.keep_log().await;
    let late = bought(&mut buyer, &shop.sale, 1).await;
    shop.is_recorded().await;
    shop.kill().await;
    drop(reader);
    std::fs::remove_file(shop.file("ledger.db-wal")).unwrap();
    shop.start().await;
    let mut buyer = shop.buyer();
    assert_eq!(state(&mut buyer, &late).await, "awaiting_payment", "recorded again from the journal");
    // A payment is lost with it.
    shop.is_recorded().await;
    let reader = shop.keep_log().await;
    assert_eq!(pay(&mut buyer, &early).await.status, 200);
    shop.kill().await;
    drop(reader);
    std::fs::remove_file(shop.file("ledger.db-wal")).unwrap();
    shop.is_refused("has gone backwards");
    shop.is_accepted().await;
    let mut buyer = shop.buyer();
    assert_eq!(state(&mut buyer, &early).await, "awaiting_payment", "the operator was told");
    assert_eq!(state(&mut buyer, &late).await, "awaiting_payment");
}

/// SQLite reads its log up to the first frame whose checksum is wrong, and takes that for the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_log_is_noticed() {
    let mut shop = Shop::open().await;
    let mut buyer = shop.buyer();
    let paid = bought(&mut buyer, &shop.sale, 1).await;
    shop.is_recorded().await;
    let reader = shop.keep_log().await;
    assert_eq!(pay(&mut buyer, &paid).await.status, 200);
    shop.kill().await;
    drop(reader);
    let log = shop.file("ledger.db-wal");
    let intact = std::fs::read(&log).unwrap();
    let mut damaged = intact.clone();
    // Its header, so that nothing in it is read.
    damaged[17] ^= 1;
    std::fs::write(&log, &damaged).unwrap();
    shop.is_refused("has gone backwards");
    assert_eq!(std::fs::read(&log).unwrap(), damaged, "the refused start leaves the evidence as it is");
    std::fs::write(&log, intact).unwrap();
    shop.start().await;
    assert_eq!(state(&mut shop.buyer(), &paid).await, "paid", "the restored log has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_ledger_and_a_missing_journal_are_refused() {
    let mut shop = Shop::open().await;
    drop(shop.keep_log().await);
    let copy = std::fs::read(shop.file("ledger.db")).unwrap();
    let mut buyer = shop.buyer();
    let paid = bought(&mut buyer, &shop.sale, 1).await;
    assert_eq!(pay(&mut buyer, &paid).await.status, 200);
    assert!(shop.server.take().unwrap().stop().await.unwrap());
    let newest = std::fs::read(shop.file("ledger.db")).unwrap();
    std::fs::write(shop.file("ledger.db"), copy).unwrap();
    // All of it is in the newest file.
    std::fs::remove_file(shop.file("ledger.db-wal")).unwrap();
    shop.is_refused("replaced by an older copy");
    std::fs::remove_file(shop.file("ledger.db")).unwrap();
    let served = shop.run("serve");
    assert_eq!(served.status.code(), Some(2), "no ledger at all: {served:?}");
    std::fs::write(shop.file("ledger.db"), newest).unwrap();
    std::fs::rename(shop.file("journal"), shop.file("elsewhere")).unwrap();
    shop.is_refused("is missing, and with it every accepted order");
    shop.is_accepted().await;
    let mut buyer = shop.buyer();
    assert_eq!(state(&mut buyer, &paid).await, "paid");
    assert_eq!(order(&mut buyer, &shop.sale, 1).await.status, 201);
}
