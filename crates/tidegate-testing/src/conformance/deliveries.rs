//! The conformance suite of deliveries in the ledger: per target and lane the oldest is due, what is in hand is not
//! returned again, outcomes of many attempts are stored together, and only counted time makes a delivery old.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{DeliveryState, Moment, WebhookId};
use tidegate_ledger::{Actor, Attempt, AttemptOutcome, DueDelivery, SqlLedger, Target, Webhook};

use super::{NOW, campaign, claim, item};

/// Events of orders that every ledger of the suite begins with.
const ORDERS: u64 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Runs the suite; `make` creates an empty ledger.
pub async fn all<F: Future<Output = SqlLedger>>(make: impl Fn() -> F) {
    each_target_gets_as_many_as_it_wants(with_events(&make).await).await;
    a_lane_advances_when_its_first_arrives(with_events(&make).await).await;
    a_failure_postpones_its_lane_and_no_other(with_events(&make).await).await;
    only_counted_time_makes_a_delivery_older(with_events(&make).await).await;
    a_time_that_no_pause_sets_is_pulled_in(with_events(&make).await).await;
}

#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
fn ok<T>(result: Result<T, tidegate_ledger::LedgerError>) -> T {
    result.unwrap()
}

fn target(number: u64) -> Target {
    Target::Webhook(WebhookId::from_raw(number))
}

/// Two webhooks, 5 and 6, and an event for each order.
async fn with_events<F: Future<Output = SqlLedger>>(make: &impl Fn() -> F) -> SqlLedger {
    let ledger = make().await;
    ok(ledger.items.create(item(), Actor::Operator(None), None).await);
    ok(ledger.campaigns.create(campaign(100, 100), vec![], Actor::Operator(None), None).await);
    for number in [5, 6] {
        let webhook = Webhook {
            id: WebhookId::from_raw(number),
            url: "https://shop.example/".into(),
            events: vec!["order.*".into()],
            secret: vec![1; 32],
            old_secret: None,
            disabled: None,
            created_at: NOW,
            updated_at: NOW,
        };
        ok(ledger.webhooks.create(webhook, Actor::Operator(None), None).await);
    }
    let orders = 1..=ORDERS;
    let slot = |order| u32::try_from(order).unwrap_or(0);
    let claims = orders.map(|order| Arc::new(claim(order, order, &[slot(order)]))).collect();
    ok(ledger.claims.record_from_stream(claims, NOW).await);
    fan_out(&ledger, NOW).await;
    ledger
}

async fn fan_out(ledger: &SqlLedger, now: Moment) {
    assert!(ok(ledger.deliveries.dispatcher_work(now).await).fan_out);
    while ok(ledger.webhooks.fan_out(now, 7).await) > 0 {}
    assert!(!ok(ledger.deliveries.dispatcher_work(now).await).fan_out);
}

async fn due(ledger: &SqlLedger, wanted: &[(u64, u32)], now: Moment) -> Vec<DueDelivery> {
    let wanted = wanted.iter().map(|(number, most)| (target(*number), *most)).collect();
    ok(ledger.deliveries.due(wanted, vec![], now).await)
}

async fn store(ledger: &SqlLedger, due: &[DueDelivery], outcome: AttemptOutcome, at: Moment) {
    let attempt =
        |due: &DueDelivery| Attempt { delivery: due.delivery.clone(), outcome: outcome.clone(), at };
    ok(ledger.deliveries.record_attempts(Arc::new(due.iter().map(attempt).collect())).await);
}

fn failed(due_at: Moment, counts: Duration) -> AttemptOutcome {
    AttemptOutcome::Failed { error: "500".into(), due_at, counts }
}

const ARRIVED: AttemptOutcome = AttemptOutcome::Delivered { content: None };

async fn each_target_gets_as_many_as_it_wants(ledger: SqlLedger) {
    let count = |found: &[DueDelivery], number| {
        found.iter().filter(|due| due.delivery.target == target(number)).count()
    };
    let found = due(&ledger, &[(5, 3), (6, 1000), (7, 9)], NOW).await;
    assert_eq!((count(&found, 5), count(&found, 6), count(&found, 7)), (3, 20, 0));
    for due in &found {
        let event = due.event.as_ref().map(|event| (Some(event.id), event.subject));
        let order = due.order.as_ref().map(|order| order.id.raw());
        assert_eq!(
            (due.delivery.event, order),
            (event.and_then(|event| event.0), event.map(|event| event.1))
        );
    }
    let in_hand: Vec<_> = found.iter().map(|due| due.delivery.id).collect();
    let wanted = vec![(target(5), 1000), (target(6), 1000)];
    let rest = ok(ledger.deliveries.due(wanted, in_hand.clone(), NOW).await);
    assert_eq!((count(&rest, 5), count(&rest, 6)), (17, 0));
    assert!(rest.iter().all(|due| !in_hand.contains(&due.delivery.id)));
    assert!(
        due(&ledger, &[], NOW).await.is_empty() && due(&ledger, &[(5, 1)], NOW - SECOND).await.is_empty()
    );
}

