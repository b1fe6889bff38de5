//! The conformance suite of the `Gate` port.

use std::future::Future;

use tidegate_admission::gate::{Gate, GateError};
use tidegate_core::pool::GateState;
use tidegate_core::{ClaimRequest, PassRules, Rejection, Seed, Shown, Slots, StockChange, StockEntry};

use super::{CAMPAIGN, NOW, request, user};

/// Runs the suite; `make` creates a gate without pools.
pub async fn all<G: Gate, F: Future<Output = G>>(make: impl Fn() -> F) {
    a_pool_never_installed_is_not_ready(make().await).await;
    the_last_unit_is_sold_and_no_more(make().await).await;
    limits_hold_and_a_rejection_changes_nothing(make().await).await;
    a_returned_slot_is_sold_again_and_counts_once(make().await).await;
    entries_after_a_gap_wait_for_the_missing_ones(make().await).await;
    restock_and_withdrawal_follow_the_log(make().await).await;
    a_gate_that_is_not_open_grants_nothing(make().await).await;
    a_seed_restores_held_slots(make().await).await;
    a_withdrawal_of_an_older_epoch_is_not_put_back(make().await).await;
    a_pass_buys_once_for_its_user_and_its_epoch(make().await).await;
    concurrent_buyers_get_exactly_the_stock(make().await).await;
}

/// An open pool of epoch 1 with all slots free.
pub fn seed(top: u32) -> Seed {
    Seed {
        epoch: 1,
        gate_state: GateState::Open,
        top,
        taken: vec![],
        users: vec![],
        applied: 0,
        shards: 1,
        prizes: None,
    }
}

fn returned(seq: u64, buyer: u64, slots: &[u32]) -> StockEntry {
    let slots: Slots = slots.iter().copied().collect();
    StockEntry { seq, change: StockChange::Return { user: user(buyer), slots, prize: None } }
}

async fn free<G: Gate>(gate: &G) -> u32 {
    answered(gate.figures(CAMPAIGN).await).map_or(0, |figures| figures.free)
}

fn answered<T>(answer: Result<T, GateError>) -> T {
    answer.unwrap_or_else(|error| panic!("{error}"))
}

async fn install<G: Gate>(gate: &G, seed: Seed) {
    answered(gate.install(CAMPAIGN, seed).await);
}

async fn a_pool_never_installed_is_not_ready<G: Gate>(gate: G) {
    assert_eq!(gate.claim(request(1, 1, 1, 1)).await, Err(Rejection::NotReady));
    assert_eq!(answered(gate.figures(CAMPAIGN).await), None);
}

async fn the_last_unit_is_sold_and_no_more<G: Gate>(gate: G) {
    install(&gate, seed(2)).await;
    for buyer in 1..=2 {
        assert!(gate.claim(request(buyer, buyer, 1, 1)).await.is_ok(), "unit {buyer} is sold");
    }
    assert_eq!(gate.claim(request(3, 3, 1, 1)).await, Err(Rejection::SoldOut));
    assert_eq!(free(&gate).await, 0);
}

async fn limits_hold_and_a_rejection_changes_nothing<G: Gate>(gate: G) {
    install(&gate, seed(10)).await;
    assert!(gate.claim(request(1, 1, 2, 3)).await.is_ok());
    let before = answered(gate.figures(CAMPAIGN).await);
    assert_eq!(gate.claim(request(2, 1, 2, 3)).await, Err(Rejection::LimitReached));
    assert_eq!(gate.claim(request(3, 2, 9, 100)).await, Err(Rejection::SoldOut));
    assert_eq!(answered(gate.figures(CAMPAIGN).await), before);
    assert_eq!(answered(gate.units_of(CAMPAIGN, user(1)).await), Some(2));
    assert_eq!(answered(gate.units_of(CAMPAIGN, user(9)).await), None);
}

async fn a_returned_slot_is_sold_again_and_counts_once<G: Gate>(gate: G) {
    install(&gate, seed(1)).await;
    let first = gate.claim(request(1, 1, 1, 1)).await;
    let entry = returned(1, 1, &[1]);
    assert_eq!(answered(gate.follow(CAMPAIGN, std::slice::from_ref(&entry)).await), Some(1));
    assert_eq!(answered(gate.follow(CAMPAIGN, &[entry]).await), Some(1));
    assert_eq!(free(&gate).await, 1, "a return applied twice counts once");
    let second = gate.claim(request(2, 2, 1, 1)).await;
    assert_eq!(first.map(|claim| claim.slots), second.map(|claim| claim.slots));
}

async fn entries_after_a_gap_wait_for_the_missing_ones<G: Gate>(gate: G) {
    install(&gate, seed(2)).await;
    for buyer in 1..=2 {
        assert!(gate.claim(request(buyer, buyer, 1, 1)).await.is_ok());
    }
    assert_eq!(answered(gate.follow(CAMPAIGN, &[returned(2, 2, &[2])]).await), Some(0));
    assert_eq!(free(&gate).await, 0);
    assert_eq!(answered(gate.follow(CAMPAIGN, &[returned(1, 1, &[1]), returned(2, 2, &[2])]).await), Some(2));
    assert_eq!(free(&gate).await, 2);
}

