//! Redis or PostgreSQL fall silent in the middle of a sale: no answer, no reset, as behind a firewall or after the loss
//! of a host. The node says so within two seconds, refuses orders at once, and sells again within two seconds after
//! the silence; connections that fell silent are replaced where new ones work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use parking_lot::Mutex;
use serde_json::json;
use tidegate_rehearse::client::Client;
use tidegate_testing::chaos_proxy::{ChaosProxy, Fault};
use tidegate_testing::network::Network;
use tidegate_testing::servers::redis::{Watched, cluster_behind_proxies};
use tidegate_testing::servers::{Postgres, Redis};
use tidegate_testing::{eventually, eventually_within};
use tokio::task::JoinHandle;

use crate::world::World;

// At least twice what is promised: nodes, servers and buyers share the two cores of a test machine.

/// The bound for "not ready" after the silence has begun, and for "ready" after it has ended.
const NOTICED_WITHIN: Duration = Duration::from_secs(4);
/// The bound for the first order after the silence has ended.
const SELLS_WITHIN: Duration = Duration::from_secs(6);
/// Longer than the server's own time-outs, so that every kind of call is tried during the silence.
const SILENCE: Duration = Duration::from_secs(12);
/// The bound for the answer to any order, and for a refusal while the node is not ready.
const ANSWERED_WITHIN: Duration = Duration::from_secs(7);
const REFUSED_WITHIN: Duration = Duration::from_secs(1);
/// Buyers, each with one connection; they order one after the other.
const BUYERS: usize = 4;

/// An order that was answered.
#[derive(Clone, Debug)]
struct Attempt {
    begun: Instant,
    took: Duration,
    status: u16,
    code: String,
    has_retry_after: bool,
}

/// One node and buyers who never stop ordering.
struct Sale {
    world: World,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    is_over: Arc<AtomicBool>,
    buyers: Vec<JoinHandle<()>>,
}

impl Sale {
    async fn open(redis: &str, postgres: &ChaosProxy, server: Postgres) -> Self {
        let database = format!("postgres://tidegate@127.0.0.1:{}/tidegate", postgres.port());
        Self::begin(World::start_one(redis, || server, |_| database).await).await
    }

    async fn begin(world: World) -> Self {
        let id = world.open_sale(20_000, Duration::from_secs(3600)).await;
        let tokens = world.tokens(4000).await;
        let (attempts, is_over) = (Arc::<Mutex<Vec<Attempt>>>::default(), Arc::<AtomicBool>::default());
        let path = format!("/v1/sales/{id}/orders");
        let buyers = tokens.chunks(tokens.len() / BUYERS).map(|tokens| {
            let (attempts, is_over, path) = (attempts.clone(), is_over.clone(), path.clone());
            let (tokens, mut client) = (tokens.to_vec(), Client::new(&world.urls[0], None).unwrap());
            tokio::spawn(async move {
                for token in tokens {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let attempt = attempt(&mut client, &token, &path).await;
                    attempts.lock().push(attempt);
                    // A buyer's pace, not a wait.
                    tokio::time::sleep(Duration::from_millis(40)).await;
                }
            })
        });
        let sale = Self { buyers: buyers.collect(), world, attempts, is_over };
        sale.sells(Instant::now(), Duration::from_secs(30)).await;
        sale
    }

    /// Waits until an order that began after this moment is accepted; returns how long that took.
    async fn sells(&self, since: Instant, within: Duration) -> Duration {
        eventually_within(within, "an order is accepted", async || {
            let attempts = self.attempts.lock();
            let mut later = attempts.iter().filter(|attempt| attempt.begun >= since);
            let sold = later.find(|attempt| attempt.status == 201);
            sold.map(|sold| sold.begun + sold.took - since).ok_or_else(|| attempts.last().cloned())
        })
        .await
    }

    /// Waits until the node is ready, or not because of this part; returns how long that took.
    async fn is_ready(&self, part: Option<&str>, within: Duration) -> Duration {
        let (mut client, since) = (Client::new(&self.world.urls[0], None).unwrap(), Instant::now());
        eventually_within(within, &format!("readiness without {part:?}"), async || {
            let answer = client.get("/readyz").await.unwrap();
            let detail = answer.json()["detail"].as_str().unwrap_or("").to_owned();
            let as_expected = match part {
                None => answer.status == 200,
                Some(part) => answer.status == 503 && detail.contains(part),
            };
            if as_expected { Ok(since.elapsed()) } else { Err((answer.status, detail)) }
        })
        .await
    }

    /// The open connections fall silent, new ones work.
    async fn survives_silent_connections(&self, server: &str, silence: impl FnOnce()) {
        let begun = Instant::now();
        silence();
        let sold = self.sells(begun, SELLS_WITHIN).await;
        self.is_ready(None, NOTICED_WITHIN).await;
        eprintln!("{server}: silent connections, sells again after {sold:?}");
        self.are_answered_in_time(begun);
    }

    /// The server falls silent for a while.
    async fn survives_silent_server(
        &self,
        server: &str,
        part: &str,
        silence: impl FnOnce(),
        end: impl FnOnce(),
    ) {
        let begun = Instant::now();
        silence();
        let noticed = self.is_ready(Some(part), NOTICED_WITHIN).await;
        let noticed_at = Instant::now();
        tokio::time::sleep(SILENCE.saturating_sub(begun.elapsed())).await;
        let ended = Instant::now();
        {
            let attempts = self.attempts.lock();
            let during: Vec<_> = attempts.iter().filter(|attempt| attempt.begun >= noticed_at).collect();
            assert!(during.len() > 20, "buyers get their answers at once: {} answers", during.len());
            for attempt in during {
                let is_refusal = attempt.code == "not_ready" && attempt.status == 503;
                assert!(is_refusal && attempt.has_retry_after, "{attempt:?}");
                assert!(attempt.took < REFUSED_WITHIN, "{attempt:?}");
            }
        }
        end();
        let ready = self.is_ready(None, NOTICED_WITHIN).await;
        let sold = self.sells(ended, SELLS_WITHIN).await;
        eprintln!(
            "{server}: not ready after {noticed:?}; after the end ready in {ready:?}, sold in {sold:?}"
        );
        self.are_answered_in_time(begun);
    }

