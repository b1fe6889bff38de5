//! Changes by several nodes at once, and claims that are recorded long after their sale has closed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_rehearse::client::Client;
use tidegate_testing::servers::Redis;
use tidegate_testing::{eventually, eventually_within};

use crate::world::{KEY, World, program};

#[tokio::test(flavor = "multi_thread")]
async fn a_restock_says_what_it_changed_whoever_else_restocks() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let sale = world.open_sale(1000, Duration::from_secs(3600)).await;
    let path = format!("/v1/admin/sales/{sale}/restock");
    let mut operators = tokio::task::JoinSet::new();
    for (url, units) in world.urls.clone().into_iter().zip([5, 7, 11]) {
        let path = path.clone();
        operators.spawn(async move {
            let mut operator = Client::new(&url, Some(KEY)).unwrap();
            for _ in 0..30 {
                let answer = operator.post(&path, &json!({"units": units})).await.unwrap();
                assert_eq!((answer.status, &answer.json()["units_changed"]), (200, &json!(units)));
            }
        });
    }
    operators.join_all().await;
    assert_eq!(world.sale().await["stock"], 1000 + 30 * (5 + 7 + 11));
}

/// A unit that the gate has taken out of sale and no claim has: as after a lost entry of the stream.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_unit_is_on_sale_again_within_seconds_while_others_buy() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let sale = world.open_sale(10_000, Duration::from_secs(3600)).await;
    let tokens = world.tokens(9000).await;
    let sold = Arc::new(AtomicUsize::new(0));
    let mut buyers = tokio::task::JoinSet::new();
    for (at, tokens) in tokens.chunks(tokens.len() / 3).map(<[String]>::to_vec).enumerate() {
        let (path, url, sold) =
            (format!("/v1/sales/{sale}/orders"), world.urls[at % 3].clone(), sold.clone());
        buyers.spawn(async move {
            for token in tokens {
                let mut buyer = Client::new(&url, Some(&token)).unwrap();
                buyer.post(&path, &json!({"quantity": 1})).await.unwrap();
                sold.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for lost in 1..=3 {
        let pool = redis.cli(&["--scan", "--pattern", "*:pool"]).trim().to_owned();
        redis.cli(&["hincrby", &pool, "next", "1"]);
        let found = "SELECT count(*) FROM stock_log WHERE kind = 'return' AND \"user\" = 0";
        // Twice what is promised: the nodes and their buyers share the two cores of a test machine.
        eventually_within(Duration::from_secs(4), "the unit is found", async || {
            let found = world.sql(found);
            if found == lost.to_string() { Ok(()) } else { Err(found) }
        })
        .await;
    }
    let sold_by_then = sold.load(Ordering::SeqCst);
    assert!((1..9000).contains(&sold_by_then), "the sale goes on: {sold_by_then}");
    buyers.shutdown().await;
    for url in &world.urls {
        eventually("the metric says that nothing is missing", async || {
            let metrics = Client::new(url, None).unwrap().get("/metrics").await.unwrap().body;
            let metrics = String::from_utf8_lossy(&metrics).into_owned();
            if metrics.contains("tidegate_gate_drift_units 0") { Ok(()) } else { Err(metrics) }
        })
        .await;
    }
    eventually("every unit is accounted for", async || {
        let mut operator = world.operator();
        let audit = operator.get(&format!("/v1/admin/sales/{sale}/audit")).await.unwrap().json();
        let sound = audit["ok"] == true && audit["drift"]["units"] == 0 && audit["drift"]["queued"] == 0;
        if sound { Ok(()) } else { Err(audit) }
    })
    .await;
    let counters = world.sale().await["counters"].clone();
    let [available, held] = ["available", "awaiting_payment"].map(|name| counters[name].as_u64().unwrap());
    assert_eq!(available + held, 10_000, "{counters}");
}

/// The order's claim is in the stream when every node dies, and its sale is closed for hours when one comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_queued_order_is_recorded_even_hours_after_its_sale_has_closed() {
    let redis = Redis::start(&[]);
    let mut world = World::start(&redis.url()).await;
    let sale = world.open_sale(10, Duration::from_secs(3600)).await;
    let token = world.tokens(1).await.remove(0);
    let mut buyer = Client::new(&world.urls[0], Some(&token)).unwrap();
    buyer.expect(200, Method::GET, "/v1/me", None).await.unwrap();
    let lock = "BEGIN; LOCK TABLE held; SELECT pg_sleep(600)";
    let mut locked = world.psql(lock).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the ledger is locked", async || {
        let locks = world.sql("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted");
        if locks == "0" { Err(locks) } else { Ok(()) }
    })
    .await;
    let order: Value = {
        let path = format!("/v1/sales/{sale}/orders");
        let answer = buyer.post(&path, &json!({"quantity": 1})).await.unwrap();
        assert_eq!(answer.status, 202, "{}", answer.json());
        answer.json()
    };
    for node in &mut world.nodes {
        node.take().unwrap().kill().await.unwrap();
    }
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'");
    locked.wait().unwrap();
    let two_hours = 2 * 3600 * 1000;
    world.sql(&format!(
        "UPDATE campaign SET state = 'closed', updated_at = updated_at - {two_hours},
                 starts_at = starts_at - 2 * {two_hours}, ends_at = updated_at - {two_hours}"
    ));
    world.urls.clear();
    world.add_node().await;
    let mut buyer = Client::new(&world.urls[0], Some(&token)).unwrap();
    let path = format!("/v1/orders/{}", order["id"].as_str().unwrap());
    eventually("the order is recorded", async || {
        let found = buyer.get(&path).await.unwrap();
        if found.json()["state"] == "awaiting_payment" { Ok(()) } else { Err(found.json()) }
    })
    .await;
    eventually("the closed sale's streams are not read any more", async || {
        let drained = world.sql("SELECT drained FROM campaign");
        if drained == "1" { Ok(()) } else { Err(drained) }
    })
    .await;
}

