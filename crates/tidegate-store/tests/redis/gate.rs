//! The Redis gate: the conformance suite on one server and on a cluster, the script against the core step by step, and what
//! it does when the server forgets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_core::draw::{Grant, PrizeKind, Strategy as Dealing};
use tidegate_core::pool::Door;
use tidegate_core::{
    Claim, ClaimRequest, Draw, Moment, PassRules, Prize, PrizeSeed, Rejection, Seed, Shown, StockChange,
    StockEntry, Wanted,
};
use tidegate_store::conformance::gate::seed;
use tidegate_store::conformance::{self, CAMPAIGN, NOW, request, user};
use tidegate_store::gate::Gate;
use tidegate_store::gate::memory::MemoryGate;
use tidegate_store::gate::redis::RedisGate;
use tidegate_store::intake::Intake;
use tidegate_store::intake::stream::{StreamIntake, StreamOptions};
use tidegate_store::redis_link::Link;

use tidegate_servers::redis as servers;

/// Each gate has keys of its own.
fn gate(link: &Link) -> RedisGate {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    RedisGate::new(link.clone(), format!("test{}:", NUMBER.fetch_add(1, Ordering::Relaxed)), "one")
}

fn reader(gate: RedisGate, consumer: &str, dead_after: Duration, recorded: u64) -> StreamIntake {
    let options = StreamOptions {
        campaign: CAMPAIGN,
        shard: 0,
        consumer: consumer.into(),
        dead_after,
        in_order: false,
        appended: Arc::default(),
        rush: None,
    };
    StreamIntake::new(Arc::new(gate), options, recorded)
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_gate_conforms() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    conformance::gate::all(async || gate(&link)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_intake_conforms() {
    static READER: AtomicU32 = AtomicU32::new(0);
    let server = servers::Redis::start(&[]);
    conformance::intake::all(async |name, recorded| {
        // A reader who comes back is another reader, and takes over at once what the first left.
        let consumer = format!("reader {}", READER.fetch_add(1, Ordering::Relaxed));
        let gate = RedisGate::new(Link::open(&server.url()).await.unwrap(), name, "one");
        reader(gate, &consumer, Duration::ZERO, recorded)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_gate_conforms_on_a_cluster() {
    let nodes = servers::cluster();
    let urls: Vec<String> = nodes.iter().map(servers::Redis::url).collect();
    let link = Link::open(&urls.join(",")).await.unwrap();
    conformance::gate::all(async || gate(&link)).await;
}

#[tokio::test]
async fn a_granted_claim_is_in_the_stream_in_the_same_step() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(3)).await.unwrap();
    let first = gate.claim(request(1, 1, 2, 2)).await.unwrap();
    assert_eq!(gate.claim(request(2, 1, 1, 2)).await, Err(Rejection::LimitReached));
    let second = gate.claim(request(3, 2, 1, 2)).await.unwrap();
    let intake = reader(gate, "one", Duration::from_secs(10), 0);
    let (position, claims) = intake.next(10).await;
    assert_eq!(
        (position, claims),
        (1, vec![Arc::new(first), Arc::new(second)]),
        "granted ones only, in their order"
    );
}

#[tokio::test]
async fn a_server_that_forgot_is_not_believed_until_the_pool_is_installed_again() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(10)).await.unwrap();
    for buyer in 1..=3 {
        gate.claim(request(buyer, buyer, 1, 1)).await.unwrap();
    }
    // The keys are gone.
    server.cli(&["flushall"]);
    assert_eq!(gate.claim(request(4, 4, 1, 1)).await, Err(Rejection::NotReady));
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap(), None);
    // They are back as they were before the last claims: a failover to a replica that lagged.
    gate.install(CAMPAIGN, Seed { epoch: 2, ..seed(10) }).await.unwrap();
    gate.claim(request(5, 5, 1, 1)).await.unwrap();
    let tag = gate.intake_key(CAMPAIGN, 0).replace(":intake", ":pool");
    server.cli(&["hset", &tag, "version", "0"]);
    assert_eq!(gate.claim(request(6, 6, 1, 1)).await, Err(Rejection::NotReady), "less than was seen");
    gate.install(CAMPAIGN, Seed { epoch: 3, taken: vec![1], ..seed(10) }).await.unwrap();
    assert_eq!(gate.claim(request(7, 7, 1, 1)).await.unwrap().slots.to_string(), "2");
}

#[tokio::test]
async fn a_script_the_server_has_lost_is_loaded_again() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(2)).await.unwrap();
    gate.claim(request(1, 1, 1, 1)).await.unwrap();
    server.cli(&["script", "flush"]);
    assert!(gate.claim(request(2, 2, 1, 1)).await.is_ok());
}

