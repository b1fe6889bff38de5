//! Buyer records of the gate: the units held, and the claims that may not be recorded yet.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::cluster::gate::{DecideError, RedisGate, SubmitOptions};
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::gate::Gate;
use tidegate_admission::intake::Intake;
use tidegate_core::{IdempotencyKey, Seed, StockChange, StockEntry};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request, user};
use tidegate_testing::servers::redis as servers;

use crate::batches::{UNCHECKED, gate, keyed, reader};

const KEY_CHECKED: SubmitOptions = SubmitOptions { key_checked: true, rate_per_s: 0 };

async fn another(server: &servers::Redis) -> RedisGate {
    RedisGate::new(Link::open(&server.url()).await.unwrap(), "", "two")
}

async fn is_in_flight(gate: &RedisGate, buyer: u64, key: u8) -> bool {
    gate.is_in_flight(CAMPAIGN, user(buyer), &IdempotencyKey([key; 16])).await.unwrap()
}

/// The number of stream entries in a buyer record.
fn entries_in_record(server: &servers::Redis, gate: &RedisGate, buyer: u64) -> usize {
    let users = gate.intake_key(CAMPAIGN, 0).replace(":intake", ":users");
    let record = server.cli(&["hget", &users, &user(buyer).raw().to_string()]);
    record.trim().split([' ', '+']).filter(|word| word.contains('-') && word.len() > 1).count()
}

/// Waits for the start of the server's next second, so that what follows happens within it.
async fn new_second(server: &servers::Redis) {
    let time = server.cli(&["time"]);
    let micros: u64 = time.lines().nth(1).unwrap().trim().parse().unwrap();
    tokio::time::sleep(Duration::from_micros(1_005_000_u64.saturating_sub(micros))).await;
}

#[tokio::test]
async fn every_key_of_a_buyer_is_in_flight_until_its_own_claim_is_recorded() {
    let server = servers::Redis::start(&[]);
    let one = gate(&server, 9).await;
    let two = another(&server).await;
    let mut ids = Vec::new();
    for key in 1..=3 {
        ids.push(one.decide(keyed(key.into(), 1, 3, key), KEY_CHECKED).await.unwrap().id);
    }
    for key in 1..=3 {
        let repeated = two.decide(keyed(10, 1, 3, key), UNCHECKED).await;
        assert!(matches!(repeated, Err(DecideError::InFlight)), "{key}: {repeated:?}");
        assert!(is_in_flight(&two, 1, key).await);
        assert!(!is_in_flight(&two, 2, key).await, "keys are separate per buyer");
    }
    let intake = reader(&one, "one", Duration::from_secs(10));
    assert_eq!(intake.next(2).await.1.len(), 2);
    intake.recorded(2).await;
    for (id, key, waits) in [(ids[0], 1, false), (ids[1], 2, false), (ids[2], 3, true)] {
        assert_eq!(is_in_flight(&two, 1, key).await, waits, "{key}");
        let found = two.find_queued(CAMPAIGN, user(1), id).await.unwrap();
        assert_eq!(found.map(|claim| claim.id), waits.then_some(id));
        let repeated = two.decide(keyed(11, 1, 3, key), UNCHECKED).await;
        let in_flight = matches!(repeated, Err(DecideError::InFlight));
        let unchecked = matches!(repeated, Err(DecideError::KeyUnchecked));
        assert_eq!(
            (in_flight, unchecked),
            (waits, !waits),
            "{key}: a recorded key must be checked in the ledger"
        );
    }
    assert_eq!(one.unrecorded_claims(CAMPAIGN, 0).await.unwrap(), 1);
}

#[tokio::test]
async fn a_key_that_is_used_again_is_in_flight_again() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    gate.decide(keyed(1, 1, 3, 7), KEY_CHECKED).await.unwrap();
    let intake = reader(&gate, "one", Duration::from_secs(10));
    intake.next(1).await;
    intake.recorded(1).await;
    // As if the ledger had rejected the first and did not know the key.
    gate.decide(keyed(2, 1, 3, 7), KEY_CHECKED).await.unwrap();
    assert!(is_in_flight(&gate, 1, 7).await);
    assert!(matches!(gate.decide(keyed(3, 1, 3, 7), KEY_CHECKED).await, Err(DecideError::InFlight)));
}

