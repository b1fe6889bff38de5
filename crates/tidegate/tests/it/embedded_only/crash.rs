//! The real program under load, killed at random moments and restarted on the same data.
//!
//! SIGKILL shows that no acknowledged order exists only in the process. It does not test fsync, because the page cache
//! survives it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;

use crate::support::{ADMIN_KEY, program};

const STOCK: u32 = 200_000;
const LIMIT: u64 = 3;
const BUYERS: u32 = 50_000;

/// A seeded random number generator, to replay a failure.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Ids of orders answered with 201, with their buyers' tokens.
type Acknowledged = Arc<Mutex<HashMap<String, String>>>;

async fn start(directory: &std::path::Path) -> Server {
    let settings = [("TIDEGATE__JOURNAL__SEGMENT_MB", "1"), ("TIDEGATE__JOURNAL__MAX_UNRECORDED", "20000")];
    Server::start_in(&program(), directory, ADMIN_KEY, &settings).await.unwrap()
}

async fn set_up(url: &str) -> (String, Vec<String>) {
    let mut operator = Client::new(url, Some(ADMIN_KEY)).unwrap();
    let price = json!({"amount": 1, "currency": "CNY"});
    let item =
        operator.post("/v1/admin/items", &json!({"name": "Lamp", "price": price})).await.unwrap().json();
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": price, "stock": STOCK, "per_user_limit": LIMIT, "pay_within_s": 3600,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
    });
    let sale =
        operator.post("/v1/admin/sales", &terms).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
    let minted = operator.post("/v1/admin/tokens", &json!({"count": BUYERS})).await.unwrap().json();
    let tokens = minted["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned());
    (sale, tokens.collect())
}

/// Places orders, cancels some, and notes the acknowledged ones, until the server is killed.
async fn shop(url: String, sale: String, tokens: Arc<Vec<String>>, seed: u64, acknowledged: Acknowledged) {
    let mut chance = Chance(seed);
    let mut client = Client::new(&url, None).unwrap();
    loop {
        let token = &tokens[usize::try_from(chance.next(BUYERS.into())).unwrap()];
        let path = format!("/v1/sales/{sale}/orders");
        let body = format!("{{\"quantity\":{}}}", 1 + chance.next(2));
        let Ok(answer) = client.send_as(token, Method::POST, &path, Some(body), None).await else { return };
        if answer.status != 201 {
            assert!(matches!(answer.status, 409 | 503), "{answer:?}");
            continue;
        }
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        acknowledged.lock().insert(id.clone(), token.clone());
        if chance.next(8) == 0 {
            let path = format!("/v1/orders/{id}/cancel");
            // The answer does not matter: a cancelled order is still listed.
            let _ = client.send_as(token, Method::POST, &path, None, None).await;
        }
    }
}

async fn all_orders(operator: &mut Client, sale: &str) -> HashMap<String, Value> {
    let mut orders = HashMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/admin/orders?sale_id={sale}&limit=1000{cursor}");
        let page = operator.expect(200, Method::GET, &path, None).await.unwrap();
        for order in page["data"].as_array().unwrap() {
            orders.insert(order["id"].as_str().unwrap().to_owned(), order.clone());
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return orders,
        }
    }
}

/// Checks that no acknowledged order is lost, no slot is sold twice, no limit is exceeded, and the counters add up.
async fn check(url: &str, sale: &str, acknowledged: &Acknowledged, kill: u64) {
    let mut operator = Client::new(url, Some(ADMIN_KEY)).unwrap();
    let orders = all_orders(&mut operator, sale).await;
    let lost: Vec<_> = acknowledged.lock().keys().filter(|id| !orders.contains_key(*id)).cloned().collect();
    assert_eq!(lost, Vec::<String>::new(), "acknowledged orders lost after kill {kill}");
    let mut units: HashMap<String, u64> = HashMap::new();
    let mut slots = std::collections::HashSet::new();
    for order in orders.values().filter(|order| order["state"] == "awaiting_payment") {
        *units.entry(order["user_id"].to_string()).or_default() += order["quantity"].as_u64().unwrap();
        for slot in order["units"].as_array().unwrap() {
            assert!(
                slots.insert(slot.as_u64().unwrap()),
                "slot {slot} has two active orders after kill {kill}"
            );
        }
    }
    assert!(units.values().all(|units| *units <= LIMIT), "a buyer exceeds the limit after kill {kill}");
    let shown = operator.expect(200, Method::GET, &format!("/v1/admin/sales/{sale}"), None).await.unwrap();
    let of = |name: &str| shown["counters"][name].as_u64().unwrap();
    assert_eq!((of("queued"), of("awaiting_payment")), (0, slots.len() as u64));
    assert_eq!(
        of("awaiting_payment") + of("paid") + of("available"),
        u64::from(STOCK),
        "after kill {kill}: {shown}"
    );
    let audit =
        operator.expect(200, Method::GET, &format!("/v1/admin/sales/{sale}/audit"), None).await.unwrap();
    assert_eq!(
        (&audit["ok"], &audit["drift"]["units"]),
        (&json!(true), &json!(0)),
        "after kill {kill}: {audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_lose_nothing_and_sell_nothing_twice() {
    kill_again_and_again(50).await;
}

/// Kills the server `kills` times under load, with a check after every tenth kill.
pub(crate) async fn kill_again_and_again(kills: u64) {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path()).await;
    let (sale, tokens) = set_up(server.url()).await;
    let (tokens, acknowledged) = (Arc::new(tokens), Acknowledged::default());
    let mut busy = 0;
    for kill in 1..=kills {
        let before = acknowledged.lock().len();
        let mut shoppers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let seed = chance.next(u64::MAX >> 33);
            let shopper =
                shop(server.url().to_owned(), sale.clone(), tokens.clone(), seed, acknowledged.clone());
            shoppers.spawn(shopper);
        }
        tokio::time::sleep(Duration::from_millis(1 + chance.next(150))).await;
        server.kill().await.unwrap();
        shoppers.join_all().await;
        busy += u64::from(acknowledged.lock().len() > before);
        server = start(directory.path()).await;
        if kill % 10 == 0 || kill == kills {
            check(server.url(), &sale, &acknowledged, kill).await;
        }
    }
    assert!(busy > kills / 2, "most kills must hit a busy server: {busy} did");
    assert!(server.stop().await.unwrap());
}