fn newest_event(redis: &Redis) -> String {
    redis.cli(&["zscore", "tidegate:newest_event", "newest_event"]).trim().to_owned()
}

/// What a promoted standby lacks: the newest orders with their events.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_has_lost_orders_sells_nothing_until_the_loss_is_accepted() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let sale = world.open_sale(100, Duration::from_secs(3600)).await;
    let tokens = world.tokens(20).await;
    let path = format!("/v1/sales/{sale}/orders");
    let order = async |at: usize| {
        let mut buyer = Client::new(&world.urls[at % 3], Some(&tokens[at])).unwrap();
        let answer = buyer.post(&path, &json!({"quantity": 1})).await.unwrap();
        (answer.status, answer.code())
    };
    for at in 0..10 {
        assert_eq!(order(at).await.0, 201);
    }
    eventually("a node has seen the last event", async || {
        let (newest, seen) = (world.sql("SELECT max(id) FROM outbox"), newest_event(&redis));
        if newest == seen { Ok(()) } else { Err((newest, seen)) }
    })
    .await;
    let lost =
        "WITH newest AS (DELETE FROM outbox WHERE id > (SELECT max(id) - 4 FROM outbox) RETURNING subject),
                     lost AS (DELETE FROM orders WHERE id IN (SELECT subject FROM newest) RETURNING \"user\"),
                     slots AS (DELETE FROM held WHERE order_id IN (SELECT subject FROM newest)),
                     users AS (DELETE FROM held_by_user WHERE \"user\" IN (SELECT \"user\" FROM lost))
                UPDATE campaign SET awaiting = awaiting - (SELECT count(*) FROM lost)";
    world.sql(lost);
    let left: u64 = world.sql("SELECT count(*) FROM orders").parse().unwrap();
    assert!(left < 10);
    for url in &world.urls {
        eventually_within(Duration::from_secs(4), "the node says what is lost", async || {
            let ready = Client::new(url, None).unwrap().get("/readyz").await.unwrap();
            let text = String::from_utf8_lossy(&ready.body).into_owned();
            let says = ready.status == 503 && text.contains("PostgreSQL has lost committed changes");
            if says { Ok(()) } else { Err(text) }
        })
        .await;
    }
    for at in 10..13 {
        assert_eq!(order(at).await, (503, "not_ready".into()));
    }
    let accepted = Command::new(program())
        .args(["accept-loss", "--database-url", &world.postgres.url("tidegate"), "--redis-url", &redis.url()])
        .output()
        .unwrap();
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    for at in 13..16 {
        eventually("the node sells again", async || {
            let answer = order(at).await;
            if answer.0 == 201 { Ok(()) } else { Err(answer) }
        })
        .await;
    }
    eventually("gate and ledger agree", async || {
        let mut operator = world.operator();
        let audit = operator.get(&format!("/v1/admin/sales/{sale}/audit")).await.unwrap().json();
        let sound = audit["ok"] == true && audit["drift"]["units"] == 0;
        if sound { Ok(()) } else { Err(audit) }
    })
    .await;
    assert_eq!(world.sale().await["counters"]["available"], 100 - left - 3);
}
