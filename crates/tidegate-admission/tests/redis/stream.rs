//! The stream intake: the conformance suite, its agreement with the gate, and entries that cannot be decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::gate::Gate;
use tidegate_admission::intake::Intake;
use tidegate_core::Rejection;
use tidegate_testing::conformance;
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request};
use tidegate_testing::servers::redis as servers;

use crate::support::{gate, reader};

#[tokio::test(flavor = "multi_thread")]
async fn stream_intake_conforms() {
    static READER: AtomicU32 = AtomicU32::new(0);
    let server = servers::Redis::start(&[]);
    conformance::intake::all(async |name, recorded| {
        // A reopened reader is a new consumer, and takes over the entries of the first at once.
        let consumer = format!("reader {}", READER.fetch_add(1, Ordering::Relaxed));
        let gate = RedisGate::new(Link::open(&server.url()).await.unwrap(), name, "one");
        reader(Arc::new(gate), &consumer, Duration::ZERO, recorded)
    })
    .await;
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
    let intake = reader(Arc::new(gate), "one", Duration::from_secs(10), 0);
    let (position, claims) = intake.next(10).await;
    assert_eq!(
        (position, claims),
        (1, vec![Arc::new(first), Arc::new(second)]),
        "granted claims only, in order"
    );
}

#[tokio::test]
async fn an_undecodable_entry_is_set_aside_and_the_others_are_read() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&Link::open(&server.url()).await.unwrap());
    let key = gate.intake_key(CAMPAIGN, 0);
    let dead = format!("{key}:dead");
    let intake = reader(Arc::new(gate), "one", Duration::from_secs(10), 0);
    intake.append(conformance::claim(1, 1, &[1])).await.unwrap();
    server.cli(&["xadd", &key, "*", "c", "nonsense"]);
    intake.append(conformance::claim(2, 2, &[2])).await.unwrap();
    let (first, claims) = intake.next(10).await;
    assert_eq!((first, claims.iter().map(|claim| claim.id.raw()).collect::<Vec<_>>()), (1, vec![1, 2]));
    intake.recorded(2).await;
    assert_eq!((server.cli(&["xlen", &key]).trim(), server.cli(&["xlen", &dead]).trim()), ("0", "1"));
    assert!(server.cli(&["xrange", &dead, "-", "+"]).contains("why"));
}