/// Cancels order 1, so that its lanes have a second event.
async fn cancel_first(ledger: &SqlLedger) {
    let cancelled = ledger.orders.cancel(tidegate_core::OrderId::from_raw(1), Actor::Clock, NOW).await;
    assert!(cancelled.is_ok(), "{cancelled:?}");
    fan_out(ledger, NOW).await;
}

async fn a_lane_advances_when_its_first_arrives(ledger: SqlLedger) {
    cancel_first(&ledger).await;
    let first = due(&ledger, &[(5, 1000), (6, 1000)], NOW).await;
    assert_eq!(first.len(), 40, "the cancellation waits for the order");
    store(&ledger, &first, ARRIVED, NOW).await;
    // An outcome that is stored again changes nothing.
    store(&ledger, &first, failed(NOW + SECOND, SECOND), NOW).await;
    let second = due(&ledger, &[(5, 1000), (6, 1000)], NOW).await;
    let kinds: Vec<&str> = second.iter().filter_map(|due| Some(due.event.as_ref()?.kind.as_str())).collect();
    assert_eq!(kinds, ["order.cancelled", "order.cancelled"]);
    store(&ledger, &second, ARRIVED, NOW).await;
    let counts = ok(ledger.deliveries.count_all(100).await);
    assert!(counts.contains(&(DeliveryState::Delivered, 42)), "{counts:?}");
}

async fn a_failure_postpones_its_lane_and_no_other(ledger: SqlLedger) {
    cancel_first(&ledger).await;
    let is_first = |due: &DueDelivery| due.event.as_ref().is_some_and(|event| event.subject == 1);
    let mut first = due(&ledger, &[(5, 1000)], NOW).await;
    first.retain(is_first);
    let later = NOW + SECOND * 60;
    store(&ledger, &first, failed(later, SECOND), NOW).await;
    let now = due(&ledger, &[(5, 1000), (6, 1000)], later - SECOND).await;
    assert_eq!(now.iter().filter(|due| is_first(due)).count(), 1, "only the other webhook's");
    assert_eq!(now.len(), 39);
    first = due(&ledger, &[(5, 1000)], later).await;
    first.retain(is_first);
    assert_eq!((first.len(), first[0].delivery.tries), (1, 1));
    // A stored success makes the next of the lane due at once.
    store(&ledger, &first, ARRIVED, later - SECOND).await;
    let mut second = due(&ledger, &[(5, 1000)], later - SECOND).await;
    second.retain(is_first);
    assert_eq!(second.len(), 1);
}

async fn only_counted_time_makes_a_delivery_older(ledger: SqlLedger) {
    let hour = SECOND * 3600;
    let mut at = NOW;
    let age = |due: &DueDelivery| due.delivery.open_since.until(due.delivery.updated_at);
    let mut ages = Vec::new();
    for passed in [SECOND * 10, hour * 24 * 40, SECOND * 5] {
        let found = due(&ledger, &[(5, 1)], at).await;
        at = at + passed;
        store(&ledger, &found, failed(at, SECOND * 60), at).await;
        let again = due(&ledger, &[(5, 1000)], at).await;
        ages.extend(again.iter().filter(|due| due.delivery.id == found[0].delivery.id).map(age));
        // The others arrive, so that this one is the next.
        let others: Vec<_> =
            again.into_iter().filter(|due| due.delivery.id != found[0].delivery.id).collect();
        store(&ledger, &others, ARRIVED, at).await;
    }
    assert_eq!(ages, [SECOND * 10, SECOND * 70, SECOND * 75]);
    // A clock that goes back takes nothing away.
    let found = ok(ledger.deliveries.due(vec![(target(5), 1)], vec![], at).await);
    store(&ledger, &found, failed(NOW, SECOND * 60), NOW).await;
    let back = due(&ledger, &[(5, 1)], NOW).await;
    assert_eq!(age(&back[0]), SECOND * 75);
}

async fn a_time_that_no_pause_sets_is_pulled_in(ledger: SqlLedger) {
    let found = due(&ledger, &[(5, 2)], NOW).await;
    let (soon, far) = (NOW + SECOND * 60, NOW + SECOND * 3600 * 24 * 40);
    store(&ledger, &found[..1], failed(soon, SECOND), NOW).await;
    store(&ledger, &found[1..], failed(far, SECOND), NOW).await;
    let targets = vec![target(5), target(6), Target::Internal];
    assert_eq!(ok(ledger.deliveries.pull_in(targets.clone(), NOW + SECOND * 3600, NOW).await), 1);
    assert_eq!(due(&ledger, &[(5, 1000)], NOW).await.len(), 19);
    assert_eq!(ok(ledger.deliveries.pull_in(targets, NOW + SECOND * 3600, NOW).await), 0);
}
