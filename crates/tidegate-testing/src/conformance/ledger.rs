//! The conformance suite of the ledger: guarantees that hold even if the gate is wrong.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::pool::Withdrawal;
use tidegate_core::{
    Claim, Granted, IdempotencyKey, Moment, Money, Order, OrderId, OrderState, RefundReason, Rejection,
    Slots, StockChange,
};
use tidegate_ledger::{Actor, Payment, RecordOutcome, Records, Settlement, SqlLedger};

use super::{CAMPAIGN, NOW, campaign, claim, item, price, user};

/// Runs the suite; `make` creates an empty ledger.
pub async fn all<F: Future<Output = SqlLedger>>(make: impl Fn() -> F) {
    claims_become_orders_with_their_position(with_sale(&make, 3, 2).await).await;
    a_slot_has_one_active_order(with_sale(&make, 3, 2).await).await;
    a_slot_that_does_not_exist_is_never_held(with_sale(&make, 3, 2).await).await;
    limits_hold_even_if_the_gate_grants_more(with_sale(&make, 3, 2).await).await;
    an_older_epoch_is_fenced_off(with_sale(&make, 3, 2).await).await;
    a_claim_is_recorded_once(with_sale(&make, 3, 2).await).await;
    the_slots_of_a_second_grant_go_back_once(with_sale(&make, 4, 2).await).await;
    a_claim_that_cannot_be_recorded_is_set_aside(with_sale(&make, 3, 2).await).await;
    a_key_finds_its_order(with_sale(&make, 3, 2).await).await;
    cancelling_returns_units_once(with_sale(&make, 3, 2).await).await;
    exactly_the_due_orders_expire(with_sale(&make, 3, 2).await).await;
    a_payment_is_booked_once(with_sale(&make, 3, 2).await).await;
    a_late_payment_ends_in_one_refund(with_sale(&make, 3, 2).await).await;
    a_wrong_amount_is_refunded(with_sale(&make, 3, 2).await).await;
    paying_twice_refunds_the_second(with_sale(&make, 3, 2).await).await;
    a_refund_gives_money_and_units_back(with_sale(&make, 3, 2).await).await;
    stock_goes_up_and_down(with_sale(&make, 3, 2).await).await;
    pay_against_expiry_is_paid_xor_returned(with_sale(&make, 100, 1).await).await;
}

#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
fn ok<T>(result: Result<T, tidegate_ledger::LedgerError>) -> T {
    result.unwrap()
}

async fn with_sale<F: Future<Output = SqlLedger>>(
    make: &impl Fn() -> F,
    stock: u32,
    limit: u32,
) -> SqlLedger {
    let ledger = make().await;
    ok(ledger.items.create(item(), Actor::Operator(None), None).await);
    ok(ledger.campaigns.create(campaign(stock, limit), vec![], Actor::Operator(None), None).await);
    ledger
}

async fn record(ledger: &SqlLedger, claims: Vec<Claim>) -> Vec<RecordOutcome> {
    let first = ok(ledger.claims.position().await) + 1;
    ok(ledger.record(first, claims.into_iter().map(Arc::new).collect(), NOW).await)
}

async fn order(ledger: &SqlLedger, id: u64) -> Order {
    #[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
    ok(ledger.orders.get(OrderId::from_raw(id)).await).unwrap()
}

fn payment(order: u64, reference: &str, amount: i64) -> Payment {
    Payment {
        provider: "sandbox".into(),
        reference: reference.into(),
        order: OrderId::from_raw(order),
        amount: Money { amount, ..price() },
    }
}

async fn pay(ledger: &SqlLedger, payment: Payment, now: Moment) -> Settlement {
    ok(ledger.payments.settle(payment, Actor::Buyer(user(1)), now).await)
}

/// Asserts that the audit finds no violation and that exactly these slots are free.
async fn sound(ledger: &SqlLedger, free: &[u32]) {
    #[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
    let audit = ok(ledger.campaigns.audit(CAMPAIGN).await).unwrap();
    assert_eq!(audit.violations, Vec::<String>::new());
    #[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
    let seed = ok(ledger.stock.seed(CAMPAIGN).await).unwrap();
    let found: Vec<u32> = (1..=seed.top).filter(|slot| !seed.taken.contains(slot)).collect();
    assert_eq!(found, free, "free slots");
}

async fn log(ledger: &SqlLedger) -> Vec<(u64, StockChange)> {
    let entries = ok(ledger.stock.log(CAMPAIGN, 0, 100).await);
    entries.into_iter().map(|entry| (entry.seq, entry.change)).collect()
}

