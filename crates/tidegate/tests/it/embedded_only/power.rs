//! The real program on a disk that forgets what was not synced: its power is cut under load, first starts included. No
//! `201` is lost and no confirmed payment undone; after a failed sync the program ends, so that it is started again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tidegate_testing::power_cut::{Chance, PowerCutDisk, Rules};

use crate::support::{ADMIN_KEY, order, pay, program, state};

const BUYERS: u32 = 8;

/// What buyers were told: each order with the last state that was confirmed, and its buyer's token.
type Confirmed = Arc<Mutex<BTreeMap<String, (&'static str, String)>>>;

/// A disk with a shop on it.
struct World {
    disk: PowerCutDisk,
    sale: String,
    tokens: Vec<String>,
    confirmed: Confirmed,
}

async fn start(data_dir: PathBuf) -> Server {
    let settings = [("TIDEGATE__JOURNAL__SEGMENT_MB", "1"), ("TIDEGATE__JOURNAL__MAX_UNRECORDED", "2000")];
    Server::start_in(&program(), &data_dir, ADMIN_KEY, &settings).await.unwrap()
}

impl World {
    /// The first start, killed at some moment, and another one on what is left of it.
    async fn new(rules: Rules, chance: &mut Chance) -> (Self, Server) {
        let mut disk = PowerCutDisk::new(rules);
        let mut first = tokio::process::Command::new(program())
            .args(["serve", "--no-demo", "--data-dir"])
            .arg(disk.data_dir())
            .env("TIDEGATE_LISTEN", "127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(chance.below(400))).await;
        first.kill().await.unwrap();
        disk.cut(chance).await;
        let server = start(disk.data_dir()).await;
        let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
        let price = json!({"amount": 1, "currency": "CNY"});
        let item =
            operator.post("/v1/admin/items", &json!({"name": "Lamp", "price": price})).await.unwrap().json();
        let now = Clock::System.now();
        let terms = json!({
            "item_id": item["id"], "price": price, "stock": 100_000, "per_user_limit": 1000, "pay_within_s": 3600,
            "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        });
        let sale =
            operator.post("/v1/admin/sales", &terms).await.unwrap().json()["id"].as_str().unwrap().to_owned();
        operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
        let minted = operator.post("/v1/admin/tokens", &json!({"count": BUYERS})).await.unwrap().json();
        let tokens =
            minted["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned());
        let tokens = tokens.collect();
        (Self { disk, sale, tokens, confirmed: Confirmed::default() }, server)
    }

    /// Buyers order, pay and cancel until the server is killed at some moment and the power is cut.
    async fn cut_under_load(&mut self, server: Server, chance: &mut Chance) {
        let mut buyers = tokio::task::JoinSet::new();
        for token in &self.tokens {
            let shopping =
                shop(server.url().to_owned(), self.sale.clone(), token.clone(), self.confirmed.clone());
            buyers.spawn(shopping);
        }
        tokio::time::sleep(Duration::from_millis(20 + chance.below(500))).await;
        server.kill().await.unwrap();
        buyers.join_all().await;
        self.disk.cut(chance).await;
    }

    /// Everything that was confirmed is there.
    async fn check(&self, server: &Server) {
        let confirmed = self.confirmed.lock().clone();
        for (id, (expected, token)) in confirmed {
            let mut buyer = Client::new(server.url(), Some(&token)).unwrap();
            let found = state(&mut buyer, &id).await;
            // A payment or a cancellation that nobody heard of may have happened.
            let later: &[&str] = if expected == "awaiting_payment" { &["paid", "cancelled"] } else { &[] };
            assert!(
                found == expected || later.contains(&&*found),
                "order {id} was {expected} and is {found}"
            );
        }
        let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
        let audit =
            operator.expect(200, Method::GET, &format!("/v1/admin/sales/{}/audit", self.sale), None).await;
        let audit = audit.unwrap();
        assert_eq!((&audit["ok"], &audit["drift"]["units"]), (&json!(true), &json!(0)), "{audit}");
    }
}

async fn shop(url: String, sale: String, token: String, confirmed: Confirmed) {
    let mut buyer = Client::new(&url, Some(&token)).unwrap();
    loop {
        let path = format!("/v1/sales/{sale}/orders");
        let Ok(answer) = buyer.post(&path, &json!({"quantity": 1})).await else { return };
        if answer.status != 201 {
            continue;
        }
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        confirmed.lock().insert(id.clone(), ("awaiting_payment", token.clone()));
        let (answer, then) = match id.as_bytes().last().map_or(0, |byte| byte % 3) {
            0 => continue,
            1 => (buyer.post(&format!("/v1/orders/{id}/pay"), &json!({"method": "sandbox"})).await, "paid"),
            _ => {
                (buyer.send(Method::POST, &format!("/v1/orders/{id}/cancel"), None, None).await, "cancelled")
            }
        };
        let Ok(answer) = answer else { return };
        if answer.status == 200 {
            confirmed.lock().insert(id, (then, token.clone()));
        }
    }
}

/// Cuts the power so many times: on each disk once in the first start and three times under load.
pub(crate) async fn cut_again_and_again(cuts: u64) {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let mut confirmed = 0;
    for round in 0..cuts.div_ceil(4) {
        let rules = if round % 2 == 0 { Rules::Strict } else { Rules::Ext4 };
        let (mut world, mut server) = World::new(rules, &mut chance).await;
        for _ in 0..3 {
            world.cut_under_load(server, &mut chance).await;
            server = start(world.disk.data_dir()).await;
            world.check(&server).await;
        }
        confirmed += world.confirmed.lock().len();
        server.kill().await.unwrap();
    }
    println!("{cuts} cuts, {confirmed} confirmed orders, none lost");
    assert!(confirmed > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_power_cuts_lose_nothing_and_undo_nothing() {
    cut_again_and_again(32).await;
}

/// Once for the journal's sync, which an order waits for, and once for SQLite's, which a payment waits for.
#[tokio::test(flavor = "multi_thread")]
async fn when_a_sync_fails_the_program_answers_ends_and_starts_again() {
    let (world, mut server) = World::new(Rules::Ext4, &mut Chance(7)).await;
    for fails_first in ["order", "payment"] {
        let mut buyer = Client::new(server.url(), Some(&world.tokens[0])).unwrap();
        let kept = order(&mut buyer, &world.sale, 1).await;
        assert_eq!(kept.status, 201);
        let kept = kept.json()["id"].as_str().unwrap().to_owned();
        world.disk.fail_syncs(true);
        let answer = match fails_first {
            "order" => order(&mut buyer, &world.sale, 1).await,
            _ => pay(&mut buyer, &kept).await,
        };
        assert_eq!(answer.status, 503, "it is answered: {:?}", answer.body);
        let ended = tokio::time::timeout(Duration::from_secs(30), server.ended()).await.unwrap().unwrap();
        assert_eq!(ended, Some(2), "after a failing {fails_first}");
        world.disk.fail_syncs(false);
        server = start(world.disk.data_dir()).await;
        let mut buyer = Client::new(server.url(), Some(&world.tokens[0])).unwrap();
        let found = state(&mut buyer, &kept).await;
        assert!(["awaiting_payment", "paid"].contains(&&*found), "{found}");
    }
    server.kill().await.unwrap();
}
