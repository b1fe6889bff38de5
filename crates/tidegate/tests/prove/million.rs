//! A restart with a million recorded orders: time until ready, and memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_app::digest;
use tidegate_core::{Claim, ClaimId, Granted, Money, UserId};
use tidegate_ledger::{NoObserver, SqlLedger, SqliteOptions, path_in};
use tidegate_ledger::{Page, Records};
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;

use crate::support::{ADMIN_KEY, program};

const ORDERS: u32 = 1_000_000;
const BATCH: u32 = 5_000;

/// Publishes a sale with a stock of twice `ORDERS`.
async fn publish(operator: &mut Client) -> String {
    let price = json!({"amount": 9900, "currency": "CNY"});
    let item = json!({"name": "Lamp", "price": price});
    let item = operator.expect(201, Method::POST, "/v1/admin/items", Some(&item)).await.unwrap();
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": price, "stock": 2 * ORDERS, "per_user_limit": 1, "pay_within_s": 86_400,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(86_400)).to_string(),
    });
    let sale = operator.expect(201, Method::POST, "/v1/admin/sales", Some(&terms)).await.unwrap();
    let sale = sale["id"].as_str().unwrap().to_owned();
    operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
    sale
}

/// Records one order each for a million buyers, in batches.
async fn record(ledger: &SqlLedger) {
    let campaign = ledger.campaigns.published("sale", Page::ALL).await.unwrap().remove(0).0;
    let now = Clock::System.now();
    let base = ledger.highest_id().await.unwrap();
    for batch in 0..ORDERS / BATCH {
        let claims = (batch * BATCH..(batch + 1) * BATCH).map(|number| {
            let buyer = digest::short_digest(&[&number.to_le_bytes()]);
            Arc::new(Claim {
                id: ClaimId::from_raw(base + 1 + u64::from(number)),
                user: UserId::from_raw(u64::from_le_bytes(buyer[..8].try_into().unwrap()) >> 1),
                campaign: campaign.id,
                epoch: campaign.epoch,
                version: u64::from(number) + 1,
                slots: [number + 1].into_iter().collect(),
                created_at: now,
                granted: Granted::Order {
                    unit_price: Money { amount: 9900, currency: "CNY".parse().unwrap() },
                    pay_by: now + Duration::from_secs(86_400),
                },
                key: Some(tidegate_core::IdempotencyKey(buyer)),
            })
        });
        ledger.record(u64::from(batch * BATCH) + 1, claims.collect(), now).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_a_million_orders_is_ready_within_five_seconds_and_300_mb() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let sale = publish(&mut Client::new(server.url(), Some(ADMIN_KEY)).unwrap()).await;
    assert!(server.stop().await.unwrap());
    let options = SqliteOptions { path: path_in(directory.path()), readers: 1, cache_mb: 256, max_mb: None };
    let ledger = SqlLedger::open(&options, Box::new(NoObserver)).unwrap();
    let started = Instant::now();
    record(&ledger).await;
    println!("recording: {:.0} orders/s", f64::from(ORDERS) / started.elapsed().as_secs_f64());
    drop(ledger);

    let started = Instant::now();
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let ready = started.elapsed();
    let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
    assert_eq!(operator.get("/readyz").await.unwrap().status, 200);
    let shown = operator.get(&format!("/v1/admin/sales/{sale}")).await.unwrap().json();
    assert_eq!(shown["counters"]["available"], ORDERS);
    assert_eq!(shown["counters"]["awaiting_payment"], ORDERS);
    let audit = operator.get(&format!("/v1/admin/sales/{sale}/audit")).await.unwrap().json();
    assert_eq!(audit["ok"], true, "{audit}");
    let (now, most) = server.memory_kib().unwrap();
    println!("ready after {:.2} s; {} MiB now, {} MiB at most", ready.as_secs_f64(), now >> 10, most >> 10);
    assert!(ready < Duration::from_secs(5), "ready after {ready:?}");
    assert!(most < 300 << 10, "{most} KiB");
    assert!(server.stop().await.unwrap());
}
