//! Redis and PostgreSQL down, full, slow or read-only. Requests are answered in time and with a reason, nodes recover
//! by themselves, and no order answered with 201 is lost.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_rehearse::client::Client;
use tidegate_testing::servers::{Postgres, Redis, free_port};
use tidegate_testing::{eventually, eventually_within};
use tokio::process::Command;

use crate::world::{KEY, World, program};

/// Maximum duration of a request.
const IN_TIME: Duration = Duration::from_secs(12);

struct Shop {
    world: World,
    sale: String,
    tokens: Vec<String>,
    bought: usize,
}

impl Shop {
    async fn open(redis: &str) -> Self {
        let world = World::start(redis).await;
        let sale = world.open_sale(1000, Duration::from_secs(3600)).await;
        let tokens = world.tokens(900).await;
        Self { world, sale, tokens, bought: 0 }
    }

    /// Places an order as a new buyer; returns status and problem code.
    async fn order(&mut self) -> (u16, String) {
        let token = self.tokens.pop().unwrap();
        let mut buyer = Client::new(&self.world.urls[self.tokens.len() % 3], Some(&token)).unwrap();
        let begun = Instant::now();
        let path = format!("/v1/sales/{}/orders", self.sale);
        let answer = buyer.post(&path, &json!({"quantity": 1})).await.unwrap();
        assert!(begun.elapsed() < IN_TIME, "a request took {:?}", begun.elapsed());
        self.bought += usize::from(answer.status == 201);
        (answer.status, answer.code())
    }

    /// Waits until all nodes accept orders.
    async fn heals(&mut self) {
        let mut in_a_row = 0;
        eventually_within(Duration::from_secs(60), "six orders in a row are accepted", async || {
            let answer = self.order().await;
            in_a_row = if answer.0 == 201 { in_a_row + 1 } else { 0 };
            if in_a_row == 6 { Ok(()) } else { Err(answer) }
        })
        .await;
    }

    /// Checks that orders are not accepted during a fault, each with a suitable code.
    async fn refuses(&mut self, times: usize) {
        for _ in 0..times {
            let (status, code) = self.order().await;
            assert!(status == 503 || status == 202, "{status} {code}");
            assert!(["not_ready", "outcome_unknown", "busy", ""].contains(&code.as_str()), "{code}");
        }
    }

    /// Checks that the audit finds nothing and that no acknowledged order is lost.
    async fn is_sound(&self) {
        let mut operator = self.world.operator();
        eventually("the audit finds nothing", async || {
            let audit = operator.get(&format!("/v1/admin/sales/{}/audit", self.sale)).await.unwrap().json();
            let sound = audit["ok"] == true && audit["drift"]["units"] == 0 && audit["drift"]["queued"] == 0;
            if sound { Ok(()) } else { Err(audit) }
        })
        .await;
        let held = self.world.sale().await["counters"]["awaiting_payment"].as_u64().unwrap();
        assert!(held >= self.bought as u64, "{held} of {} orders are left", self.bought);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_failures_are_reported_and_survived() {
    let mut redis = Redis::start(&[]);
    let mut shop = Shop::open(&redis.url()).await;
    shop.heals().await;
    // Out of memory.
    redis.cli(&["config", "set", "maxmemory", "1"]);
    shop.refuses(3).await;
    redis.cli(&["config", "set", "maxmemory", "0"]);
    shop.heals().await;
    // Slower than the timeouts.
    redis.cli(&["client", "pause", "6000", "ALL"]);
    shop.refuses(3).await;
    shop.heals().await;
    // Read-only: turned into a replica.
    redis.cli(&["replicaof", "127.0.0.1", &free_port().to_string()]);
    shop.refuses(3).await;
    redis.cli(&["replicaof", "no", "one"]);
    shop.heals().await;
    // Scripts lost.
    redis.cli(&["script", "flush"]);
    shop.heals().await;
    // Down.
    redis.kill();
    shop.refuses(3).await;
    redis.restart();
    shop.heals().await;
    shop.is_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_failures_are_reported_and_survived() {
    let redis = Redis::start(&[]);
    let mut shop = Shop::open(&redis.url()).await;
    shop.heals().await;
    // Read-only.
    shop.world.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    shop.world.sql("SELECT pg_reload_conf()");
    tokio::time::sleep(Duration::from_secs(1)).await;
    shop.refuses(3).await;
    shop.world.sql("ALTER SYSTEM RESET default_transaction_read_only");
    shop.world.sql("SELECT pg_reload_conf()");
    shop.heals().await;
    // All connections are terminated, repeatedly.
    for _ in 0..3 {
        shop.world.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'",
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    shop.heals().await;
    // Slow: a lock on the table that every change writes to.
    let url = shop.world.postgres.url("tidegate");
    let mut holding = Command::new("psql")
        .args(["-d", &url, "-c", "BEGIN; LOCK TABLE outbox; SELECT pg_sleep(6); COMMIT"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    shop.refuses(1).await;
    holding.wait().await.unwrap();
    shop.heals().await;
    // Down.
    shop.world.postgres.stop();
    shop.refuses(3).await;
    shop.world.postgres.launch();
    shop.heals().await;
    shop.is_sound().await;
}

/// A node that cannot reach its servers starts, is not ready, and reports the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_servers_reports_what_is_missing() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let postgres = Postgres::start();
    let redis_port = free_port();
    let start = |database: &str| {
        Command::new(program())
            .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--database-url", database])
            .args(["--redis-url", &format!("redis://127.0.0.1:{redis_port}")])
            .env("TIDEGATE_ADMIN_KEY", KEY)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    };
    let mut node = start(&postgres.url("missing"));
    let says = async |word: &str| {
        let claim = format!("the node says {word}");
        let said = eventually(&claim, async || {
            let answer =
                Client::new(&url, None).unwrap().get("/readyz").await.map_err(|error| error.to_string())?;
            let said: Value = answer.json();
            let named = answer.status == 503 && said["detail"].as_str().unwrap_or("").contains(word);
            if named { Ok(said) } else { Err(said.to_string()) }
        });
        assert_eq!(said.await["code"], "not_ready");
    };
    says("missing").await;
    let ask = async |path: &str| Client::new(&url, None).unwrap().get(path).await.unwrap();
    assert_eq!(ask("/healthz").await.status, 200, "the process is alive");
    assert_eq!(ask("/v1/sales").await.code(), "not_ready");
    // The database exists now; Redis is still missing.
    postgres.create("missing");
    says("Redis").await;
    node.kill().await.unwrap();
    let mut node = start(&postgres.url("missing").replace("tidegate@", "nobody@"));
    says("nobody").await;
    node.kill().await.unwrap();
}
