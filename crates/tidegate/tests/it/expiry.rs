//! Unpaid orders expire at their deadline, and their units are sold again.

use std::time::Duration;

use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_core::Moment;
use tidegate_testing::eventually;

use crate::support::{TestApp, bought, order, refused, state};

#[tokio::test]
async fn an_order_expires_at_its_deadline_and_not_before() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyer = app.buyer().await;
    let id = bought(&mut buyer, &sale, 1).await;
    app.recorded().await;
    app.clock.advance(Duration::from_millis(599_999));
    assert_eq!(app.app.ordering.expire_due().await.unwrap(), 0);
    assert_eq!(state(&mut buyer, &id).await, "awaiting_payment");
    app.clock.advance(Duration::from_millis(1));
    assert_eq!(app.app.ordering.expire_due().await.unwrap(), 1);
    assert_eq!(state(&mut buyer, &id).await, "expired");
    app.sound(&sale, 1, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_unit_is_sold_again_within_a_second() {
    let mut app = TestApp::builder().alive().start().await;
    let mut terms = app.terms(1, 1).await;
    terms["pay_within_s"] = json!(1);
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut buyers = app.buyers(2).await;
    let placed = order(&mut buyers[0], &sale, 1).await.json();
    refused(&order(&mut buyers[1], &sale, 1).await, 409, "sold_out");
    let pay_by: Moment = placed["pay_by"].as_str().unwrap().parse().unwrap();
    let bought_at = eventually("the unit is on sale again", async || {
        let answer = order(&mut buyers[1], &sale, 1).await;
        if answer.status == 201 { Ok(Clock::System.now()) } else { Err(answer.code()) }
    })
    .await;
    assert!(bought_at >= pay_by, "sold before the deadline");
    assert!(bought_at <= pay_by + Duration::from_secs(1), "{bought_at} is more than a second after {pay_by}");
    assert_eq!(state(&mut buyers[0], placed["id"].as_str().unwrap()).await, "expired");
}