/// The first call is given up after two seconds, and was carried out all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_and_nothing_is_decided_twice() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(3)).await.unwrap();
    gate.claim(request(1, 1, 1, 3)).await.unwrap();
    server.cli(&["client", "pause", "2500", "all"]);
    let claim = gate.claim(request(2, 1, 1, 3)).await.unwrap();
    assert_eq!(
        (claim.slots.to_string().as_str(), gate.figures(CAMPAIGN).await.unwrap().unwrap().free),
        ("2", 1)
    );
    assert_eq!(server.cli(&["xlen", &gate.intake_key(CAMPAIGN, 0)]).trim(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_not_waited_for_and_found_again() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(5)).await.unwrap();
    server.cli(&["client", "pause", "8000", "all"]);
    let started = std::time::Instant::now();
    assert_eq!(gate.claim(request(1, 1, 1, 1)).await, Err(Rejection::NotReady));
    assert!(started.elapsed() < Duration::from_secs(7), "bounded: {:?}", started.elapsed());
    let found = async {
        for order in 2.. {
            if gate.claim(request(order, order, 1, 1)).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("it is found again");
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_set_aside_and_the_others_come_out() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&Link::open(&server.url()).await.unwrap());
    let key = gate.intake_key(CAMPAIGN, 0);
    let dead = format!("{key}:dead");
    let intake = reader(gate, "one", Duration::from_secs(10), 0);
    intake.append(conformance::claim(1, 1, &[1])).await.unwrap();
    server.cli(&["xadd", &key, "*", "c", "nonsense"]);
    intake.append(conformance::claim(2, 2, &[2])).await.unwrap();
    let (first, claims) = intake.next(10).await;
    assert_eq!((first, claims.iter().map(|claim| claim.id.raw()).collect::<Vec<_>>()), (1, vec![1, 2]));
    intake.recorded(2).await;
    assert_eq!((server.cli(&["xlen", &key]).trim(), server.cli(&["xlen", &dead]).trim()), ("0", "1"));
    assert!(server.cli(&["xrange", &dead, "-", "+"]).contains("why"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_sentinels_replace_is_followed() {
    let mut servers = servers::Watched::start();
    let link = Link::open(&servers.url()).await.unwrap();
    conformance::gate::all(async || gate(&link)).await;
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(3)).await.unwrap();
    let first = gate.claim(request(1, 1, 1, 1)).await.unwrap();
    servers.primary.kill();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The replica takes over, with whatever it has; a new epoch is installed there.
    let seed = Seed { epoch: 2, taken: first.slots.iter().collect(), ..seed(3) };
    while gate.install(CAMPAIGN, seed.clone()).await.is_err() {
        assert!(Instant::now() < deadline, "nobody took over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(gate.claim(request(2, 2, 1, 1)).await.is_ok());
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 1);
    assert!(servers.replica.cli(&["info", "replication"]).contains("role:master"));
}

#[tokio::test]
async fn a_seed_that_comes_late_or_twice_brings_nothing_back() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, Seed { epoch: 2, ..seed(2) }).await.unwrap();
    gate.claim(request(1, 1, 1, 1)).await.unwrap();
    for epoch in [2, 1] {
        assert!(gate.install(CAMPAIGN, Seed { epoch, ..seed(2) }).await.is_err(), "epoch {epoch}");
        assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 1, "epoch {epoch}");
    }
}

/// Everybody who asks gets one while there is one, wherever it lies; then nobody does.
async fn sells_exactly(gates: Vec<RedisGate>, stock: u32) {
    let gates = Arc::new(gates);
    let mut crowd = tokio::task::JoinSet::new();
    for buyer in 0..u64::from(stock) {
        let gates = gates.clone();
        crowd.spawn(async move {
            let gate = &gates[usize::try_from(buyer).unwrap() % gates.len()];
            loop {
                match gate.claim(request(buyer + 1, buyer + 1, 1, 1)).await {
                    Ok(claim) => return Some(claim.slots.iter().next().unwrap()),
                    Err(Rejection::SoldOut) => return None,
                    Err(Rejection::Busy) => tokio::time::sleep(Duration::from_millis(2)).await,
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    let mut sold: Vec<u32> = crowd.join_all().await.into_iter().flatten().collect();
    sold.sort_unstable();
    assert!(sold.iter().copied().eq(1..=stock), "every slot once: {} of {stock}", sold.len());
    assert_eq!(gates[0].figures(CAMPAIGN).await.unwrap().unwrap().free, 0);
    assert_eq!(gates[0].claim(request(999_999, 999_999, 1, 1)).await, Err(Rejection::SoldOut));
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_shards_on_three_masters_sell_exactly_the_stock_from_two_nodes() {
    let nodes = servers::cluster();
    let urls: Vec<String> = nodes.iter().map(servers::Redis::url).collect();
    let (one, two) = (Link::open(&urls.join(",")).await.unwrap(), Link::open(&urls.join(",")).await.unwrap());
    let gates = vec![RedisGate::new(one, "sale:", "one"), RedisGate::new(two, "sale:", "two")];
    gates[0].install(CAMPAIGN, Seed { shards: 8, ..seed(1000) }).await.unwrap();
    sells_exactly(gates, 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_larger_than_its_shard_is_served_from_the_others() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, Seed { shards: 4, taken: vec![3], ..seed(9) }).await.unwrap();
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 8);
    let claim = gate.claim(request(1, 1, 7, 7)).await.unwrap();
    assert_eq!(claim.slots.units(), 7);
    assert_eq!(gate.claim(request(2, 2, 2, 7)).await, Err(Rejection::SoldOut), "one is left, two are not");
    gate.claim(request(3, 3, 1, 7)).await.unwrap();
    // What comes back is for sale again, to whoever asks.
    let back = StockChange::Return { user: claim.user, slots: claim.slots, prize: None };
    assert_eq!(gate.follow(CAMPAIGN, &[StockEntry { seq: 1, change: back }]).await.unwrap(), Some(1));
    assert_eq!(gate.claim(request(4, 4, 7, 7)).await.unwrap().slots.units(), 7);
    let more = StockEntry { seq: 2, change: StockChange::Restock { top: 12 } };
    assert_eq!(gate.follow(CAMPAIGN, &[more]).await.unwrap(), Some(2));
    assert_eq!(gate.claim(request(5, 5, 3, 7)).await.unwrap().slots.units(), 3);
    assert_eq!(gate.withdraw(CAMPAIGN, 5).await.unwrap().unwrap().units, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_a_node_left_half_done_is_finished_by_another() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, Seed { shards: 2, ..seed(6) }).await.unwrap();
    // Slot 1 has left the first shard for the second, and the node that sent it died.
    let key = |name: &str| gate.intake_key(CAMPAIGN, 0).replace(":intake", name);
    server.cli(&["hincrby", &key(":pool"), "next", "2"]);
    server.cli(&["hset", &key(":leaving"), "dead-1", "1 1 1"]);
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 5, "it is nowhere for now");
    sells_exactly(vec![gate], 6).await;
}

/// One step, taken by the script and by the core alike.
#[derive(Clone, Debug)]
enum Step {
    Claim { buyer: u64, quantity: u32, with_pass: bool },
    Pass { buyer: u64, later: i64 },
    Return { which: usize },
    Restock { units: u32 },
    Withdraw { units: u32, fails: bool },
    Door { door: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6_u64, 1..4_u32, any::<bool>())
            .prop_map(|(buyer, quantity, with_pass)| Step::Claim { buyer, quantity, with_pass }),
        4 => (0..6_u64, 0..40_i64).prop_map(|(buyer, later)| Step::Pass { buyer, later }),
        3 => any::<usize>().prop_map(|which| Step::Return { which }),
        1 => (1..4_u32).prop_map(|units| Step::Restock { units }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(units, fails)| Step::Withdraw { units, fails }),
        1 => (0..6_usize).prop_map(|door| Step::Door { door }),
    ]
}

fn prizes(strategy: Dealing, seats: u32) -> PrizeSeed {
    let prize = |odds, stock| Prize {
        name: "A prize".into(),
        kind: PrizeKind::Text,
        odds: if strategy == Dealing::Deck { 0 } else { odds },
        stock,
        grant: Grant::Instant,
        content: String::new(),
    };
    let prizes = vec![prize(400_000_000, 2), prize(599_999_999, 3)];
    let draw = Draw { name: "A draw".into(), strategy, prizes, seed: [11; 32] };
    // A deck's cards lie where they lie: none was taken before.
    let taken = if strategy == Dealing::Deck { vec![0, 0] } else { vec![0, 1] };
    PrizeSeed { draw: Arc::new(draw), seats, taken }
}

/// Both gates in step, and what they have to remember of their claims.
struct Both {
    script: RedisGate,
    core: MemoryGate,
    claims: Vec<Claim>,
    passes: hashbrown::HashMap<u64, u64>,
    seq: u64,
    order: u64,
    draw: bool,
    now: Moment,
}

impl Both {
    async fn follow(&mut self, change: StockChange) {
        self.seq += 1;
        let entry = [StockEntry { seq: self.seq, change }];
        assert_eq!(
            self.script.follow(CAMPAIGN, &entry).await.unwrap(),
            self.core.follow(CAMPAIGN, &entry).await.unwrap()
        );
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Claim { buyer, quantity, with_pass } => self.claim(buyer, quantity, with_pass).await,
            Step::Pass { buyer, later } => {
                self.now = self.now + Duration::from_millis(u64::try_from(later).unwrap());
                let rules = PassRules { factor: 1, stock: 6, limit: 4 };
                let until = self.now + Duration::from_millis(60);
                let issued = self.script.issue_pass(CAMPAIGN, user(buyer), rules, self.now, until).await;
                assert_eq!(issued, self.core.issue_pass(CAMPAIGN, user(buyer), rules, self.now, until).await);
                self.passes.extend(issued.ok().map(|(pass, _)| (buyer, pass.number)));
            }
            Step::Return { which } if !self.claims.is_empty() => {
                let claim = self.claims.swap_remove(which % self.claims.len());
                let prize = claim.prize();
                self.follow(StockChange::Return { user: claim.user, slots: claim.slots, prize }).await;
            }
            Step::Restock { units } if !self.draw => {
                let top = self.core.figures(CAMPAIGN).await.unwrap().unwrap().free + units + 20;
                self.follow(StockChange::Restock { top }).await;
            }
            Step::Withdraw { units, fails } => {
                let taken = self.script.withdraw(CAMPAIGN, units).await.unwrap().unwrap();
                assert_eq!(Some(&taken), self.core.withdraw(CAMPAIGN, units).await.unwrap().as_ref());
                if fails {
                    self.script.put_back(CAMPAIGN, taken.clone()).await.unwrap();
                    self.core.put_back(CAMPAIGN, taken).await.unwrap();
                } else {
                    self.follow(StockChange::Withdraw { top: taken.top, slots: taken.slots }).await;
                }
            }
            Step::Door { door } => {
                let door = [Door::Paused, Door::Closed].get(door).copied().unwrap_or(Door::Open);
                self.script.set_door(CAMPAIGN, door, NOW).await.unwrap();
                self.core.set_door(CAMPAIGN, door, NOW).await.unwrap();
            }
            Step::Return { .. } | Step::Restock { .. } => {}
        }
        assert_eq!(self.script.figures(CAMPAIGN).await.unwrap(), self.core.figures(CAMPAIGN).await.unwrap());
    }

    async fn claim(&mut self, buyer: u64, quantity: u32, with_pass: bool) {
        self.order += 1;
        let number = self.passes.get(&buyer).copied().unwrap_or(99);
        let shown = if with_pass { Shown::Pass { number, now: self.now } } else { Shown::NotNeeded };
        let mut wanted = request(self.order, buyer, if self.draw { 1 } else { quantity }, 4);
        if self.draw {
            wanted.wanted = Wanted::Play {
                client_seed: format!(
                    "种 {} {}",
                    self.order,
                    "x".repeat(usize::try_from(buyer).unwrap() * 13)
                ),
            };
        }
        let wanted = ClaimRequest { shown, ..wanted };
        let decided = self.script.claim(wanted.clone()).await;
        assert_eq!(decided, self.core.claim(wanted).await);
        self.claims.extend(decided);
        assert_eq!(
            self.script.units_of(CAMPAIGN, user(buyer)).await.unwrap().unwrap_or(0),
            self.core.units_of(CAMPAIGN, user(buyer)).await.unwrap().unwrap_or(0)
        );
    }
}

/// Whatever happens in whatever order, the script decides as the core does: the same slots, prizes, passes, refusals, versions.
#[test]
fn the_script_and_the_core_decide_alike() {
    let server = servers::Redis::start(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let link = runtime.block_on(Link::open(&server.url())).unwrap();
    let kinds = vec![None, Some(Dealing::Single), Some(Dealing::Whole), Some(Dealing::Deck)];
    let steps = (prop::sample::select(kinds), 1..12_u32, prop::collection::vec(step(), 0..80));
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps, |(dealing, stock, steps)| {
        runtime.block_on(async {
            let stock = if dealing.is_some() { stock.max(6) } else { stock };
            let seed = Seed {
                taken: if stock > 2 { vec![2] } else { vec![] },
                users: vec![(user(1), 1)],
                applied: 0,
                prizes: dealing.map(|dealing| prizes(dealing, stock)),
                ..seed(stock)
            };
            let script = gate(&link);
            let core = MemoryGate::default();
            script.install(CAMPAIGN, seed.clone()).await.unwrap();
            core.install(CAMPAIGN, seed).await.unwrap();
            let mut both = Both {
                script,
                core,
                claims: vec![],
                passes: hashbrown::HashMap::new(),
                seq: 0,
                order: 0,
                draw: dealing.is_some(),
                now: NOW,
            };
            for step in steps {
                both.take(step).await;
            }
        });
        Ok(())
    });
    outcome.unwrap();
}
