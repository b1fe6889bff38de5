//! Several nodes with one Redis server and one ledger. A sale goes on while the server loses its data, restarts or
//! fails over to an old replica, or a recorder freezes. In the end exactly the stock is sold, no buyer has more than
//! one unit, and nothing is lost.
//!
//! The ledger is SQLite: this tests the protocol, not the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::cluster::stream::{StreamIntake, StreamOptions};
use tidegate_admission::gate::Gate;
use tidegate_admission::recorder;
use tidegate_admission::recorder::Listener;
use tidegate_core::{Campaign, Claim, Moment, OrderId, OrderState, Rejection};
use tidegate_ledger::Position;
use tidegate_ledger::{Actor, LedgerError, RecordOutcome, Records};
use tidegate_ledger::{NoObserver, SqlLedger, SqliteOptions};
use tidegate_testing::conformance::{CAMPAIGN, NOW, campaign, item, request};
use tidegate_testing::servers::redis as servers;

const STOCK: u32 = 600;
const BUYERS: u64 = 900;
const NODES: usize = 3;
const BUYER_TIMEOUT: Duration = Duration::from_secs(40);

/// The ledger of one node's recorder; `frozen` stops the recorder in the middle of a batch.
struct OnNode {
    ledger: Arc<SqlLedger>,
    frozen: Arc<AtomicBool>,
}

impl Records for OnNode {
    async fn record(
        &self,
        _: Position,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        while self.frozen.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.ledger.claims.record_from_stream(claims, now).await
    }

    async fn set_aside(
        &self,
        _: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<RecordOutcome, LedgerError> {
        self.ledger.claims.set_aside_from_stream(claim, why, None, now).await
    }
}

struct Quiet;

impl Listener for Quiet {
    fn recorded(&self, _: &[Arc<Claim>], _: &[RecordOutcome]) {}
    fn failing(&self, _: &LedgerError) {}
}

/// Three nodes that share a server and a ledger.
struct World {
    gates: Vec<Arc<RedisGate>>,
    ledger: Arc<SqlLedger>,
    frozen: Vec<Arc<AtomicBool>>,
    /// A claim was rejected with `not_ready`: reseed the gate.
    reseed: AtomicBool,
    orders: AtomicU64,
    told: AtomicU64,
    _directory: tempfile::TempDir,
}

impl World {
    async fn start(url: &str) -> Arc<Self> {
        Self::split(url, 1).await
    }

    /// The same with the stock split over so many shards.
    async fn split(url: &str, shards: u32) -> Arc<Self> {
        let directory = tempfile::tempdir().unwrap();
        let options =
            SqliteOptions { path: directory.path().join("ledger.db"), readers: 4, cache_mb: 8, max_mb: None };
        let ledger = Arc::new(SqlLedger::open(&options, Box::new(NoObserver)).unwrap());
        ledger.items.create(item(), Actor::Operator(None), None).await.unwrap();
        ledger
            .campaigns
            .create(Campaign { shards, ..campaign(STOCK, 1) }, vec![], Actor::Operator(None), None)
            .await
            .unwrap();
        let (mut gates, mut frozen) = (Vec::new(), Vec::new());
        for node in 0..NODES {
            let gate = Arc::new(RedisGate::new(Link::open(url).await.unwrap(), "", format!("node{node}")));
            let stopped = Arc::new(AtomicBool::new(false));
            for shard in 0..shards as usize {
                let options = StreamOptions {
                    campaign: CAMPAIGN,
                    shard,
                    consumer: format!("node {node}"),
                    dead_after: Duration::from_millis(400),
                    in_order: false,
                    appended: Arc::default(),
                    deferral: None,
                };
                let intake = StreamIntake::new(gate.clone(), options, 0);
                let records = Arc::new(OnNode { ledger: ledger.clone(), frozen: stopped.clone() });
                let progress = tokio::sync::watch::Sender::new(0);
                tokio::spawn(recorder::run(Arc::new(intake), records, Arc::new(Quiet), || NOW, progress));
            }
            gates.push(gate);
            frozen.push(stopped);
        }
        let world = Arc::new(Self {
            gates,
            ledger,
            frozen,
            reseed: AtomicBool::new(true),
            orders: AtomicU64::new(0),
            told: AtomicU64::new(0),
            _directory: directory,
        });
        tokio::spawn(world.clone().keep());
        world
    }

