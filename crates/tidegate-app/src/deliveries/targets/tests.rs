//! Places and deliveries in hand: the bound, what a failing target loses, and what a panic gives back.

use tidegate_core::{DeliveryState, WebhookId};
use tidegate_ledger::Delivery;

use super::*;

const TARGET: Target = Target::Webhook(WebhookId::from_raw(7));
const NOW: Duration = Duration::from_secs(100);

fn due(number: u64) -> DueDelivery {
    let at = Moment::from_millis(0);
    let delivery = Delivery {
        id: DeliveryId::from_raw(number),
        target: TARGET,
        kind: "webhook".into(),
        campaign: None,
        play: None,
        event: Some(number),
        state: DeliveryState::New,
        waits_for: None,
        tries: 0,
        due_at: at,
        open_since: at,
        error: None,
        content: None,
        address: None,
        created_at: at,
        updated_at: at,
    };
    DueDelivery { delivery, event: None, order: None, play: None }
}

/// A target with this number of places and of waiting deliveries.
fn target(places: usize, waiting: u64) -> Arc<Targets> {
    let targets: Arc<Targets> = Arc::default();
    targets.set(&[(TARGET, None)], places);
    for number in 0..waiting {
        targets.queue(due(number), NOW);
    }
    targets
}

#[test]
fn a_target_has_as_many_places_as_it_may_and_a_delivery_is_in_hand_once() {
    let targets = target(3, 10);
    targets.queue(due(4), NOW);
    let mut places = targets.take_places(NOW);
    assert_eq!((places.len(), targets.take_places(NOW).len()), (3, 0));
    let mut sent = Vec::new();
    while let Some((job, _)) = targets.next(&mut places[0], NOW) {
        sent.push(job);
    }
    assert_eq!(sent.len(), 10, "the delivery that was queued again is not sent again");
    assert_eq!(targets.in_hand().len(), 10, "until their outcomes are stored");
    drop((places, sent));
    assert!(!targets.has_in_hand());
    assert_eq!(targets.wanted(NOW), [(TARGET, 3 + 20)], "a quick target gets deliveries read ahead");
    assert_eq!(targets.wanted(NOW), [(TARGET, 3)]);
}

#[tokio::test]
async fn a_panic_gives_back_the_place_and_the_delivery() {
    let targets = target(1, 2);
    let mut place = targets.take_places(NOW).remove(0);
    let sender = targets.clone();
    let sending = tokio::spawn(async move {
        let job = sender.next(&mut place, NOW);
        assert!(job.is_none(), "a panic of the test");
    });
    assert!(sending.await.is_err());
    assert_eq!(targets.in_hand(), [DeliveryId::from_raw(1)], "the first may be read again");
    assert_eq!(targets.take_places(NOW).len(), 1, "the place is free");
}

#[test]
fn a_target_that_is_down_gets_one_attempt_per_pause_and_loses_what_waits() {
    let targets = target(8, 20);
    let now = Moment::from_millis(0);
    for _ in 0..DOWN_AFTER {
        targets.finished(TARGET, Some(false), now, NOW);
    }
    assert!(!targets.has_in_hand(), "what waits is read again when it may be sent");
    assert_eq!(targets.wanted(NOW), []);
    // A step of the system's clock does not prolong the pause: it is measured by the steady clock.
    let later = NOW + DOWN_PAUSE;
    assert_eq!(targets.wanted(later), [(TARGET, 1)]);
    for number in 0..5 {
        targets.queue(due(number), later);
    }
    let mut places = targets.take_places(later);
    assert_eq!(places.len(), 1);
    assert!(targets.next(&mut places[0], later).is_some());
    targets.finished(TARGET, Some(true), now, later);
    assert_eq!(targets.take_places(later).len(), 4, "it works again");
}

#[test]
fn what_was_read_long_ago_is_read_again_before_it_is_sent() {
    let targets = target(1, 3);
    let mut place = targets.take_places(NOW).remove(0);
    assert!(targets.next(&mut place, NOW + FRESH * 2).is_none());
    assert!(!targets.has_in_hand());
    assert_eq!(targets.wanted(NOW), [(TARGET, 1)], "and the place is given back");
}