fn returned(seq: u64, buyer: u64, slots: &[u32]) -> (u64, StockChange) {
    (seq, StockChange::Return { user: user(buyer), slots: slots.iter().copied().collect(), prize: None })
}

async fn claims_become_orders_with_their_position(ledger: SqlLedger) {
    let outcomes = record(&ledger, vec![claim(1, 1, &[1, 2]), claim(2, 2, &[3])]).await;
    assert_eq!(outcomes, [RecordOutcome::Order, RecordOutcome::Order]);
    assert_eq!(ok(ledger.claims.position().await), 2);
    let first = order(&ledger, 1).await;
    assert_eq!(
        (first.state, first.quantity(), first.total().amount),
        (OrderState::AwaitingPayment, 2, 19_800)
    );
    sound(&ledger, &[]).await;
}

async fn a_slot_has_one_active_order(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    let outcomes = record(&ledger, vec![claim(2, 2, &[1, 2]), claim(3, 3, &[3])]).await;
    assert_eq!(
        outcomes,
        [RecordOutcome::Conflict, RecordOutcome::Order],
        "the conflict does not affect other claims"
    );
    assert_eq!(order(&ledger, 2).await.state, OrderState::Rejected);
    assert_eq!(log(&ledger).await, [returned(1, 2, &[2])], "a slot without a holder goes back on sale");
    sound(&ledger, &[2]).await;
}

async fn a_slot_that_does_not_exist_is_never_held(ledger: SqlLedger) {
    let outcomes = record(&ledger, vec![claim(1, 1, &[4])]).await;
    assert_eq!(outcomes, [RecordOutcome::Conflict]);
    sound(&ledger, &[1, 2, 3]).await;
}

async fn limits_hold_even_if_the_gate_grants_more(ledger: SqlLedger) {
    let outcomes = record(&ledger, vec![claim(1, 1, &[1]), claim(2, 1, &[2]), claim(3, 1, &[3])]).await;
    assert_eq!(outcomes[2], RecordOutcome::Rejected(Rejection::LimitReached));
    assert_eq!(log(&ledger).await, [returned(1, 1, &[3])]);
    let at_once = record(&ledger, vec![claim(4, 2, &[3, 1, 2])]).await;
    assert_eq!(at_once, [RecordOutcome::Conflict]);
    sound(&ledger, &[3]).await;
}

async fn an_older_epoch_is_fenced_off(ledger: SqlLedger) {
    let seed = ok(ledger.stock.reseed(CAMPAIGN, NOW).await);
    assert_eq!(seed.map(|seed| seed.epoch), Some(2));
    let outcomes = record(&ledger, vec![claim(1, 1, &[1])]).await;
    assert_eq!(outcomes, [RecordOutcome::Rejected(Rejection::ClaimLost)]);
    assert_eq!(log(&ledger).await, [], "the reseed has already counted its slot as free");
    assert_eq!(order(&ledger, 1).await.reason, Some(Rejection::ClaimLost));
    sound(&ledger, &[1, 2, 3]).await;
}

async fn a_claim_is_recorded_once(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    assert_eq!(record(&ledger, vec![claim(1, 1, &[1])]).await, [RecordOutcome::Duplicate]);
    let again = ledger.record(1, vec![Arc::new(claim(9, 9, &[2]))], NOW).await;
    assert!(again.is_err(), "a position is recorded once");
    sound(&ledger, &[2, 3]).await;
}

/// A gate that decides a claim twice: the second grant may be recorded again, before and after its slots are sold.
async fn the_slots_of_a_second_grant_go_back_once(ledger: SqlLedger) {
    let record = async |claims: Vec<Claim>| {
        ok(ledger.claims.record_from_stream(claims.into_iter().map(Arc::new).collect(), NOW).await)
    };
    let second = Claim { version: 2, ..claim(1, 1, &[2, 3]) };
    let stale = Claim { epoch: 0, version: 9, ..claim(1, 1, &[4]) };
    assert_eq!(record(vec![claim(1, 1, &[1])]).await, [RecordOutcome::Order]);
    assert_eq!(record(vec![claim(1, 1, &[1])]).await, [RecordOutcome::Duplicate], "the same grant");
    assert_eq!(log(&ledger).await, []);
    for _ in 0..2 {
        let outcomes = record(vec![second.clone(), stale.clone()]).await;
        assert_eq!(outcomes, [RecordOutcome::Duplicate; 2]);
        assert_eq!(log(&ledger).await, [returned(1, 1, &[2, 3])]);
    }
    assert_eq!(record(vec![claim(2, 2, &[2])]).await, [RecordOutcome::Order]);
    assert_eq!(record(vec![second]).await, [RecordOutcome::Duplicate]);
    assert_eq!(log(&ledger).await.len(), 1, "slot 2 has another holder");
    sound(&ledger, &[3, 4]).await;
}

