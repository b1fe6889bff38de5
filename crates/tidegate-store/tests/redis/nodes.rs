//! Several nodes on one Redis, with one ledger: a sale goes on while the server forgets, restarts, wakes up with an old copy,
//! or a recorder freezes, and in the end exactly the stock is sold, nobody has more than one, and nothing is lost.
//!
//! The ledger is the embedded one here: what is tested is the agreement, not the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{Campaign, Claim, Moment, OrderId, OrderState, Rejection};
use tidegate_store::conformance::{CAMPAIGN, NOW, campaign, item, request};
use tidegate_store::gate::Gate;
use tidegate_store::gate::redis::RedisGate;
use tidegate_store::intake::Position;
use tidegate_store::intake::stream::{StreamIntake, StreamOptions};
use tidegate_store::ledger::sql::{SqlLedger, SqliteOptions, Unobserved};
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Recorded, Records};
use tidegate_store::recorder::{self, Listener};
use tidegate_store::redis_link::Link;

use tidegate_servers::redis as servers;

const STOCK: u32 = 600;
const BUYERS: u64 = 900;
const NODES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(40);

/// The ledger as a recorder on some node sees it; `frozen` stops this node's recorder in the middle of a batch.
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
    ) -> Result<Vec<Recorded>, LedgerError> {
        while self.frozen.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.ledger.record_unplaced(claims, now).await
    }

    async fn set_aside(
        &self,
        _: Position,
        claim: Arc<Claim>,
        why: String,
        now: Moment,
    ) -> Result<Recorded, LedgerError> {
        self.ledger.set_aside_unplaced(claim, why, None, now).await
    }
}

struct Quiet;

impl Listener for Quiet {
    fn recorded(&self, _: &[Arc<Claim>], _: &[Recorded]) {}
    fn failing(&self, _: &LedgerError) {}
}

/// Three nodes that share a server and a ledger.
struct World {
    gates: Vec<Arc<RedisGate>>,
    ledger: Arc<SqlLedger>,
    frozen: Vec<Arc<AtomicBool>>,
    /// Somebody was told that the gate is not ready.
    asked: AtomicBool,
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
        let ledger = Arc::new(SqlLedger::open(&options, Box::new(Unobserved)).unwrap());
        ledger.create_item(item(), Actor::Operator(None), None).await.unwrap();
        ledger
            .create_campaign(Campaign { shards, ..campaign(STOCK, 1) }, vec![], Actor::Operator(None), None)
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
                    rush: None,
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
            asked: AtomicBool::new(true),
            orders: AtomicU64::new(0),
            told: AtomicU64::new(0),
            _directory: directory,
        });
        tokio::spawn(world.clone().keep());
        world
    }

    /// What one node does for all of them under a lease: reseeds what forgot, lets the gate follow the log.
    async fn keep(self: Arc<Self>) {
        let gate = &self.gates[0];
        loop {
            let Ok(figures) = gate.figures(CAMPAIGN).await else { continue };
            if figures.is_none() || self.asked.swap(false, Ordering::SeqCst) {
                let seed = self.ledger.reseed(CAMPAIGN, NOW).await.unwrap().unwrap();
                if gate.install(CAMPAIGN, seed).await.is_err() {
                    self.asked.store(true, Ordering::SeqCst);
                }
            } else if let Some(figures) = figures {
                let entries = self.ledger.stock_log(CAMPAIGN, figures.applied, 100).await.unwrap();
                let _ = gate.follow(CAMPAIGN, &entries).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn sold(&self) -> u32 {
        let tally = self.ledger.tally(CAMPAIGN).await.unwrap().unwrap();
        tally.awaiting_payment
    }

    /// Buys one unit, as stubbornly as people are: told yes only once the ledger has it.
    async fn buy(self: Arc<Self>, buyer: u64) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let order = self.orders.fetch_add(1, Ordering::Relaxed) + 1;
            let gate = &self.gates[usize::try_from(order).unwrap() % NODES];
            match gate.claim(request(order, buyer, 1, 1)).await {
                Ok(_) => match self.fate(order).await {
                    Some(OrderState::AwaitingPayment) => {
                        self.told.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    // Lost before it was recorded: said so, and tried again.
                    _ => continue,
                },
                Err(Rejection::LimitReached) if self.has_order(buyer).await => return,
                Err(Rejection::SoldOut) if self.sold().await == STOCK => return,
                Err(Rejection::NotReady) => self.asked.store(true, Ordering::SeqCst),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Whether a buyer has an active order, whatever they were told.
    async fn has_order(&self, buyer: u64) -> bool {
        let page = tidegate_store::ledger::Page { before: None, limit: 50 };
        let orders = self.ledger.orders_of(tidegate_core::UserId::from_raw(buyer), page).await.unwrap();
        orders.iter().any(|order| order.state == OrderState::AwaitingPayment)
    }

    /// What the ledger made of an order, within a bound.
    async fn fate(&self, order: u64) -> Option<OrderState> {
        for _ in 0..400 {
            if let Some(found) = self.ledger.order(OrderId::from_raw(order)).await.unwrap() {
                return Some(found.state);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }
}

/// Runs a sale with everybody at once, breaks something in the middle, and looks at what is left.
async fn sell_through<F: Future<Output = ()>>(world: Arc<World>, trouble: impl FnOnce() -> F) {
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
    trouble().await;
    for buyer in BUYERS / 3 + 1..=BUYERS {
        crowd.spawn(world.clone().buy(buyer));
    }
    crowd.join_all().await;
    assert_eq!(world.sold().await, STOCK, "sold out, and not more");
    assert!(world.told.load(Ordering::SeqCst) <= STOCK.into());
    let audit = world.ledger.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!(audit.violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_sell_exactly_the_stock() {
    let server = servers::Redis::start(&[]);
    let world = World::start(&server.url()).await;
    sell_through(world.clone(), async || {}).await;
    assert_eq!(world.told.load(Ordering::SeqCst), u64::from(STOCK), "everybody who got one was told");
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

/// What a failover to a replica that lagged looks like: the server is as it was a moment ago.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wakes_up_with_an_old_copy_sells_nothing_twice() {
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
