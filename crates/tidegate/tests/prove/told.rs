//! How fast webhooks leave: a rush of orders in about a second, and the same events once more, to a receiver that is
//! quick. The receiver runs in this process, on the same cores as the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tidegate_testing::eventually_within;
use tidegate_testing::servers::{Postgres, Redis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::support::{ADMIN_KEY, program};

const ORDERS: usize = 6_000;
const CONNECTIONS: usize = 64;
/// What the receiver must be told per second.
const EVENTS_PER_S: f64 = 5_000.0;

/// Answers every request with 204 and counts them; nothing else costs time.
async fn receive(mut stream: TcpStream, taken: Arc<AtomicUsize>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    while stream.read_buf(&mut buffer).await? > 0 {
        while let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let end = head + 4 + length.unwrap_or(0_usize);
            if buffer.len() < end {
                break;
            }
            buffer.drain(..end);
            taken.fetch_add(1, Ordering::Relaxed);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        }
    }
    Ok(())
}

async fn receiver(taken: &Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), taken.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(receive(stream, taken.clone()));
        }
    });
    address
}

/// Waits until so many events have arrived; returns when that was.
async fn told(taken: &AtomicUsize, count: usize) -> Instant {
    eventually_within(Duration::from_secs(300), "every event arrives", async || {
        let taken = taken.load(Ordering::Relaxed);
        if taken >= count { Ok(Instant::now()) } else { Err(taken) }
    })
    .await
}

async fn order_all(url: &str, sale: &str, tokens: &[Value]) {
    let mut buyers = tokio::task::JoinSet::new();
    let each = tokens.len().div_ceil(CONNECTIONS);
    for part in tokens.chunks(each) {
        let (part, path) = (part.to_vec(), format!("/v1/sales/{sale}/orders"));
        let mut client = Client::new(url, None).unwrap();
        buyers.spawn(async move {
            for token in part {
                let body = Some("{\"quantity\":1}".into());
                let answer = client.send_as(token.as_str().unwrap(), Method::POST, &path, body, None).await;
                assert!(matches!(answer.unwrap().status, 201 | 202));
            }
        });
    }
    buyers.join_all().await;
}

async fn tell(name: &str, settings: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let taken: Arc<AtomicUsize> = Arc::default();
    let address = receiver(&taken).await;
    let mut all = vec![("TIDEGATE__DELIVERIES__ALLOW_NETWORKS", "127.0.0.0/8")];
    all.extend(settings);
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &all).await.unwrap();
    let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
    let price = json!({"amount": 1, "currency": "CNY"});
    let item =
        operator.post("/v1/admin/items", &json!({"name": "Lamp", "price": price})).await.unwrap().json();
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": price, "stock": 1_000_000, "per_user_limit": 1000, "pay_within_s": 3600,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
    });
    let sale = operator.post("/v1/admin/sales", &terms).await.unwrap().json();
    let sale = sale["id"].as_str().unwrap();
    operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
    let tokens =
        operator.post("/v1/admin/tokens", &json!({"count": ORDERS})).await.unwrap().json()["tokens"].clone();
    let hook = json!({"url": format!("http://{address}/"), "events": ["order.created"]});
    let hook = operator.post("/v1/admin/webhooks", &hook).await.unwrap().json();

    let started = Instant::now();
    order_all(server.url(), sale, tokens.as_array().unwrap()).await;
    let ordered = Instant::now();
    let rush = told(&taken, ORDERS).await;
    let began = Instant::now();
    let replay = format!("/v1/admin/webhooks/{}/replay", hook["id"].as_str().unwrap());
    operator.expect(200, Method::POST, &replay, Some(&json!({"after": "0"}))).await.unwrap();
    let replayed = told(&taken, 2 * ORDERS).await - began;
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let rate = ORDERS as f64 / replayed.as_secs_f64();
    println!(
        "{name}: {ORDERS} orders in {:.2} s; the last of them was told {:.2} s later; \
         the same events again in {:.2} s, {rate:.0} per second",
        (ordered - started).as_secs_f64(),
        (rush - ordered).as_secs_f64(),
        replayed.as_secs_f64(),
    );
    assert!(rush - ordered < Duration::from_secs(3), "{name}: {:?} after the rush", rush - ordered);
    assert!(rate >= EVENTS_PER_S, "{name}: {rate:.0} events per second");
    assert!(server.stop().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rush_is_told_at_the_receivers_pace() {
    tell("SQLite", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rush_is_told_at_the_receivers_pace_on_a_cluster() {
    let (redis, postgres) = (Redis::start(&[]), Postgres::start());
    let (database, redis) = (postgres.create("told"), redis.url());
    tell("PostgreSQL", &[("TIDEGATE_DATABASE_URL", &database), ("TIDEGATE_REDIS_URL", &redis)]).await;
}
