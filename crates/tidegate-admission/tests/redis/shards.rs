//! A pool split over shards: units move to where they are needed, and claims are rejected with `sold_out` only when
//! no shard has units left.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::gate::Gate;
use tidegate_core::{Rejection, Seed, StockChange, StockEntry};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request};
use tidegate_testing::servers::redis as servers;

use crate::support::gate;

/// Every buyer gets a unit while one is free in any shard; later claims are rejected with `sold_out`.
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
    assert_eq!(gate.claim(request(2, 2, 2, 7)).await, Err(Rejection::SoldOut), "one unit is left, not two");
    gate.claim(request(3, 3, 1, 7)).await.unwrap();
    // Returned units are for sale again, to any buyer.
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
    assert_eq!(gate.figures(CAMPAIGN).await.unwrap().unwrap().free, 5, "one unit is in transit");
    sells_exactly(vec![gate], 6).await;
}