    fn are_answered_in_time(&self, since: Instant) {
        let attempts = self.attempts.lock();
        let slowest = attempts.iter().filter(|attempt| attempt.begun + attempt.took >= since);
        let slowest = slowest.max_by_key(|attempt| attempt.took).unwrap();
        eprintln!("the slowest answer: {slowest:?}");
        assert!(slowest.took < ANSWERED_WITHIN, "{slowest:?}");
    }

    /// Nothing that was answered with 201 is missing, and gate and ledger agree.
    async fn ends_sound(self) {
        self.is_over.store(true, Ordering::Release);
        for buyer in self.buyers {
            buyer.await.unwrap();
        }
        let sale = self.world.sale().await["id"].as_str().unwrap().to_owned();
        let mut operator = self.world.operator();
        eventually("the audit finds nothing", async || {
            let path = format!("/v1/admin/sales/{sale}/audit");
            let audit =
                operator.expect(200, Method::GET, &path, None).await.map_err(|e| json!(e.to_string()))?;
            let sound = audit["ok"] == true && audit["drift"]["units"] == 0 && audit["drift"]["queued"] == 0;
            if sound { Ok(()) } else { Err(audit) }
        })
        .await;
        let bought = self.attempts.lock().iter().filter(|attempt| attempt.status == 201).count();
        let held = self.world.sale().await["counters"]["awaiting_payment"].as_u64().unwrap();
        assert!(held >= bought as u64, "{held} of {bought} orders are left");
    }
}

async fn attempt(client: &mut Client, token: &str, path: &str) -> Attempt {
    let begun = Instant::now();
    let body = Some(json!({"quantity": 1}).to_string());
    let answer = client.send_as(token, Method::POST, path, body, None).await.unwrap();
    Attempt {
        begun,
        took: begun.elapsed(),
        status: answer.status,
        code: answer.code(),
        has_retry_after: answer.headers.contains_key("retry-after"),
    }
}

fn postgres() -> (Postgres, ChaosProxy) {
    let server = Postgres::start();
    server.create("tidegate");
    let proxy = ChaosProxy::to_port(server.port);
    (server, proxy)
}

async fn survives_silence_of_redis(kind: &str, url: &str, proxies: &[ChaosProxy]) {
    let (server, proxy) = postgres();
    let sale = Sale::open(url, &proxy, server).await;
    let all = |fault| proxies.iter().for_each(|proxy| proxy.set(fault));
    let open = |fault| proxies.iter().for_each(|proxy| proxy.set_open(fault));
    sale.survives_silent_connections(kind, || open(Fault::Stall)).await;
    sale.survives_silent_server(kind, "gate", || all(Fault::Stall), || all(Fault::None)).await;
    sale.ends_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_of_redis_is_noticed_and_survived() {
    let redis = Redis::start(&[]);
    let proxy = ChaosProxy::to_port(redis.port);
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    survives_silence_of_redis("Redis", &url, &[proxy]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_of_a_primary_under_sentinels_is_noticed_and_survived() {
    let (watched, proxy) = Watched::start_behind_proxy();
    survives_silence_of_redis("Redis under a sentinel", &watched.url(), &[proxy]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_of_a_redis_cluster_is_noticed_and_survived() {
    let (_nodes, proxies) = cluster_behind_proxies();
    let urls: Vec<_> = proxies.iter().map(|proxy| format!("redis://127.0.0.1:{}", proxy.port())).collect();
    survives_silence_of_redis("Redis Cluster", &urls.join(","), &proxies).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_of_postgres_is_noticed_and_survived() {
    let redis = Redis::start(&[]);
    let (server, proxy) = postgres();
    let sale = Sale::open(&redis.url(), &proxy, server).await;
    sale.survives_silent_connections("PostgreSQL", || proxy.set_open(Fault::Stall)).await;
    let (stall, end) = (|| proxy.set(Fault::Stall), || proxy.set(Fault::None));
    sale.survives_silent_server("PostgreSQL", "ledger", stall, end).await;
    sale.ends_sound().await;
}

/// Packets are really dropped: the servers run in network namespaces of their own.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_packets_are_noticed_and_survived() {
    let (near_redis, near_postgres) = (Network::start(), Network::start());
    let redis = near_redis.run(|| Redis::start(&["--bind", "0.0.0.0", "--protected-mode", "no"]));
    let url = format!("redis://{}:{}", near_redis.address(), redis.port);
    let start = || {
        near_postgres.run(|| {
            let server = Postgres::start_with("-c fsync=off -c listen_addresses=*");
            server.create("tidegate");
            server.admit("198.18.0.0/15");
            server
        })
    };
    let reached =
        |server: &Postgres| server.url("tidegate").replace("127.0.0.1", &near_postgres.address().to_string());
    let sale = Sale::begin(World::start_one(&url, start, reached).await).await;
    for (server, part, network) in [("Redis", "gate", &near_redis), ("PostgreSQL", "ledger", &near_postgres)]
    {
        let name = format!("{server} behind dropped packets");
        let (drop, forward) = (|| network.drop_packets(), || network.forward_packets());
        sale.survives_silent_server(&name, part, drop, forward).await;
    }
    sale.ends_sound().await;
}
