//! Payments, late payments and refunds: an order is either paid or returned.

use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tidegate_core::{Money, OrderId, UserId};
use tidegate_ledger::{Actor, Payment};
use tidegate_testing::eventually;

use crate::support::{TestApp, bought, pay, refused, state};

#[tokio::test]
async fn paying_twice_charges_once() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyer = app.buyer().await;
    let id = bought(&mut buyer, &sale, 1).await;
    for _ in 0..3 {
        assert_eq!(pay(&mut buyer, &id).await.json()["state"], "paid");
    }
    let shown = app.operator.get(&format!("/v1/admin/orders/{id}")).await.unwrap().json();
    assert_eq!(shown["refunds"], json!([]));
    app.sound(&sale, 0, 0, 1).await;
}

#[tokio::test]
async fn a_paid_order_can_be_refunded_by_an_operator_only_and_its_unit_is_sold_again() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyers = app.buyers(2).await;
    let id = bought(&mut buyers[0], &sale, 1).await;
    let path = format!("/v1/admin/orders/{id}/refund");
    let early = app.operator.send(Method::POST, &path, None, None).await.unwrap();
    refused(&early, 409, "order_awaiting_payment");
    pay(&mut buyers[0], &id).await;
    let cancel = crate::support::cancel(&mut buyers[0], &id).await;
    refused(&cancel, 409, "order_paid");
    for _ in 0..2 {
        let refunded = app.operator.expect(200, Method::POST, &path, None).await.unwrap();
        assert_eq!(
            (&refunded["state"], refunded["refunds"].as_array().unwrap().len()),
            (&json!("refunded"), 1)
        );
    }
    bought(&mut buyers[1], &sale, 1).await;
    app.sound(&sale, 0, 1, 0).await;
    app.app.ordering.process_refunds().await.unwrap();
    let shown = app.operator.get(&format!("/v1/admin/orders/{id}")).await.unwrap().json();
    assert_eq!(shown["refunds"][0]["done"], true);
    assert_eq!(app.app.ordering.process_refunds().await.unwrap(), 0, "a refund is paid out once");
}

#[tokio::test]
async fn late_payment_is_refunded_once() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyer = app.buyer().await;
    let id = bought(&mut buyer, &sale, 1).await;
    app.recorded().await;
    app.clock.advance(Duration::from_secs(600));
    refused(&pay(&mut buyer, &id).await, 409, "order_expired");
    app.app.ordering.expire_due().await.unwrap();
    let order: OrderId = app.app.parse(&id).unwrap();
    let payment = Payment {
        provider: "sandbox".into(),
        reference: "late".into(),
        order,
        amount: Money { amount: 9_900, currency: "CNY".parse().unwrap() },
    };
    for _ in 0..3 {
        let refusal =
            app.app.ordering.settle(payment.clone(), Actor::Buyer(UserId::from_raw(1))).await.unwrap_err();
        assert!(
            matches!(
                refusal,
                tidegate_app::Refusal::Conflict { code: tidegate_core::ProblemCode::OrderExpired, .. }
            ),
            "{refusal:?}"
        );
    }
    let shown = app.operator.get(&format!("/v1/admin/orders/{id}")).await.unwrap().json();
    assert_eq!((&shown["state"], shown["refunds"].as_array().unwrap().len()), (&json!("expired"), 1));
    app.sound(&sale, 1, 0, 0).await;
}

/// A thousand payments race with the expiry of their orders, on the system clock.
#[tokio::test(flavor = "multi_thread")]
async fn pay_against_expiry_is_always_paid_xor_returned() {
    let mut app = TestApp::builder().alive().with("TIDEGATE__PAYMENT__SANDBOX_DELAY_MS", "3").start().await;
    let mut terms = app.terms(1000, 1).await;
    terms["pay_within_s"] = json!(1);
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut races = tokio::task::JoinSet::new();
    for (number, mut buyer) in app.buyers(1000).await.into_iter().enumerate() {
        let sale = sale.clone();
        races.spawn(async move {
            let answer = crate::support::order(&mut buyer, &sale, 1).await;
            let placed = answer.json();
            let id = placed["id"].as_str().unwrap().to_owned();
            let pay_by: tidegate_core::Moment = placed["pay_by"].as_str().unwrap().parse().unwrap();
            // Payments start between 12 ms before and 4 ms after the deadline.
            let aim = pay_by - Duration::from_millis(12) + Duration::from_millis(number as u64 % 17);
            tokio::time::sleep(tidegate_app::clock::Clock::System.now().until(aim)).await;
            (pay(&mut buyer, &id).await, id, buyer)
        });
    }
    let mut outcomes = races.join_all().await;
    eventually("everything unpaid expires", async || match &app.counters(&sale).await["awaiting_payment"] {
        unpaid if *unpaid == 0 => Ok(()),
        unpaid => Err(unpaid.clone()),
    })
    .await;
    let mut paid = 0;
    for (answer, id, buyer) in &mut outcomes {
        if answer.status == 200 {
            paid += 1;
            assert_eq!(state(buyer, id).await, "paid");
        } else {
            refused(answer, 409, "order_expired");
            assert_eq!(state(buyer, id).await, "expired");
        }
    }
    app.sound(&sale, 1000 - paid, 0, paid).await;
    assert!((1..1000).contains(&paid), "both payment and expiry must win some races: {paid} were paid");
}
