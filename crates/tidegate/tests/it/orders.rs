//! Orders: placing, order of checks, limits, visibility, cancelling, listing.

use hyper::Method;
use serde_json::json;

use crate::support::{TestApp, bought, cancel, order, pay, refused, state};

#[tokio::test]
async fn an_order_goes_from_placed_to_paid() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 2).await;
    let mut buyer = app.buyer().await;
    let placed = order(&mut buyer, &sale, 2).await;
    assert_eq!(placed.status, 201);
    let body = placed.json();
    assert_eq!(placed.headers["location"], format!("/v1/orders/{}", body["id"].as_str().unwrap()));
    assert_eq!((&body["state"], &body["units"]), (&json!("awaiting_payment"), &json!([1, 2])));
    assert_eq!(body["total"], json!({"amount": 19_800, "currency": "CNY"}));
    assert_eq!(body["pay_by"], "2026-05-01T10:10:00.000Z");
    assert_eq!(body["id"].as_str().unwrap().len(), 13);
    let id = body["id"].as_str().unwrap();
    let paid = pay(&mut buyer, id).await;
    assert_eq!((paid.status, &paid.json()["state"]), (200, &json!("paid")));
    app.sound(&sale, 8, 0, 2).await;
}

#[tokio::test]
async fn checks_come_in_the_published_order() {
    let mut app = TestApp::start().await;
    let mut stranger = tidegate_rehearse::client::Client::new(&app.url, Some("nobody")).unwrap();
    refused(&order(&mut stranger, "0000000000000", 1).await, 404, "not_found");
    let mut terms = app.terms(1, 1).await;
    terms["starts_at"] = json!("2026-05-01T10:30:00Z");
    let upcoming = app.draft(&terms).await;
    refused(&order(&mut stranger, &upcoming, 1).await, 404, "not_found");
    app.step(&upcoming, "publish").await;
    refused(&order(&mut stranger, &upcoming, 1).await, 409, "not_started");
    let sale = app.sale(1, 1).await;
    refused(&order(&mut stranger, &sale, 1).await, 401, "unauthenticated");
    let mut buyer = app.buyer().await;
    bought(&mut buyer, &sale, 1).await;
    refused(&order(&mut stranger, &sale, 1).await, 409, "sold_out");
    refused(&order(&mut buyer, &sale, 1).await, 409, "sold_out");
    app.step(&sale, "pause").await;
    refused(&order(&mut stranger, &sale, 1).await, 409, "paused");
    app.step(&sale, "close").await;
    refused(&order(&mut stranger, &sale, 1).await, 409, "ended");
}

#[tokio::test]
async fn limits_hold_per_buyer() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 3).await;
    let mut buyers = app.buyers(2).await;
    bought(&mut buyers[0], &sale, 2).await;
    refused(&order(&mut buyers[0], &sale, 2).await, 409, "limit_reached");
    bought(&mut buyers[0], &sale, 1).await;
    refused(&order(&mut buyers[0], &sale, 1).await, 409, "limit_reached");
    bought(&mut buyers[1], &sale, 3).await;
    app.sound(&sale, 4, 6, 0).await;
}

#[tokio::test]
async fn a_crowd_buys_exactly_the_stock() {
    let mut app = TestApp::start().await;
    let sale = app.sale(50, 1).await;
    let mut crowd = tokio::task::JoinSet::new();
    for mut buyer in app.buyers(200).await {
        let sale = sale.clone();
        crowd.spawn(async move { order(&mut buyer, &sale, 1).await });
    }
    let answers = crowd.join_all().await;
    let mut units: Vec<u64> = answers
        .iter()
        .filter(|answer| answer.status == 201)
        .map(|answer| answer.json()["units"][0].as_u64().unwrap())
        .collect();
    units.sort_unstable();
    assert!(units.iter().copied().eq(1..=50), "each unit once: {units:?}");
    assert_eq!(answers.iter().filter(|answer| answer.code() == "sold_out").count(), 150);
    app.sound(&sale, 0, 50, 0).await;
}

#[tokio::test]
async fn another_buyers_order_is_not_found() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut buyers = app.buyers(2).await;
    let id = bought(&mut buyers[0], &sale, 1).await;
    for (method, path) in [
        (Method::GET, format!("/v1/orders/{id}")),
        (Method::GET, format!("/v1/orders/{id}/stream")),
        (Method::POST, format!("/v1/orders/{id}/cancel")),
    ] {
        let answer = buyers[1].send(method, &path, None, None).await.unwrap();
        refused(&answer, 404, "not_found");
    }
    refused(&pay(&mut buyers[1], &id).await, 404, "not_found");
    assert_eq!(buyers[1].get("/v1/orders").await.unwrap().json()["data"], json!([]));
    assert_eq!(state(&mut buyers[0], &id).await, "awaiting_payment");
}

#[tokio::test]
async fn a_cancelled_unit_is_sold_again_and_counts_once() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyers = app.buyers(2).await;
    let first = bought(&mut buyers[0], &sale, 1).await;
    refused(&order(&mut buyers[1], &sale, 1).await, 409, "sold_out");
    for _ in 0..2 {
        let cancelled = cancel(&mut buyers[0], &first).await;
        assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));
    }
    app.sound(&sale, 1, 0, 0).await;
    let second = order(&mut buyers[1], &sale, 1).await;
    assert_eq!((second.status, &second.json()["units"]), (201, &json!([1])));
    refused(&pay(&mut buyers[0], &first).await, 409, "order_cancelled");
    app.sound(&sale, 0, 1, 0).await;
}

#[tokio::test]
async fn orders_are_listed_newest_first_in_pages() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 10).await;
    let mut buyer = app.buyer().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(bought(&mut buyer, &sale, 1).await);
    }
    ids.reverse();
    let mut listed = Vec::new();
    let mut path = "/v1/orders?limit=2".to_owned();
    loop {
        let page = buyer.get(&path).await.unwrap().json();
        listed.extend(
            page["data"].as_array().unwrap().iter().map(|order| order["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/orders?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, ids);
    let admin =
        app.operator.get(&format!("/v1/admin/orders?sale_id={sale}&state=awaiting_payment")).await.unwrap();
    assert_eq!(admin.json()["data"].as_array().unwrap().len(), 5);
    let none = app.operator.get(&format!("/v1/admin/orders?sale_id={sale}&state=paid")).await.unwrap();
    assert_eq!(none.json()["data"], json!([]));
}

#[tokio::test]
async fn operators_cancel_for_a_buyer() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyer = app.buyer().await;
    let id = bought(&mut buyer, &sale, 1).await;
    let path = format!("/v1/admin/orders/{id}/cancel");
    app.operator.expect(200, Method::POST, &path, None).await.unwrap();
    assert_eq!(state(&mut buyer, &id).await, "cancelled");
    let log = app.operator.get(&format!("/v1/admin/events?sale_id={sale}")).await.unwrap().json();
    let kinds: Vec<_> = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["kind"].clone(), event["actor"].clone()))
        .collect();
    assert_eq!(kinds[0], (json!("order.cancelled"), json!("operator")));
    assert_eq!(kinds[1].0, "order.created");
    assert!(kinds[1].1.as_str().unwrap().starts_with("buyer:"));
    assert_eq!(kinds.last().unwrap().0, "sale.created");
}
