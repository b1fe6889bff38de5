//! Faults in the middle of a sale or draw. Each rehearsal must end with oversold 0, undersold 0, lost 0 and no limit
//! exceeded.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_testing::servers::Redis;
use tidegate_testing::servers::redis::{cluster, urls};

use crate::world::{World, passes};

/// More buyers than units, arriving over several seconds.
const SALE: &[&str] = &["--stock", "4000", "--buyers", "5000", "--rate", "600", "--connections", "128"];
/// Maximum duration of the rest of the rehearsal after the fault has ended.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

async fn still() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_sell_out_exactly() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    passes(world.rehearse(&["--stock", "500", "--buyers", "5000"])).await;
    passes(world.rehearse(&["--stock", "1000", "--buyers", "1500", "--per-user-limit", "2"])).await;
    passes(world.rehearse(&["--draw", "--stock", "3000", "--buyers", "1500"])).await;
    passes(world.rehearse(&["--stock", "200", "--buyers", "600", "--waiting-room"])).await;
    passes(world.rehearse(&["--stock", "200", "--buyers", "1000", "--bots", "0.9"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_shards_on_three_masters_sell_out_exactly() {
    let nodes = cluster();
    let world = World::start(&urls(&nodes)).await;
    passes(world.rehearse(&["--stock", "1000", "--buyers", "6000", "--shards", "8"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_flushed() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let crowd = world.rehearse(SALE);
    world.wait_for_sold(500).await;
    redis.cli(&["flushall"]);
    still().await;
    redis.cli(&["flushall"]);
    passes(crowd).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_dies_and_restarts_empty() {
    let mut redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let crowd = world.rehearse(SALE);
    world.wait_for_sold(500).await;
    redis.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;
    redis.restart();
    passes(crowd).await;
}

/// A replica that was frozen is promoted when its master dies: writes of the meantime are lost.
#[tokio::test(flavor = "multi_thread")]
async fn redis_fails_over_and_loses_writes() {
    let mut nodes = cluster();
    let world = World::start(&urls(&nodes)).await;
    let crowd = world.rehearse(&[SALE, &["--shards", "8"]].concat());
    world.wait_for_sold(500).await;
    let shown = nodes[0].cli(&["cluster", "nodes"]);
    let of = |line: &str| line.split([':', '@']).nth(1).and_then(|port| port.parse::<u16>().ok()).unwrap();
    let replica = shown.lines().find(|line| line.contains("slave") && !line.contains("myself")).unwrap();
    let master = replica.split(' ').nth(3).unwrap();
    let master = of(shown.lines().find(|line| line.starts_with(master)).unwrap());
    let replica = of(replica);
    let pid = |port| nodes.iter().find(|node| node.port == port).unwrap().pid();
    let cut_off = rustix::process::Pid::from_raw(pid(replica).cast_signed()).unwrap();
    rustix::process::kill_process(cut_off, Signal::STOP).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    nodes.iter_mut().find(|node| node.port == master).unwrap().kill();
    rustix::process::kill_process(cut_off, Signal::CONT).unwrap();
    passes(crowd).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_down_for_half_a_minute() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let crowd = world.rehearse(SALE);
    world.wait_for_sold(500).await;
    world.postgres.stop();
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.postgres.launch();
    let mended = Instant::now();
    passes(crowd).await;
    assert!(mended.elapsed() < SETTLED_WITHIN, "{:?}", mended.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_killed() {
    let redis = Redis::start(&[]);
    let mut world = World::start(&redis.url()).await;
    let crowd = world.rehearse(SALE);
    world.wait_for_sold(500).await;
    world.nodes[1].take().unwrap().kill().await.unwrap();
    let mended = Instant::now();
    passes(crowd).await;
    assert!(mended.elapsed() < SETTLED_WITHIN, "{:?}", mended.elapsed());
}

/// Other nodes record the claims of a frozen node; when it resumes, it does no harm.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_resumes_after_others_took_over() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let crowd = world.rehearse(SALE);
    world.wait_for_sold(500).await;
    world.signal(1, Signal::STOP);
    tokio::time::sleep(Duration::from_secs(8)).await;
    world.signal(1, Signal::CONT);
    passes(crowd).await;
}

/// Two nodes are frozen in turn, so that the recorder of the draw changes; the history still verifies.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_recorder_of_a_draw_is_replaced_in_order() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let crowd = world.rehearse(&["--draw", "--stock", "6000", "--buyers", "3000", "--rate", "1000"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    for node in 0..2 {
        world.signal(node, Signal::STOP);
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.signal(node, Signal::CONT);
    }
    passes(crowd).await;
}
