//! The Redis gate: the conformance suite on one server and on a cluster, and what it does when the server loses data,
//! is unreachable or is replaced.

use std::time::{Duration, Instant};

use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::gate::Gate;
use tidegate_core::{Rejection, Seed};
use tidegate_testing::conformance;
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request};
use tidegate_testing::servers::redis as servers;

use crate::support::gate;

#[tokio::test(flavor = "multi_thread")]
async fn redis_gate_conforms() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    conformance::gate::all(async || gate(&link)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_gate_conforms_on_a_cluster() {
    let nodes = servers::cluster();
    let urls: Vec<String> = nodes.iter().map(servers::Redis::url).collect();
    let link = Link::open(&urls.join(",")).await.unwrap();
    conformance::gate::all(async || gate(&link)).await;
}

#[tokio::test]
async fn a_server_that_lost_data_grants_nothing_until_the_pool_is_installed_again() {
    let server = servers::Redis::start(&[]);
    let link = Link::open(&server.url()).await.unwrap();
    let gate = gate(&link);
    gate.install(CAMPAIGN, seed(10)).await.unwrap();
    for buyer in 1..=3 {
        gate.claim(request(buyer, buyer, 1, 1)).await.unwrap();
    }
    // The server has lost all keys.
    server.cli(&["flushall"]);
    assert_eq!(gate.claim(request(4, 4, 1, 1)).await, Err(Rejection::NotReady));
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap(), None);
    // The server has lost the last writes: a failover to a replica that lagged.
    gate.install(CAMPAIGN, Seed { epoch: 2, ..seed(10) }).await.unwrap();
    gate.claim(request(5, 5, 1, 1)).await.unwrap();
    let tag = gate.intake_key(CAMPAIGN, 0).replace(":intake", ":pool");
    server.cli(&["hset", &tag, "version", "0"]);
    assert_eq!(
        gate.claim(request(6, 6, 1, 1)).await,
        Err(Rejection::NotReady),
        "the version is below the one that was seen"
    );
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

/// The first call times out after two seconds; the server executes it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_requested_again_and_nothing_is_decided_twice() {
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
async fn an_unreachable_server_times_out_and_is_reconnected() {
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
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("the gate reconnects");
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
    // The replica takes over with what was replicated; a new epoch is installed there.
    let seed = Seed { epoch: 2, taken: first.slots.iter().collect(), ..seed(3) };
    while gate.install(CAMPAIGN, seed.clone()).await.is_err() {
        assert!(Instant::now() < deadline, "no replica took over");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(gate.claim(request(2, 2, 1, 1)).await.is_ok());
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 1);
    assert!(servers.replica.cli(&["info", "replication"]).contains("role:master"));
}

#[tokio::test]
async fn a_seed_that_arrives_late_or_twice_is_refused() {
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
