//! A damaged ledger: it is the ledger that fails, never an order. Orders are refused, reads go on, and what was
//! accepted waits in the journal until the file is mended.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::json;
use tidegate_rehearse::client::Client;
use tidegate_testing::eventually;

use crate::support::{TestApp, bought, order, refused, state};

/// The root page of a table or an index: where it begins in the file, and its bytes.
fn root_page(data_dir: &Path, name: &str) -> (u64, Vec<u8>) {
    let path = data_dir.join("ledger.db");
    let raw = rusqlite::Connection::open(&path).unwrap();
    let find = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = ?";
    let numbers = raw.query_row(find, [name], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?)));
    let (page, size) = numbers.unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut bytes = vec![0; size as usize];
    let start = u64::from(page - 1) * u64::from(size);
    File::open(path).unwrap().read_exact_at(&mut bytes, start).unwrap();
    (start, bytes)
}

fn overwrite(data_dir: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(data_dir.join("ledger.db")).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Waits until the server refuses orders because of its ledger, and returns the reason.
async fn ledger_trouble(client: &mut Client) -> String {
    eventually("the ledger is reported as damaged", async || {
        let ready = client.get("/readyz").await.unwrap();
        let problem = ready.json()["detail"].as_str().unwrap_or_default().to_owned();
        if ready.status == 503 && problem.contains("ledger") { Ok(problem) } else { Err(problem) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_stops_the_sale_and_rejects_no_order() {
    let mut app = TestApp::builder().alive().start().await;
    let sale = app.sale(100, 100).await;
    let mut buyer = app.buyer().await;
    bought(&mut buyer, &sale, 1).await;
    app.recorded().await;
    let mut page = (0, Vec::new());
    // An index that recording writes to and that the start does not read.
    let mut app = app
        .restart_after(|data_dir| {
            page = root_page(data_dir, "orders_of_campaign");
            overwrite(data_dir, page.0, &[0xff; 64]);
        })
        .await;
    let mut buyer = app.buyer().await;
    let accepted = bought(&mut buyer, &sale, 1).await;
    let problem = ledger_trouble(&mut buyer).await;
    assert!(problem.contains("damaged") && problem.contains("journal"), "{problem}");
    assert_eq!(state(&mut buyer, &accepted).await, "awaiting_payment", "the order is kept, not rejected");
    refused(&order(&mut buyer, &sale, 1).await, 503, "not_ready");
    assert_eq!(buyer.get(&format!("/v1/sales/{sale}")).await.unwrap().status, 200, "reads go on");
    // The file is mended: the order is recorded as if nothing had happened.
    let mut app = app.restart_after(|data_dir| overwrite(data_dir, page.0, &page.1)).await;
    app.recorded().await;
    let shown = app.operator.get(&format!("/v1/admin/orders/{accepted}")).await.unwrap().json();
    assert_eq!(shown["state"], json!("awaiting_payment"), "{shown}");
    app.sound(&sale, 98, 2, 0).await;
}

/// SQLite does not notice this damage, but a constraint fails for every order.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_is_wrong_rejects_no_order() {
    let mut app = TestApp::builder().alive().start().await;
    let sale = app.sale(100, 100).await;
    let mut buyer = app.buyer().await;
    app.raw_ledger().execute("UPDATE campaign SET awaiting = stock", ()).unwrap();
    let accepted = bought(&mut buyer, &sale, 1).await;
    let problem = ledger_trouble(&mut buyer).await;
    assert!(problem.contains("damaged"), "{problem}");
    assert_eq!(state(&mut buyer, &accepted).await, "awaiting_payment", "the order is kept, not rejected");
    let mut app = app
        .restart_after(|data_dir| {
            let raw = rusqlite::Connection::open(data_dir.join("ledger.db")).unwrap();
            raw.execute("UPDATE campaign SET awaiting = 0", ()).unwrap();
        })
        .await;
    app.sound(&sale, 99, 1, 0).await;
}