#[tokio::test]
async fn recorded_claims_leave_the_record_when_their_buyer_claims_in_another_second() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    new_second(&server).await;
    gate.decide(request(1, 1, 1, 9), UNCHECKED).await.unwrap();
    let intake = reader(&gate, "one", Duration::from_secs(10));
    intake.next(1).await;
    intake.recorded(1).await;
    gate.decide(request(2, 1, 1, 9), UNCHECKED).await.unwrap();
    assert_eq!(entries_in_record(&server, &gate, 1), 2, "claims of this second count for the rate limit");
    new_second(&server).await;
    gate.decide(request(3, 1, 1, 9), UNCHECKED).await.unwrap();
    assert_eq!(entries_in_record(&server, &gate, 1), 2, "the first is recorded, the second is not");
    assert_eq!(gate.units_of(CAMPAIGN, user(1)).await.unwrap(), Some(3));
}

#[tokio::test]
async fn granted_and_refused_attempts_count_alike_and_once_each() {
    let server = servers::Redis::start(&[]);
    let one = gate(&server, 9).await;
    let two = another(&server).await;
    let often = SubmitOptions { key_checked: false, rate_per_s: 4 };
    new_second(&server).await;
    one.decide(keyed(1, 1, 3, 1), often).await.unwrap();
    // Counted when its key had to be checked, and not again after that.
    assert!(matches!(two.decide(keyed(2, 1, 3, 2), often).await, Err(DecideError::KeyUnchecked)));
    two.decide(keyed(2, 1, 3, 2), KEY_CHECKED).await.unwrap();
    let intake = reader(&one, "one", Duration::from_secs(10));
    intake.next(2).await;
    intake.recorded(2).await;
    assert!(matches!(one.decide(request(3, 1, 2, 3), often).await, Err(DecideError::Rejected(_))));
    two.decide(request(4, 1, 1, 3), often).await.unwrap();
    for gate in [&*one, &two] {
        let fifth = gate.decide(request(5, 1, 1, 9), often).await;
        assert!(matches!(fifth, Err(DecideError::RateLimited)), "{fifth:?}");
    }
    new_second(&server).await;
    one.decide(request(6, 1, 1, 9), often).await.unwrap();
}

#[tokio::test]
async fn attempts_of_one_batch_are_counted_one_after_the_other() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    let often = SubmitOptions { key_checked: false, rate_per_s: 2 };
    new_second(&server).await;
    let asked = (1..=3).map(|order| gate.decide(request(order, 1, 1, 9), often));
    let outcomes = futures_util::future::join_all(asked).await;
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    assert!(matches!(outcomes[2], Err(DecideError::RateLimited)));
    assert_eq!(entries_in_record(&server, &gate, 1), 2);
    assert!(matches!(gate.decide(request(4, 1, 1, 9), often).await, Err(DecideError::RateLimited)));
}

#[tokio::test]
async fn a_reseeded_pool_keeps_units_but_no_stream_entries() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    gate.decide(keyed(1, 1, 3, 7), UNCHECKED).await.unwrap();
    gate.install(CAMPAIGN, Seed { epoch: 2, users: vec![(user(1), 1)], ..seed(9) }).await.unwrap();
    assert_eq!(
        (gate.units_of(CAMPAIGN, user(1)).await.unwrap(), is_in_flight(&gate, 1, 7).await),
        (Some(1), false)
    );
    assert!(matches!(gate.decide(keyed(2, 1, 3, 7), UNCHECKED).await, Err(DecideError::KeyUnchecked)));
    gate.decide(keyed(2, 1, 3, 7), KEY_CHECKED).await.unwrap();
    assert!(is_in_flight(&gate, 1, 7).await);
    assert_eq!(
        gate.unrecorded_claims(CAMPAIGN, 0).await.unwrap(),
        1,
        "claims of another epoch are not counted"
    );
    let intake = reader(&gate, "one", Duration::from_secs(10));
    assert_eq!(intake.next(1).await.1[0].epoch, 1);
    intake.recorded(1).await;
    assert_eq!((intake.depth(), is_in_flight(&gate, 1, 7).await), (1, true));
    intake.next(1).await;
    intake.recorded(2).await;
    assert_eq!((intake.depth(), is_in_flight(&gate, 1, 7).await), (0, false));
}

#[tokio::test]
async fn returned_units_leave_the_other_claims_in_the_record() {
    let server = servers::Redis::start(&[]);
    let gate: Arc<RedisGate> = gate(&server, 9).await;
    let first = gate.decide(keyed(1, 1, 3, 1), KEY_CHECKED).await.unwrap();
    gate.decide(keyed(2, 1, 3, 2), KEY_CHECKED).await.unwrap();
    let back = StockChange::Return { user: first.user, slots: first.slots, prize: None };
    gate.follow(CAMPAIGN, &[StockEntry { seq: 1, change: back }]).await.unwrap();
    assert_eq!(gate.units_of(CAMPAIGN, user(1)).await.unwrap(), Some(1));
    assert!(is_in_flight(&gate, 1, 1).await && is_in_flight(&gate, 1, 2).await);
}
