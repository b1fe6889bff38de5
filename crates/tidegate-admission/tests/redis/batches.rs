//! Claims decided in one call: as if one came after the other, stored in one entry, recorded one by one if necessary.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use tidegate_admission::cluster::gate::{DecideError, RedisGate, SubmitOptions};
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::cluster::stream::StreamIntake;
use tidegate_admission::gate::Gate;
use tidegate_admission::intake::Intake;
use tidegate_core::{Claim, ClaimRequest, IdempotencyKey, Rejection};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, request, user};
use tidegate_testing::servers::redis as servers;

use crate::support;

pub(crate) const UNCHECKED: SubmitOptions = SubmitOptions { key_checked: false, rate_per_s: 0 };

pub(crate) fn keyed(order: u64, buyer: u64, limit: u32, key: u8) -> ClaimRequest {
    ClaimRequest { key: Some(IdempotencyKey([key; 16])), ..request(order, buyer, 1, limit) }
}

pub(crate) async fn gate(server: &servers::Redis, stock: u32) -> Arc<RedisGate> {
    let gate = RedisGate::new(Link::open(&server.url()).await.unwrap(), "", "one");
    gate.install(CAMPAIGN, seed(stock)).await.unwrap();
    Arc::new(gate)
}

/// On one thread all claims are queued before the first is sent, so they form one batch.
async fn together(gate: &RedisGate, requests: Vec<ClaimRequest>) -> Vec<Result<Claim, DecideError>> {
    join_all(requests.into_iter().map(|request| gate.decide(request, UNCHECKED))).await
}

fn decisions(outcomes: &[Result<Claim, DecideError>]) -> Vec<String> {
    let describe = |outcome: &Result<Claim, DecideError>| match outcome {
        Ok(claim) => format!("{}@{}", claim.slots, claim.version),
        Err(DecideError::Rejected(rejection)) => rejection.code().to_owned(),
        Err(other) => format!("{other:?}"),
    };
    outcomes.iter().map(describe).collect()
}

pub(crate) fn reader(gate: &Arc<RedisGate>, consumer: &str, dead_after: Duration) -> StreamIntake {
    support::reader(gate.clone(), consumer, dead_after, 0)
}

#[tokio::test]
async fn claims_queued_when_a_pool_handle_is_closed_are_still_decided() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 3).await;
    let mut queued = join_all((1..=4).map(|number| gate.decide(request(number, number, 1, 1), UNCHECKED)));
    assert!(poll_immediate(&mut queued).await.is_none(), "the claims are queued");
    gate.close(CAMPAIGN);
    assert_eq!(decisions(&queued.await), ["1@1", "2@2", "3@3", "sold_out"]);
}

fn ids(claims: &[Arc<Claim>]) -> Vec<u64> {
    claims.iter().map(|claim| claim.id.raw()).collect()
}

#[tokio::test]
async fn claims_in_one_call_are_decided_one_after_the_other() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 3).await;
    let asked = vec![
        keyed(1, 1, 1, 7),
        keyed(2, 1, 1, 7),
        request(3, 1, 1, 1),
        keyed(4, 2, 2, 7),
        keyed(5, 2, 2, 8),
        request(6, 3, 2, 2),
        request(7, 3, 1, 2),
        request(8, 4, 1, 2),
    ];
    let outcomes = together(&gate, asked).await;
    let expected = ["1@1", "InFlight", "limit_reached", "2@2", "KeyUnchecked", "sold_out", "3@3", "sold_out"];
    assert_eq!(decisions(&outcomes), expected);
    assert_eq!(server.cli(&["xlen", &gate.intake_key(CAMPAIGN, 0)]).trim(), "1", "the claims were one batch");
    assert_eq!(gate.units_of(CAMPAIGN, user(4)).await.unwrap(), None, "a rejected buyer leaves no trace");
    // A retry of a claim in flight is recognised on every node until the claim is recorded.
    assert!(gate.is_in_flight(CAMPAIGN, user(1), &IdempotencyKey([7; 16])).await.unwrap());
    assert_eq!(
        gate.find_queued(CAMPAIGN, user(2), outcomes[3].as_ref().unwrap().id).await.unwrap().as_ref(),
        { outcomes[3].as_ref().ok() }
    );
    let intake = reader(&gate, "one", Duration::from_secs(10));
    let granted: Vec<_> = outcomes.into_iter().filter_map(|outcome| outcome.ok().map(Arc::new)).collect();
    assert_eq!(
        intake.next(10).await,
        (1, granted),
        "claims are read in the order in which they were granted"
    );
    intake.recorded(3).await;
    assert_eq!((gate.queued_units(CAMPAIGN).await.unwrap(), intake.depth()), (0, 0));
    assert!(!gate.is_in_flight(CAMPAIGN, user(1), &IdempotencyKey([7; 16])).await.unwrap());
}