async fn a_claim_that_cannot_be_recorded_is_set_aside(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    let poison = Arc::new(claim(2, 2, &[1, 2]));
    ok(ledger.set_aside(2, poison.clone(), "a test".into(), NOW).await);
    assert_eq!(ok(ledger.claims.position().await), 2);
    assert_eq!(order(&ledger, 2).await.state, OrderState::Rejected);
    assert_eq!(log(&ledger).await, [returned(1, 2, &[2])]);
    assert!(ledger.set_aside(2, poison, "again".into(), NOW).await.is_err(), "a position is set aside once");
    sound(&ledger, &[2, 3]).await;
}

async fn a_key_finds_its_order(ledger: SqlLedger) {
    let key = Some(IdempotencyKey([5; 16]));
    let outcomes =
        record(&ledger, vec![Claim { key, ..claim(1, 1, &[1]) }, Claim { key, ..claim(2, 1, &[2]) }]).await;
    assert_eq!(
        outcomes,
        [RecordOutcome::Order, RecordOutcome::Rejected(Rejection::ClaimLost)],
        "a key creates one order"
    );
    let found = ok(ledger.orders.by_key(user(1), IdempotencyKey([5; 16])).await);
    assert_eq!(found.map(|order| order.id.raw()), Some(1));
    assert_eq!(ok(ledger.orders.by_key(user(2), IdempotencyKey([5; 16])).await), None);
    sound(&ledger, &[2, 3]).await;
}

async fn cancelling_returns_units_once(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1, 2])]).await;
    let cancel = async || ok(ledger.orders.cancel(OrderId::from_raw(1), Actor::Buyer(user(1)), NOW).await);
    assert!(matches!(cancel().await, Some(Ok(order)) if order.state == OrderState::Cancelled));
    assert!(matches!(cancel().await, Some(Err(_))));
    assert!(ok(ledger.orders.cancel(OrderId::from_raw(9), Actor::Operator(None), NOW).await).is_none());
    assert_eq!(log(&ledger).await, [returned(1, 1, &[1, 2])]);
    sound(&ledger, &[1, 2, 3]).await;
    let again = record(&ledger, vec![claim(2, 1, &[1, 2])]).await;
    assert_eq!(again, [RecordOutcome::Order], "the slots and the buyer's limit are free again");
}

async fn exactly_the_due_orders_expire(ledger: SqlLedger) {
    let later = Claim {
        granted: Granted::Order { unit_price: price(), pay_by: NOW + Duration::from_secs(90) },
        ..claim(2, 2, &[2])
    };
    record(&ledger, vec![claim(1, 1, &[1]), later]).await;
    let due = NOW + Duration::from_secs(60);
    assert_eq!(ok(ledger.orders.next_deadline().await), Some(due));
    assert_eq!(ok(ledger.orders.expire_due(due - Duration::from_millis(1), 10).await), []);
    let expired = ok(ledger.orders.expire_due(due, 10).await);
    assert_eq!(expired.iter().map(|order| order.id.raw()).collect::<Vec<_>>(), [1]);
    assert_eq!(ok(ledger.orders.next_deadline().await), Some(NOW + Duration::from_secs(90)));
    sound(&ledger, &[1, 3]).await;
}

async fn a_payment_is_booked_once(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    for _ in 0..2 {
        let settled = pay(&ledger, payment(1, "a", 9_900), NOW).await;
        assert!(matches!(settled, Settlement::Paid(order) if order.state == OrderState::Paid));
    }
    assert!(ok(ledger.orders.expire_due(NOW + Duration::from_secs(9_999), 10).await).is_empty());
    assert_eq!(pay(&ledger, payment(9, "b", 1), NOW).await, Settlement::NoSuchOrder);
    sound(&ledger, &[2, 3]).await;
}

async fn a_late_payment_ends_in_one_refund(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1]), claim(2, 2, &[2])]).await;
    ok(ledger.orders.cancel(OrderId::from_raw(2), Actor::Buyer(user(2)), NOW).await);
    let late = NOW + Duration::from_secs(60);
    for (id, reason) in [(1, RefundReason::OrderExpired), (2, RefundReason::OrderCancelled)] {
        for _ in 0..2 {
            let settled = pay(&ledger, payment(id, &format!("late {id}"), 9_900), late).await;
            assert!(matches!(settled, Settlement::Refund { reason: found, .. } if found == reason));
        }
    }
    ok(ledger.orders.expire_due(late, 10).await);
    sound(&ledger, &[1, 2, 3]).await;
}

