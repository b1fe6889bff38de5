//! A flood of orders without a pass, at ten times the rate of honest orders: orders are still accepted, refusals stay
//! fast, memory does not grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use hyper::Method;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tokio::time::Instant;

use crate::support::{ADMIN_KEY, program};

const ORDERS_PER_S: u64 = 500;
const FLOOD_PER_S: u64 = 10 * ORDERS_PER_S;
const ORDER_CONNECTIONS: u64 = 16;
const FLOOD_CONNECTIONS: u64 = 128;
const PHASE: Duration = Duration::from_secs(6);

async fn set_up(operator: &mut Client) -> (String, Arc<Vec<String>>) {
    let price = json!({"amount": 1, "currency": "CNY"});
    let item =
        operator.post("/v1/admin/items", &json!({"name": "Lamp", "price": price})).await.unwrap().json();
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": price, "stock": 1_000_000, "per_user_limit": 1000, "pay_within_s": 3600,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        "protect": {"pass": true},
    });
    let sale =
        operator.post("/v1/admin/sales", &terms).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
    let minted = operator.post("/v1/admin/tokens", &json!({"count": 5000})).await.unwrap().json();
    let tokens = minted["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned());
    (sale, Arc::new(tokens.collect()))
}

/// Runs `act` at a fixed rate for one phase, spread over `connections` tasks; `act` gets its number and planned time.
async fn paced<F>(connections: u64, per_s: u64, act: impl Fn(u64, Instant) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..connections {
        let act = act.clone();
        tasks.spawn(async move {
            let mut number = connection;
            loop {
                let planned = started + Duration::from_nanos(number * 1_000_000_000 / per_s);
                if planned.duration_since(started) >= PHASE {
                    return;
                }
                tokio::time::sleep_until(planned).await;
                act(number, planned).await;
                number += connections;
            }
        });
    }
    tasks.join_all().await;
}

/// Honest buyers: a pass, then an order. Returns the number of accepted orders.
async fn orders(url: String, sale: String, tokens: Arc<Vec<String>>) -> u64 {
    let taken = Arc::new(AtomicU64::new(0));
    let clients: Arc<Vec<_>> = Arc::new(
        (0..ORDER_CONNECTIONS).map(|_| tokio::sync::Mutex::new(Client::new(&url, None).unwrap())).collect(),
    );
    let counted = taken.clone();
    paced(ORDER_CONNECTIONS, ORDERS_PER_S, move |number, _| {
        let (clients, tokens, sale, taken) = (clients.clone(), tokens.clone(), sale.clone(), counted.clone());
        async move {
            let token = &tokens[usize::try_from(number % 2500).unwrap()];
            let mut client = clients[usize::try_from(number % ORDER_CONNECTIONS).unwrap()].lock().await;
            let path = format!("/v1/sales/{sale}/passes");
            let pass =
                client.send_as(token, Method::POST, &path, Some("{}".into()), None).await.unwrap().json();
            let body = json!({"quantity": 1, "pass": pass["pass"]}).to_string();
            let path = format!("/v1/sales/{sale}/orders");
            let answer = client.send_as(token, Method::POST, &path, Some(body), None).await.unwrap();
            taken.fetch_add(u64::from(answer.status == 201), Ordering::Relaxed);
        }
    })
    .await;
    taken.load(Ordering::Relaxed)
}

/// Bots without a pass. Returns the latency of their refusals, measured from the planned time.
async fn flood(url: String, sale: String, tokens: Arc<Vec<String>>) -> Histogram<u64> {
    let latency = Arc::new(parking_lot::Mutex::new(Histogram::new_with_bounds(1, 60_000_000, 3).unwrap()));
    let clients: Arc<Vec<_>> = Arc::new(
        (0..FLOOD_CONNECTIONS).map(|_| tokio::sync::Mutex::new(Client::new(&url, None).unwrap())).collect(),
    );
    let noted = latency.clone();
    paced(FLOOD_CONNECTIONS, FLOOD_PER_S, move |number, planned| {
        let (clients, tokens, sale, latency) = (clients.clone(), tokens.clone(), sale.clone(), noted.clone());
        async move {
            let token = &tokens[2500 + usize::try_from(number % 2500).unwrap()];
            let mut client = clients[usize::try_from(number % FLOOD_CONNECTIONS).unwrap()].lock().await;
            let path = format!("/v1/sales/{sale}/orders");
            let answer = client
                .send_as(token, Method::POST, &path, Some("{\"quantity\":1}".into()), None)
                .await
                .unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (403, "pass_required"));
            let micros = u64::try_from(planned.elapsed().as_micros()).unwrap();
            latency.lock().saturating_record(micros.max(1));
        }
    })
    .await;
    latency.lock().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refused_orders_leaves_throughput_latency_and_memory_stable() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let url = server.url().to_owned();
    let mut operator = Client::new(&url, Some(ADMIN_KEY)).unwrap();
    let (sale, tokens) = set_up(&mut operator).await;
    orders(url.clone(), sale.clone(), tokens.clone()).await;
    let quiet = orders(url.clone(), sale.clone(), tokens.clone()).await;
    let (before, _) = server.memory_kib().unwrap();
    let flooding = tokio::spawn(flood(url.clone(), sale.clone(), tokens.clone()));
    let flooded = orders(url, sale.clone(), tokens).await;
    let latency = flooding.await.unwrap();
    let (after, _) = server.memory_kib().unwrap();
    let p99 = Duration::from_micros(latency.value_at_quantile(0.99));
    println!(
        "{quiet} orders without and {flooded} with a flood of {} refusals; p99 of the refusals {p99:?}; \
         {} MiB before, {} MiB after",
        latency.len(),
        before >> 10,
        after >> 10
    );
    assert!(flooded * 10 >= quiet * 8, "{flooded} orders instead of {quiet}");
    assert!(p99 < Duration::from_millis(50), "{p99:?}");
    assert!(after < before + (32 << 10), "{before} KiB became {after} KiB");
    let audit = operator.get(&format!("/v1/admin/sales/{sale}/audit")).await.unwrap().json();
    assert_eq!(audit["ok"], true, "{audit}");
    assert!(server.stop().await.unwrap());
}