async fn restock_and_withdrawal_follow_the_log<G: Gate>(gate: G) {
    install(&gate, seed(1)).await;
    let restock = StockEntry { seq: 1, change: StockChange::Restock { top: 5 } };
    answered(gate.follow(CAMPAIGN, &[restock]).await);
    assert_eq!(free(&gate).await, 5);
    let taken = answered(gate.withdraw(CAMPAIGN, 3).await).map(|withdrawal| {
        assert_eq!(withdrawal.units, 3);
        let change = StockChange::Withdraw { top: withdrawal.top, slots: withdrawal.slots };
        StockEntry { seq: 2, change }
    });
    assert_eq!(free(&gate).await, 2);
    answered(gate.follow(CAMPAIGN, taken.as_slice()).await);
    assert_eq!(free(&gate).await, 2, "the log entry confirms the withdrawal and takes no more");
    let rest = answered(gate.withdraw(CAMPAIGN, 100).await);
    assert_eq!(rest.as_ref().map(|withdrawal| withdrawal.units), Some(2), "only free units are withdrawn");
    if let Some(withdrawal) = rest {
        answered(gate.put_back(CAMPAIGN, withdrawal).await);
    }
    assert_eq!(free(&gate).await, 2);
}

async fn a_gate_that_is_not_open_grants_nothing<G: Gate>(gate: G) {
    install(&gate, seed(1)).await;
    for (gate_state, rejection) in
        [(GateState::Paused, Rejection::Paused), (GateState::Closed, Rejection::Ended)]
    {
        answered(gate.set_gate_state(CAMPAIGN, gate_state, NOW).await);
        assert_eq!(gate.claim(request(1, 1, 1, 1)).await, Err(rejection));
    }
    answered(gate.set_gate_state(CAMPAIGN, GateState::Open, NOW).await);
    assert!(gate.claim(request(1, 1, 1, 1)).await.is_ok());
}

async fn a_seed_restores_held_slots<G: Gate>(gate: G) {
    let seed = Seed { epoch: 4, taken: vec![2, 5], users: vec![(user(1), 2)], applied: 9, ..seed(6) };
    install(&gate, seed).await;
    let figures = answered(gate.figures(CAMPAIGN).await);
    assert_eq!(figures.map(|figures| (figures.epoch, figures.free, figures.applied)), Some((4, 4, 9)));
    assert_eq!(gate.claim(request(1, 1, 1, 2)).await, Err(Rejection::LimitReached));
    let claim = gate.claim(request(2, 2, 4, 4)).await;
    let slots = claim.map(|claim| {
        assert_eq!(claim.epoch, 4);
        let mut slots: Vec<_> = claim.slots.iter().collect();
        slots.sort_unstable();
        slots
    });
    assert_eq!(slots, Ok(vec![1, 3, 4, 6]), "exactly the slots that are not held");
}

async fn a_withdrawal_of_an_older_epoch_is_not_put_back<G: Gate>(gate: G) {
    install(&gate, seed(2)).await;
    let withdrawal = answered(gate.withdraw(CAMPAIGN, 1).await);
    install(&gate, Seed { epoch: 2, ..seed(2) }).await;
    if let Some(withdrawal) = withdrawal {
        answered(gate.put_back(CAMPAIGN, withdrawal).await);
    }
    assert_eq!(free(&gate).await, 2, "the new epoch counted the unit as free already");
}

async fn a_pass_buys_once_for_its_user_and_its_epoch<G: Gate>(gate: G) {
    install(&gate, seed(3)).await;
    let rules = PassRules { factor: 1, stock: 3, limit: 2 };
    let until = NOW + std::time::Duration::from_secs(60);
    let pass = gate.issue_pass(CAMPAIGN, user(1), rules, NOW, until).await;
    assert_eq!(
        gate.issue_pass(CAMPAIGN, user(1), rules, NOW, until).await,
        pass,
        "a user has one pass at a time"
    );
    let Ok((pass, epoch)) = pass else { panic!("no pass was issued: {pass:?}") };
    assert_eq!(epoch, 1);
    let shown = Shown::Pass { number: pass.number, now: NOW };
    let with = |order, buyer| ClaimRequest { shown, ..request(order, buyer, 1, 2) };
    assert_eq!(gate.claim(with(1, 2)).await, Err(Rejection::PassInvalid), "pass of another user");
    assert!(gate.claim(with(2, 1)).await.is_ok());
    assert_eq!(gate.claim(with(3, 1)).await, Err(Rejection::PassInvalid), "a spent pass");
    gate.issue_pass(CAMPAIGN, user(2), rules, NOW, until).await.ok();
    gate.issue_pass(CAMPAIGN, user(3), rules, NOW, until).await.ok();
    assert_eq!(
        gate.issue_pass(CAMPAIGN, user(4), rules, NOW, until).await,
        Err(Rejection::Busy),
        "the quota is exhausted"
    );
    assert!(
        gate.issue_pass(CAMPAIGN, user(4), rules, until, until).await.is_ok(),
        "expired passes return to the quota"
    );
}

async fn concurrent_buyers_get_exactly_the_stock<G: Gate>(gate: G) {
    install(&gate, seed(500)).await;
    let gate = std::sync::Arc::new(gate);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u64 {
        let gate = gate.clone();
        tasks.spawn(async move {
            let mut slots = Vec::new();
            for attempt in 0..200 {
                let order = task * 1_000 + attempt;
                if let Ok(claim) = gate.claim(request(order, order, 1, 1)).await {
                    slots.extend(claim.slots.iter());
                }
            }
            slots
        });
    }
    let mut sold: Vec<u32> = tasks.join_all().await.concat();
    sold.sort_unstable();
    assert!(sold.iter().copied().eq(1..=500), "every slot is sold once");
}