async fn a_wrong_amount_is_refunded(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    let settled = pay(&ledger, payment(1, "short", 9_899), NOW).await;
    assert!(matches!(settled, Settlement::Refund { reason: RefundReason::WrongAmount, .. }));
    assert_eq!(order(&ledger, 1).await.state, OrderState::AwaitingPayment, "the order still awaits payment");
    assert!(matches!(pay(&ledger, payment(1, "right", 9_900), NOW).await, Settlement::Paid(_)));
    sound(&ledger, &[2, 3]).await;
}

async fn paying_twice_refunds_the_second(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    assert!(matches!(pay(&ledger, payment(1, "first", 9_900), NOW).await, Settlement::Paid(_)));
    let second = pay(&ledger, payment(1, "second", 9_900), NOW).await;
    assert!(matches!(second, Settlement::Refund { reason: RefundReason::AlreadyPaid, .. }));
    sound(&ledger, &[2, 3]).await;
}

async fn a_refund_gives_money_and_units_back(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    let refund = async || ok(ledger.payments.refund(OrderId::from_raw(1), Actor::Operator(None), NOW).await);
    assert!(matches!(refund().await, Some(Err(_))), "nothing was paid yet");
    pay(&ledger, payment(1, "a", 9_900), NOW).await;
    assert!(matches!(refund().await, Some(Ok(order)) if order.state == OrderState::Refunded));
    assert!(matches!(refund().await, Some(Err(_))));
    assert_eq!(log(&ledger).await, [returned(1, 1, &[1])]);
    sound(&ledger, &[1, 2, 3]).await;
}

async fn stock_goes_up_and_down(ledger: SqlLedger) {
    record(&ledger, vec![claim(1, 1, &[1])]).await;
    let up = ok(ledger.stock.restock(CAMPAIGN, 2, Actor::Operator(None), NOW, None).await);
    assert_eq!(up.map(|sale| sale.map(|sale| (sale.stock, sale.top))), Some(Ok((5, 5))));
    let slots: Slots = [2].into_iter().collect();
    let withdrawal = Withdrawal { number: 1, epoch: 1, top: 4, slots: slots.clone(), units: 2 };
    let down = ok(ledger.stock.withdraw(CAMPAIGN, withdrawal, Actor::Operator(None), NOW, None).await);
    assert_eq!(down.map(|sale| (sale.stock, sale.top)), Some((3, 4)));
    let expected = [(1, StockChange::Restock { top: 5 }), (2, StockChange::Withdraw { top: 4, slots })];
    assert_eq!(log(&ledger).await, expected);
    let outcomes = record(&ledger, vec![claim(2, 2, &[2]), claim(3, 3, &[5])]).await;
    assert_eq!(outcomes, [RecordOutcome::Conflict; 2], "withdrawn slots are not sold");
    sound(&ledger, &[3, 4]).await;
}

async fn pay_against_expiry_is_paid_xor_returned(ledger: SqlLedger) {
    let claims = (1..=100).map(|n| claim(n.into(), n.into(), &[n])).collect();
    record(&ledger, claims).await;
    let ledger = Arc::new(ledger);
    let deadline = NOW + Duration::from_secs(60);
    let mut tasks = tokio::task::JoinSet::new();
    for id in 1..=100 {
        let (payer, clock) = (ledger.clone(), ledger.clone());
        // Half of the payments arrive just in time, half just too late, while expiry runs.
        let now = if id % 2 == 0 { deadline } else { deadline - Duration::from_millis(1) };
        tasks.spawn(async move {
            pay(payer.as_ref(), payment(id, &format!("{id}"), 9_900), now).await;
        });
        tasks.spawn(async move {
            ok(clock.orders.expire_due(deadline, 3).await);
        });
    }
    tasks.join_all().await;
    while !ok(ledger.orders.expire_due(deadline, 50).await).is_empty() {}
    let mut free = Vec::new();
    for id in 1..=100_u32 {
        match order(ledger.as_ref(), id.into()).await.state {
            OrderState::Paid => assert_eq!(id % 2, 1, "paid in time"),
            OrderState::Expired => free.push(id),
            state => panic!("order {id} ended as {state:?}"),
        }
    }
    sound(ledger.as_ref(), &free).await;
}
