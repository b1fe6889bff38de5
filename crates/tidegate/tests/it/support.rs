//! A server in the test process with a manual clock, and requests that many tests share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::cluster;
use tidegate::config::{Config, Sources, load};
use tidegate::embedded::{self, OpenApp};
use tidegate::workers;
use tidegate_admission::embedded::journal::disk::{Disk, RealDisk};
use tidegate_app::App;
use tidegate_app::clock::Clock;
use tidegate_core::Moment;
use tidegate_rehearse::client::{Answer, Client};
use tidegate_testing::eventually;
use tidegate_testing::servers::{Postgres, Redis};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) const ADMIN_KEY: &str = "an-admin-key-for-tests";
pub(crate) const NOW: &str = "2026-05-01T10:00:00Z";

pub(crate) struct TestApp {
    pub(crate) app: Arc<App>,
    pub(crate) url: String,
    pub(crate) clock: Clock,
    pub(crate) operator: Client,
    opened: Arc<OpenApp>,
    /// How the program ended, if it was started `in_serve_mode`.
    pub(crate) ended: Option<JoinHandle<anyhow::Result<()>>>,
    directory: TempDir,
    settings: BTreeMap<String, String>,
}

/// Whether the server under test is a node on Redis and PostgreSQL.
fn wants_cluster() -> bool {
    std::env::var("TIDEGATE_TEST_ON").is_ok_and(|on| on == "cluster")
}