    /// The duty of one node under a lease: reseeds the gate when needed, and lets it follow the stock log.
    async fn keep(self: Arc<Self>) {
        let gate = &self.gates[0];
        loop {
            let Ok(figures) = gate.figures(CAMPAIGN).await else { continue };
            if figures.is_none() || self.reseed.swap(false, Ordering::SeqCst) {
                let seed = self.ledger.stock.reseed(CAMPAIGN, NOW).await.unwrap().unwrap();
                if gate.install(CAMPAIGN, seed).await.is_err() {
                    self.reseed.store(true, Ordering::SeqCst);
                }
            } else if let Some(figures) = figures {
                let entries = self.ledger.stock.log(CAMPAIGN, figures.applied, 100).await.unwrap();
                let _ = gate.follow(CAMPAIGN, &entries).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn sold(&self) -> u32 {
        let tally = self.ledger.campaigns.tally(CAMPAIGN).await.unwrap().unwrap();
        tally.awaiting_payment
    }

    /// Tries to buy one unit until the ledger has the order, or nothing is left.
    async fn buy(self: Arc<Self>, buyer: u64) {
        let deadline = Instant::now() + BUYER_TIMEOUT;
        while Instant::now() < deadline {
            let order = self.orders.fetch_add(1, Ordering::Relaxed) + 1;
            let gate = &self.gates[usize::try_from(order).unwrap() % NODES];
            match gate.claim(request(order, buyer, 1, 1)).await {
                Ok(_) => match self.outcome(order).await {
                    Some(OrderState::AwaitingPayment) => {
                        self.told.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    // Lost before it was recorded: try again.
                    _ => continue,
                },
                Err(Rejection::LimitReached) if self.has_order(buyer).await => return,
                Err(Rejection::SoldOut) if self.sold().await == STOCK => return,
                Err(Rejection::NotReady) => self.reseed.store(true, Ordering::SeqCst),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Whether the ledger has an active order of this buyer.
    async fn has_order(&self, buyer: u64) -> bool {
        let page = tidegate_ledger::Page { before: None, limit: 50 };
        let orders = self.ledger.orders.by_buyer(tidegate_core::UserId::from_raw(buyer), page).await.unwrap();
        orders.iter().any(|order| order.state == OrderState::AwaitingPayment)
    }

    /// The state of an order in the ledger, within a bound.
    async fn outcome(&self, order: u64) -> Option<OrderState> {
        for _ in 0..400 {
            if let Some(found) = self.ledger.orders.get(OrderId::from_raw(order)).await.unwrap() {
                return Some(found.state);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }
}

/// Runs a sale with all buyers at once, injects a fault in the middle, and checks the result.
async fn sell_through<F: Future<Output = ()>>(world: Arc<World>, fault: impl FnOnce() -> F) {
    let mut crowd = tokio::task::JoinSet::new();
    for buyer in 1..=BUYERS {
        crowd.spawn(world.clone().buy(buyer));
        if buyer % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if buyer == BUYERS / 3 {
            break;
        }
    }
    fault().await;
    for buyer in BUYERS / 3 + 1..=BUYERS {
        crowd.spawn(world.clone().buy(buyer));
    }
    crowd.join_all().await;
    assert_eq!(world.sold().await, STOCK, "exactly the stock is sold");
    assert!(world.told.load(Ordering::SeqCst) <= STOCK.into());
    let audit = world.ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!(audit.violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_sell_exactly_the_stock() {
    let server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    sell_through(world.clone(), async || {}).await;
    assert_eq!(world.told.load(Ordering::SeqCst), u64::from(STOCK), "every order was reported to its buyer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_server_is_reseeded_and_the_sale_goes_on() {
    let server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    sell_through(world, async || {
        server.cli(&["flushall"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_server_with_four_shards_is_reseeded_and_the_sale_goes_on() {
    let server = servers::Redis::start(&[]);
    let world = World::split(&server.url(), 4).await;
    sell_through(world, async || {
        server.cli(&["flushall"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_empty_is_reseeded_and_the_sale_goes_on() {
    let mut server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    sell_through(world, async || {
        server.kill();
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.restart();
    })
    .await;
}

/// A failover to a replica that lagged: the server has an older copy of its data.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_to_an_old_replica_sells_nothing_twice() {
    let mut server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    let sold = world.clone();
    sell_through(world, async || {
        server.cli(&["save"]);
        let before = sold.sold().await;
        let deadline = Instant::now() + Duration::from_secs(5);
        while sold.sold().await < before + 20 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.kill();
        server.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_recorders_entries_are_taken_over_and_recorded_once() {
    let server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    let frozen = world.frozen[1].clone();
    sell_through(world.clone(), async || {
        frozen.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1200)).await;
        frozen.store(false, Ordering::SeqCst);
    })
    .await;
    assert_eq!(world.told.load(Ordering::SeqCst), u64::from(STOCK));
}
