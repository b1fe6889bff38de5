//! Calls that arrive after their sender has given them up, once more or late: they change nothing.
//!
//! MONITOR shows every call as the server received it, and redis-cli reads that notation, so a test can send a call of
//! the gate again at any later time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::gate::Gate;
use tidegate_core::{Rejection, Seed};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request};
use tidegate_testing::servers::redis as servers;

use crate::batches::gate;

/// The calls that a server receives.
struct Monitor {
    port: String,
    client: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Monitor {
    fn start(server: &servers::Redis) -> Self {
        let port = server.port.to_string();
        let mut client = Command::new("redis-cli")
            .args(["-p", &port, "monitor"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli is needed: apt-get install redis-tools");
        let mut lines = BufReader::new(client.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "OK");
        Self { port, client, lines }
    }

    /// The next call of this operation of the script.
    fn next(&mut self, operation: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "the server was not called with {operation}"
            );
            let call = line.split_once("] ").map_or("", |(_, call)| call.trim());
            if call.starts_with("\"EVALSHA\"") && call.contains(&format!(" \"{operation}\" ")) {
                return call.to_owned();
            }
        }
    }

    /// Sends a call again; returns the reply.
    fn repeat(&self, call: &str) -> String {
        let mut client = Command::new("redis-cli")
            .args(["-p", &self.port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        client.stdin.take().unwrap().write_all(call.as_bytes()).unwrap();
        String::from_utf8_lossy(&client.wait_with_output().unwrap().stdout).into_owned()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // It may have ended with its server.
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

async fn free(gate: &RedisGate) -> u32 {
    gate.figures(CAMPAIGN).await.unwrap().unwrap().free
}

fn queued(server: &servers::Redis, gate: &RedisGate) -> String {
    server.cli(&["xlen", &gate.intake_key(CAMPAIGN, 0)]).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_call_that_arrives_after_a_later_one_decides_nothing() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    let mut monitor = Monitor::start(&server);
    gate.claim(request(1, 1, 1, 9)).await.unwrap();
    let first = monitor.next("claim");
    gate.claim(request(2, 2, 1, 9)).await.unwrap();
    assert_eq!(monitor.repeat(&first).trim(), "", "the call is refused");
    assert_eq!((free(&gate).await, queued(&server, &gate)), (7, "2".into()));
    assert_eq!(gate.claim(request(3, 3, 1, 9)).await.unwrap().slots.to_string(), "3", "the gate goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_call_that_arrives_after_a_reseed_decides_nothing() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    let mut monitor = Monitor::start(&server);
    gate.claim(request(1, 1, 1, 9)).await.unwrap();
    let first = monitor.next("claim");
    gate.install(CAMPAIGN, Seed { epoch: 2, ..seed(9) }).await.unwrap();
    let reply = monitor.repeat(&first);
    assert!(reply.starts_with("2\n"), "the reply names the new epoch: {reply}");
    assert_eq!((free(&gate).await, queued(&server, &gate)), (9, "1".into()));
}

/// Another node begins a new epoch: the next claim of this node is decided all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_not_seen_a_new_epoch_loses_no_claim() {
    let server = servers::Redis::start(&[]);
    let (one, two) = (gate(&server, 9).await, gate_of_another_node(&server).await);
    assert!(one.claim(request(1, 1, 1, 9)).await.is_ok());
    assert!(two.claim(request(2, 2, 1, 9)).await.is_ok());
    one.install(CAMPAIGN, Seed { epoch: 2, taken: vec![1, 2], ..seed(9) }).await.unwrap();
    let claim = two.claim(request(3, 3, 1, 9)).await.unwrap();
    assert_eq!((claim.epoch, claim.slots.to_string().as_str()), (2, "3"));
}

async fn gate_of_another_node(server: &servers::Redis) -> Arc<RedisGate> {
    let link = tidegate_admission::cluster::redis_link::Link::open(&server.url()).await.unwrap();
    Arc::new(RedisGate::new(link, "", "two"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_arrives_late_takes_no_units() {
    let server = servers::Redis::start(&[]);
    let gate = gate_of_another_node(&server).await;
    gate.install(CAMPAIGN, Seed { shards: 2, ..seed(8) }).await.unwrap();
    let mut monitor = Monitor::start(&server);
    // One buyer's shard runs empty and takes units of the other.
    for order in 1..=6 {
        gate.claim(request(order, 1, 1, 9)).await.unwrap();
    }
    let leave = monitor.next("leave");
    assert_eq!(monitor.repeat(&leave).trim(), "", "nothing leaves");
    for order in 7..=8 {
        gate.claim(request(order, 1, 1, 9)).await.unwrap();
    }
    assert_eq!(
        gate.claim(request(9, 1, 1, 9)).await,
        Err(Rejection::SoldOut),
        "every unit was sold, and once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_that_arrives_late_takes_no_units() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    let mut monitor = Monitor::start(&server);
    let withdrawal = gate.withdraw(CAMPAIGN, 2).await.unwrap().unwrap();
    let withdraw = monitor.next("withdraw");
    gate.put_back(CAMPAIGN, withdrawal.clone()).await.unwrap();
    let put_back = monitor.next("put_back");
    assert_eq!(monitor.repeat(&withdraw).trim(), "");
    assert_eq!(free(&gate).await, 9, "the withdrawal was put back and is over");
    let claims: Vec<_> = [1, 2].map(|order| request(order, order, 1, 9)).into();
    for claim in claims {
        gate.claim(claim).await.unwrap();
    }
    monitor.repeat(&put_back);
    assert_eq!(free(&gate).await, 7, "nothing is put back twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_seed_that_arrives_twice_frees_no_slot() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 60_000).await;
    let mut monitor = Monitor::start(&server);
    // Two parts of slots, the first of which is repeated when the second is there.
    let seed = Seed { epoch: 2, taken: (1..=30_000).collect(), ..seed(60_000) };
    gate.install(CAMPAIGN, seed).await.unwrap();
    let calls: Vec<String> =
        ["build", "slots", "slots", "install"].iter().map(|operation| monitor.next(operation)).collect();
    server.cli(&["flushall"]);
    for call in [&calls[0], &calls[1], &calls[2], &calls[1], &calls[0], &calls[3]] {
        assert_eq!(monitor.repeat(call).trim(), "OK");
    }
    assert_eq!(free(&gate).await, 30_000);
    assert_eq!(monitor.repeat(&calls[3]).trim(), "STALE");
}