/// Adds the settings of a node with its own database and key prefix, on servers that all tests share.
fn on_cluster(settings: &mut BTreeMap<String, String>) {
    static SERVERS: OnceLock<(Redis, Postgres)> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (redis, postgres) = SERVERS.get_or_init(|| (Redis::start(&[]), Postgres::start()));
    let name = format!("it{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    // A restarted server keeps its database and prefix.
    if !settings.contains_key("TIDEGATE_DATABASE_URL") {
        settings.insert("TIDEGATE_DATABASE_URL".into(), postgres.create(&name));
        settings.insert("TIDEGATE_REDIS_URL".into(), redis.url());
        settings.insert("TIDEGATE__CLUSTER__PREFIX".into(), format!("{name}:"));
        settings.insert("TIDEGATE__LEDGER__READERS".into(), "2".into());
        settings.insert("TIDEGATE__LEDGER__WRITERS".into(), "2".into());
    }
}

/// Settings that differ from the defaults of the tests.
#[derive(Default)]
pub(crate) struct Builder {
    settings: BTreeMap<String, String>,
    disk: Option<Box<dyn Disk>>,
    workers: bool,
    system_clock: bool,
    in_serve_mode: bool,
}

impl Builder {
    pub(crate) fn with(mut self, variable: &str, value: &str) -> Self {
        self.settings.insert(variable.into(), value.into());
        self
    }

    pub(crate) fn on(mut self, disk: impl Disk) -> Self {
        self.disk = Some(Box::new(disk));
        self
    }

    /// Runs the background workers, on the system clock.
    pub(crate) fn alive(mut self) -> Self {
        self.workers = true;
        self.system_clock = true;
        self
    }

    /// Serves as `tidegate serve` does, on the system clock: see `TestApp::ended`.
    pub(crate) fn in_serve_mode(mut self) -> Self {
        self.in_serve_mode = true;
        self.system_clock = true;
        self
    }

    pub(crate) async fn start(self) -> TestApp {
        let clock =
            if self.system_clock { Clock::System } else { Clock::manual(NOW.parse::<Moment>().unwrap()) };
        self.start_in(tempfile::tempdir().unwrap(), clock).await
    }

    async fn start_in(self, directory: TempDir, clock: Clock) -> TestApp {
        let mut environment = self.settings.clone();
        if wants_cluster() {
            on_cluster(&mut environment);
        }
        let settings = environment.clone();
        let config = Self::config(environment, &directory);
        let disk = self.disk.unwrap_or(Box::new(RealDisk));
        let opened = if config.is_cluster() {
            let joined = cluster::join_with_clock(&config, clock.clone()).await.unwrap();
            workers::start_node(&joined.opened.app, joined.news);
            joined.opened
        } else {
            embedded::open_with_disk(&config, clock.clone(), disk).await.unwrap()
        };
        let (app, opened) = (opened.app.clone(), Arc::new(opened));
        let listener = TcpListener::bind(config.listen).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let operator = Client::new(&url, Some(ADMIN_KEY)).unwrap();
        let mut ended = None;
        if self.in_serve_mode {
            let opened = opened.clone();
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            let ready = move || ready.send(()).unwrap();
            ended = Some(tokio::spawn(async move {
                tidegate::cli::serve::serve(listener, &config, &opened, ready).await
            }));
            is_ready.await.unwrap();
        } else {
            app.start().await.unwrap();
            if self.workers {
                workers::start(&app);
            }
            let routes = tidegate::site::hot_routes(app.clone(), &config);
            tokio::spawn(tidegate::listener::serve(listener, routes, app.clone(), config.http.clone()));
        }
        TestApp { app, url, clock, operator, opened, ended, directory, settings }
    }

    fn config(mut environment: BTreeMap<String, String>, directory: &TempDir) -> Config {
        let mut set = |name: &str, value: &str| {
            environment.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        };
        set("TIDEGATE_LISTEN", "127.0.0.1:0");
        set("TIDEGATE_ADMIN_KEY", ADMIN_KEY);
        set("TIDEGATE_DEMO", "off");
        set("TIDEGATE_TEST_TOKENS", "true");
        set("TIDEGATE_DATA_DIR", directory.path().join("data").to_str().unwrap());
        set("TIDEGATE__JOURNAL__SEGMENT_MB", "1");
        set("TIDEGATE__JOURNAL__MAX_UNRECORDED", "20000");
        load(&Sources { environment, ..Sources::default() }).unwrap().0
    }
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Builder::default().start().await
    }

    pub(crate) fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) async fn item(&mut self) -> String {
        let item = json!({"name": "Lamp", "price": {"amount": 100, "currency": "CNY"}});
        let item = self.operator.expect(201, Method::POST, "/v1/admin/items", Some(&item)).await.unwrap();
        item["id"].as_str().unwrap().to_owned()
    }

    /// The terms of a sale that is open for an hour from now.
    pub(crate) async fn terms(&mut self, stock: u32, limit: u32) -> Value {
        let now = self.app.now();
        json!({
            "item_id": self.item().await, "price": {"amount": 9900, "currency": "CNY"}, "stock": stock,
            "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
            "per_user_limit": limit, "pay_within_s": 600,
        })
    }

    pub(crate) async fn draft(&mut self, terms: &Value) -> String {
        let sale = self.operator.expect(201, Method::POST, "/v1/admin/sales", Some(terms)).await.unwrap();
        assert_eq!(sale["state"], "draft");
        sale["id"].as_str().unwrap().to_owned()
    }

    /// Creates a live sale and returns its id.
    pub(crate) async fn sale(&mut self, stock: u32, limit: u32) -> String {
        let terms = self.terms(stock, limit).await;
        let sale = self.draft(&terms).await;
        self.step(&sale, "publish").await;
        sale
    }

    pub(crate) async fn step(&mut self, sale: &str, step: &str) -> Value {
        let path = format!("/v1/admin/sales/{sale}/{step}");
        self.operator.expect(200, Method::POST, &path, None).await.unwrap()
    }

    /// The terms of a draw that is open for an hour from now: 100 seats, 10 plays per user.
    pub(crate) fn draw_terms(&self, prizes: &Value) -> Value {
        let now = self.app.now();
        json!({
            "name": "A draw", "seats": 100, "plays_per_user": 10, "strategy": "whole", "prizes": prizes,
            "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        })
    }

    /// Creates a live draw with terms modified by `change`, and returns its id.
    pub(crate) async fn draw(&mut self, prizes: &Value, change: impl FnOnce(&mut Value)) -> String {
        let mut terms = self.draw_terms(prizes);
        change(&mut terms);
        let draw = self.operator.expect(201, Method::POST, "/v1/admin/draws", Some(&terms)).await.unwrap();
        let draw = draw["id"].as_str().unwrap().to_owned();
        self.step_draw(&draw, "publish").await;
        draw
    }

    pub(crate) async fn step_draw(&mut self, draw: &str, step: &str) -> Value {
        let path = format!("/v1/admin/draws/{draw}/{step}");
        self.operator.expect(200, Method::POST, &path, None).await.unwrap()
    }

    /// Sends all due deliveries and waits for their results.
    pub(crate) async fn deliver(&mut self) {
        self.recorded().await;
        eventually("no delivery is due or in progress", async || {
            !self.app.deliveries.dispatch().await.unwrap() && !self.app.deliveries.has_in_flight()
        })
        .await;
    }

    /// A direct connection to the ledger's SQLite file, for changes that the program would not make.
    pub(crate) fn raw_ledger(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.data_dir().join("ledger.db")).unwrap()
    }

    /// Restarts the server with a changed setting.
    pub(crate) async fn restart_with(mut self, variable: &str, value: &str) -> Self {
        self.settings.insert(variable.into(), value.into());
        self.restart().await
    }

    /// Restarts the server on the same data.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(|_| ()).await
    }

    /// Stops the server, does something to its data directory, and starts it again.
    pub(crate) async fn restart_after(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let (directory, settings, clock) = self.stop().await;
        meanwhile(&directory.path().join("data"));
        Builder { settings, ..Builder::default() }.start_in(directory, clock).await
    }

    /// Stops the server; returns what another start needs.
    async fn stop(self) -> (TempDir, BTreeMap<String, String>, Clock) {
        let Self { app, clock, directory, settings, opened, .. } = self;
        app.close();
        app.stop().await;
        let weak = Arc::downgrade(&app);
        drop((app, opened));
        // The last requests may still hold the app for a moment. The task of a node that listens to other nodes never
        // releases it.
        let listening = usize::from(wants_cluster());
        eventually("nothing holds the stopped server", async || match weak.strong_count() {
            holders if holders <= listening => Ok(()),
            holders => Err(holders),
        })
        .await;
        (directory, settings, clock)
    }

    pub(crate) async fn buyers(&mut self, count: u32) -> Vec<Client> {
        let count = json!({"count": count});
        let minted = self.operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&count)).await.unwrap();
        let tokens = minted["tokens"].as_array().unwrap().iter();
        tokens.map(|token| Client::new(&self.url, token.as_str()).unwrap()).collect()
    }

    pub(crate) async fn buyer(&mut self) -> Client {
        self.buyers(1).await.remove(0)
    }

    pub(crate) async fn counters(&mut self, sale: &str) -> Value {
        let path = format!("/v1/admin/sales/{sale}");
        self.operator.expect(200, Method::GET, &path, None).await.unwrap()["counters"].clone()
    }

    /// Waits until every acknowledged claim is recorded, according to the metrics.
    pub(crate) async fn recorded(&mut self) {
        eventually("every acknowledged claim is recorded", async || {
            let metrics = self.operator.get("/metrics").await.unwrap();
            tidegate_testing::metrics::is_recorded(&String::from_utf8_lossy(&metrics.body))
        })
        .await;
    }

    /// Waits for the recorder, then asserts that the audit finds nothing, and the numbers of units.
    pub(crate) async fn sound(&mut self, sale: &str, available: u32, awaiting: u32, paid: u32) {
        self.recorded().await;
        let audit = self.operator.get(&format!("/v1/admin/sales/{sale}/audit")).await.unwrap().json();
        assert_eq!((&audit["ok"], &audit["drift"]["units"]), (&json!(true), &json!(0)), "{audit}");
        let counters = self.counters(sale).await;
        let found = (&counters["available"], &counters["awaiting_payment"], &counters["paid"]);
        assert_eq!(found, (&json!(available), &json!(awaiting), &json!(paid)), "{counters}");
    }
}

