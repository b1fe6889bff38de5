//! The conformance suite of the `Intake` port.

use std::future::Future;
use std::sync::Arc;

use tidegate_admission::intake::Intake;
use tidegate_ledger::Position;

use super::{claim, user};

/// Runs the suite. `open` opens the intake with this name, empty the first time; the position is the last one that the
/// ledger has recorded.
pub async fn all<I: Intake, F: Future<Output = I>>(open: impl Fn(&'static str, Position) -> F) {
    claims_come_out_in_order_until_recorded(open("order", 0).await).await;
    an_unrecorded_claim_is_found_by_its_buyer(open("found", 0).await).await;
    an_acknowledged_claim_survives_reopening(&open).await;
    recorded_claims_do_not_come_back(&open).await;
    concurrent_appends_all_come_out_once(open("crowd", 0).await).await;
}

async fn claims_come_out_in_order_until_recorded<I: Intake>(intake: I) {
    for order in 1..=5 {
        assert!(intake.append(claim(order, order, &[1])).await.is_ok());
    }
    assert_eq!(intake.depth(), 5);
    let (first, claims) = intake.next(3).await;
    assert_eq!((first, orders(&claims)), (1, vec![1, 2, 3]));
    let (again, claims) = intake.next(3).await;
    assert_eq!((again, orders(&claims)), (1, vec![1, 2, 3]), "reading does not remove claims");
    intake.recorded(3).await;
    let (first, claims) = intake.next(10).await;
    assert_eq!((first, orders(&claims)), (4, vec![4, 5]));
    assert_eq!(intake.depth(), 2);
}

async fn an_unrecorded_claim_is_found_by_its_buyer<I: Intake>(intake: I) {
    assert!(intake.append(claim(1, 8, &[1])).await.is_ok());
    assert!(intake.append(claim(2, 9, &[2])).await.is_ok());
    let found = intake.unrecorded_of(user(9)).await;
    assert_eq!(found.iter().map(|found| found.claim.id.raw()).collect::<Vec<_>>(), [2]);
    assert!(found.iter().all(|found| found.durable));
    intake.recorded(2).await;
    assert!(intake.unrecorded_of(user(9)).await.is_empty());
}

async fn an_acknowledged_claim_survives_reopening<I: Intake, F: Future<Output = I>>(
    open: &impl Fn(&'static str, Position) -> F,
) {
    let intake = open("survives", 0).await;
    let kept = claim(7, 3, &[4, 5]);
    assert!(intake.append(kept.clone()).await.is_ok());
    drop(intake);
    let intake = open("survives", 0).await;
    let (first, claims) = intake.next(10).await;
    assert_eq!((first, claims), (1, vec![Arc::new(kept)]));
}

async fn recorded_claims_do_not_come_back<I: Intake, F: Future<Output = I>>(
    open: &impl Fn(&'static str, Position) -> F,
) {
    let intake = open("recorded", 0).await;
    for order in 1..=4 {
        assert!(intake.append(claim(order, order, &[1])).await.is_ok());
    }
    intake.recorded(1).await;
    drop(intake);
    // Before the crash, the ledger committed more than it acknowledged to the intake.
    let intake = open("recorded", 3).await;
    // Claims 2 and 3 may be read again, since the ledger knows them by id; positions do not change.
    let (first, claims) = intake.next(10).await;
    let found = orders(&claims);
    assert_eq!((first, found.last()), (4, Some(&4)), "positions continue");
    assert!(!found.contains(&1), "an acknowledged claim is not read again");
    assert!(intake.append(claim(5, 5, &[1])).await.is_ok());
    let (_, claims) = intake.next(10).await;
    assert_eq!(orders(&claims), [found, vec![5]].concat());
}

async fn concurrent_appends_all_come_out_once<I: Intake>(intake: I) {
    let intake = Arc::new(intake);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16_u64 {
        let intake = intake.clone();
        tasks.spawn(async move {
            for step in 0..50 {
                let order = task * 100 + step;
                assert!(intake.append(claim(order, order, &[1])).await.is_ok());
            }
        });
    }
    tasks.join_all().await;
    let (first, claims) = intake.next(10_000).await;
    let mut found = orders(&claims);
    found.sort_unstable();
    found.dedup();
    assert_eq!((first, found.len()), (1, 800));
}

fn orders(claims: &[Arc<tidegate_core::Claim>]) -> Vec<u64> {
    claims.iter().map(|claim| claim.id.raw()).collect()
}
