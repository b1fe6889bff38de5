//! A cluster for one test: PostgreSQL, three nodes, and simulated buyers.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hyper::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tidegate_testing::eventually;
use tidegate_testing::servers::Postgres;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};

pub(crate) const KEY: &str = "the key of the operators";

/// Serializes the tests: two cores are not enough for two rehearsals.
static TURN: Mutex<()> = Mutex::const_new(());

/// Fields are dropped in order: nodes stop before PostgreSQL.
pub(crate) struct World {
    pub(crate) nodes: Vec<Option<Server>>,
    pub(crate) postgres: Postgres,
    pub(crate) urls: Vec<String>,
    redis: String,
    database: String,
    directory: TempDir,
    _turn: MutexGuard<'static, ()>,
}

pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_tidegate"))
}

impl World {
    /// Starts three nodes on this Redis and a private PostgreSQL.
    pub(crate) async fn start(redis: &str) -> Self {
        let turn = TURN.lock().await;
        let postgres = Postgres::start();
        let database = postgres.create("tidegate");
        let mut world = Self::without_nodes(turn, redis, postgres, database);
        for _ in 0..3 {
            world.add_node().await;
        }
        world
    }

    /// Starts one node that reaches PostgreSQL under the URL that `reached` returns.
    pub(crate) async fn start_one(
        redis: &str,
        postgres: impl FnOnce() -> Postgres,
        reached: impl FnOnce(&Postgres) -> String,
    ) -> Self {
        let turn = TURN.lock().await;
        let postgres = postgres();
        let database = reached(&postgres);
        let mut world = Self::without_nodes(turn, redis, postgres, database);
        world.add_node().await;
        world
    }

    fn without_nodes(
        turn: MutexGuard<'static, ()>,
        redis: &str,
        postgres: Postgres,
        database: String,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            postgres,
            nodes: Vec::new(),
            urls: Vec::new(),
            redis: redis.to_owned(),
            database,
            directory,
            _turn: turn,
        }
    }

    pub(crate) async fn add_node(&mut self) {
        let settings =
            [("TIDEGATE_DATABASE_URL", self.database.as_str()), ("TIDEGATE_REDIS_URL", self.redis.as_str())];
        let nowhere = self.directory.path().join("never made");
        let node = Server::start_in(&program(), &nowhere, KEY, &settings).await.unwrap();
        self.urls.push(node.url().to_owned());
        self.nodes.push(Some(node));
    }

    pub(crate) fn operator(&self) -> Client {
        Client::new(&self.urls.join(","), Some(KEY)).unwrap()
    }

    /// Creates a live sale and returns its id.
    pub(crate) async fn open_sale(&self, stock: usize, pay_within: Duration) -> String {
        let mut operator = self.operator();
        let price = json!({"amount": 100, "currency": "CNY"});
        let item = json!({"name": "Lamp", "price": price});
        let item = operator.expect(201, Method::POST, "/v1/admin/items", Some(&item)).await.unwrap();
        let (now, hour) = (Clock::System.now(), Duration::from_secs(3600));
        let sale = json!({
            "item_id": item["id"], "price": price, "stock": stock, "starts_at": now.to_string(),
            "ends_at": (now + hour).to_string(), "per_user_limit": 1, "pay_within_s": pay_within.as_secs(),
        });
        let sale = operator.expect(201, Method::POST, "/v1/admin/sales", Some(&sale)).await.unwrap();
        let id = sale["id"].as_str().unwrap().to_owned();
        operator.expect(200, Method::POST, &format!("/v1/admin/sales/{id}/publish"), None).await.unwrap();
        id
    }

    /// Creates buyers and returns their tokens.
    pub(crate) async fn tokens(&self, count: usize) -> Vec<String> {
        let mut operator = self.operator();
        let count = json!({"count": count});
        let minted = operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&count)).await.unwrap();
        let tokens = minted["tokens"].as_array().unwrap().iter();
        tokens.map(|token| token.as_str().unwrap().to_owned()).collect()
    }

    /// Starts a rehearsal whose buyers keep retrying during a fault.
    pub(crate) fn rehearse(&self, more: &[&str]) -> Child {
        let mut command = Command::new(program());
        command.args([
            "rehearse",
            "--json",
            "--patience",
            "100",
            "--admin-key",
            KEY,
            "--url",
            &self.urls.join(","),
        ]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    pub(crate) fn pid(&self, node: usize) -> Pid {
        let pid = self.nodes[node].as_ref().and_then(Server::pid).unwrap();
        Pid::from_raw(pid.cast_signed()).unwrap()
    }

    pub(crate) fn signal(&self, node: usize, signal: Signal) {
        kill_process(self.pid(node), signal).unwrap();
    }

    pub(crate) fn psql(&self, statement: &str) -> std::process::Command {
        let mut psql = std::process::Command::new("psql");
        psql.args(["-d", &self.postgres.url("tidegate"), "-At", "-c", statement]);
        psql
    }

    /// What a statement answers.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let done = self.psql(statement).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// The first sale of the operators' list.
    pub(crate) async fn sale(&self) -> Value {
        let mut operator = self.operator();
        let sales = operator.get("/v1/admin/sales").await.unwrap().json();
        sales["data"][0].clone()
    }

    /// Waits until this many units are sold, so that the following fault hits the middle of the sale.
    pub(crate) async fn wait_for_sold(&self, units: u64) {
        eventually(&format!("{units} units are sold"), async || {
            let counters = self.sale().await["counters"].clone();
            if counters["awaiting_payment"].as_u64().unwrap_or(0) >= units { Ok(()) } else { Err(counters) }
        })
        .await;
    }
}

/// Asserts that the rehearsal passes: nothing oversold, undersold or lost, no limit exceeded. Returns its report.
pub(crate) async fn passes(crowd: Child) -> Value {
    let output = crowd.wait_with_output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or(json!({"verdict": "none"}));
    assert_eq!(report["verdict"], "pass", "{report}");
    report
}