pub(crate) async fn order(buyer: &mut Client, sale: &str, quantity: i64) -> Answer {
    buyer.post(&format!("/v1/sales/{sale}/orders"), &json!({"quantity": quantity})).await.unwrap()
}

/// Places an order that must be accepted; returns its id.
pub(crate) async fn bought(buyer: &mut Client, sale: &str, quantity: i64) -> String {
    let answer = order(buyer, sale, quantity).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn pay(buyer: &mut Client, order: &str) -> Answer {
    buyer.post(&format!("/v1/orders/{order}/pay"), &json!({"method": "sandbox"})).await.unwrap()
}

pub(crate) async fn cancel(buyer: &mut Client, order: &str) -> Answer {
    buyer.send(Method::POST, &format!("/v1/orders/{order}/cancel"), None, None).await.unwrap()
}

pub(crate) async fn state(buyer: &mut Client, order: &str) -> String {
    let answer = buyer.get(&format!("/v1/orders/{order}")).await.unwrap();
    answer.json()["state"].as_str().unwrap_or(&answer.code()).to_owned()
}

pub(crate) fn refused(answer: &Answer, status: u16, code: &str) {
    let said = String::from_utf8_lossy(&answer.body);
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{said}");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    if matches!(status, 429 | 503) {
        assert!(answer.headers.contains_key("retry-after"));
    }
}

/// The path of the built program.
pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tidegate"))
}