#[tokio::test]
async fn an_entry_is_kept_until_the_last_of_its_claims_is_recorded() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    together(&gate, (1..=5).map(|id| request(id, id, 1, 1)).collect()).await;
    let first = reader(&gate, "first", Duration::ZERO);
    assert_eq!(ids(&first.next(2).await.1), [1, 2]);
    first.recorded(2).await;
    assert_eq!(server.cli(&["xlen", &gate.intake_key(CAMPAIGN, 0)]).trim(), "1");
    drop(first);
    // A reader that takes over gets the whole entry again; the ledger recognises what it has.
    let second = reader(&gate, "second", Duration::ZERO);
    assert_eq!(ids(&second.next(10).await.1), [1, 2, 3, 4, 5]);
    second.recorded(3).await;
    assert_eq!(ids(&second.next(10).await.1), [4, 5]);
    second.recorded(5).await;
    assert_eq!(server.cli(&["xlen", &gate.intake_key(CAMPAIGN, 0)]).trim(), "0");
    assert_eq!((gate.queued_units(CAMPAIGN).await.unwrap(), second.depth()), (0, 0));
}

#[tokio::test]
async fn an_undecodable_claim_does_not_affect_other_claims() {
    let server = servers::Redis::start(&[]);
    let gate = gate(&server, 9).await;
    let key = gate.intake_key(CAMPAIGN, 0);
    server.cli(&["xadd", &key, "*", "e", "1", "v", "0", "g", "0 1", "c", "8 nonsense"]);
    together(&gate, vec![request(1, 1, 1, 1), request(2, 2, 1, 1)]).await;
    let intake = reader(&gate, "one", Duration::from_secs(10));
    assert_eq!(ids(&intake.next(10).await.1), [1, 2]);
    assert!(intake.take_poisoned());
    intake.recorded(2).await;
    let lengths = [&key, &format!("{key}:dead")].map(|key| server.cli(&["xlen", key]).trim().to_owned());
    assert_eq!(lengths, ["0", "1"]);
}

/// The rate limit counts the attempts on all nodes, whatever their result.
#[tokio::test]
async fn a_rate_limit_applies_across_nodes() {
    let server = servers::Redis::start(&[]);
    let one = gate(&server, 100).await;
    let two = RedisGate::new(Link::open(&server.url()).await.unwrap(), "", "two");
    let often = SubmitOptions { key_checked: false, rate_per_s: 2 };
    let mut refused = 0;
    for turn in 0..20 {
        let gate = if turn % 2 == 0 { &*one } else { &two };
        // The first is granted, the next exceed the limit per user, the rest the rate limit.
        match gate.decide(request(turn, 1, 1, 1), often).await {
            Ok(_) => assert_eq!(turn, 0),
            Err(DecideError::RateLimited) => refused += 1,
            Err(other) => {
                assert!(matches!(other, DecideError::Rejected(Rejection::LimitReached)), "{other:?}");
            }
        }
        assert!(
            gate.decide(request(100 + turn, 100 + turn, 1, 1), often).await.is_ok(),
            "other buyers are not limited"
        );
    }
    assert!(refused >= 14, "at most two per second, over at most three seconds: {refused}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let later = two.decide(request(99, 1, 1, 1), often).await;
    assert!(
        matches!(later, Err(DecideError::Rejected(Rejection::LimitReached))),
        "a new second starts a new count: {later:?}"
    );
}
