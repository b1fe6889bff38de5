//! The lifecycle of a sale, by time and by operators: draft, approval, publishing, pause, restock, close, reopening.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, bought, order, refused};

async fn restock(app: &mut TestApp, sale: &str, units: i64) -> Value {
    let path = format!("/v1/admin/sales/{sale}/restock");
    app.operator.expect(200, Method::POST, &path, Some(&json!({"units": units}))).await.unwrap()
}

#[tokio::test]
async fn a_sale_opens_and_closes_at_its_times() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(5, 1).await;
    terms["starts_at"] = json!("2026-05-01T10:00:10Z");
    terms["ends_at"] = json!("2026-05-01T10:00:20Z");
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut buyers = app.buyers(2).await;
    let path = format!("/v1/sales/{sale}");
    assert_eq!(buyers[0].get(&path).await.unwrap().json()["state"], "upcoming");
    refused(&order(&mut buyers[0], &sale, 1).await, 409, "not_started");
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(buyers[0].get(&path).await.unwrap().json()["state"], "live");
    let id = bought(&mut buyers[0], &sale, 1).await;
    app.clock.advance(Duration::from_secs(10));
    refused(&order(&mut buyers[1], &sale, 1).await, 409, "ended");
    app.app.campaigns.open_and_close_due().await.unwrap();
    assert_eq!(buyers[0].get(&path).await.unwrap().json()["state"], "ended");
    let admin = app.operator.get(&format!("/v1/admin/sales/{sale}")).await.unwrap().json();
    assert_eq!((&admin["state"], &admin["counters"]["available"]), (&json!("closed"), &json!(4)));
    assert_eq!(
        crate::support::pay(&mut buyers[0], &id).await.status,
        200,
        "an order may be paid after the end"
    );
}

#[tokio::test]
async fn opening_and_closing_are_announced_once_by_the_clock() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    for _ in 0..3 {
        app.app.campaigns.open_and_close_due().await.unwrap();
    }
    app.clock.advance(Duration::from_secs(3600));
    for _ in 0..3 {
        app.app.campaigns.open_and_close_due().await.unwrap();
    }
    let log = app.operator.get(&format!("/v1/admin/events?sale_id={sale}")).await.unwrap().json();
    let events: Vec<_> = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["kind"].as_str().unwrap(), event["actor"].as_str().unwrap()))
        .collect();
    assert_eq!(
        events,
        [
            ("sale.closed", "clock"),
            ("sale.opened", "clock"),
            ("sale.published", "operator"),
            ("sale.created", "operator")
        ]
    );
}

#[tokio::test]
async fn pausing_stops_selling_and_resuming_goes_on() {
    let mut app = TestApp::start().await;
    let sale = app.sale(2, 1).await;
    let mut buyers = app.buyers(2).await;
    bought(&mut buyers[0], &sale, 1).await;
    assert_eq!(app.step(&sale, "pause").await["state"], "paused");
    refused(&order(&mut buyers[1], &sale, 1).await, 409, "paused");
    app.step(&sale, "resume").await;
    bought(&mut buyers[1], &sale, 1).await;
    let again =
        app.operator.send(Method::POST, &format!("/v1/admin/sales/{sale}/resume"), None, None).await.unwrap();
    refused(&again, 409, "wrong_state");
}

#[tokio::test]
async fn restock_adds_units_and_withdraws_only_free_ones() {
    let mut app = TestApp::start().await;
    let sale = app.sale(2, 5).await;
    let mut buyer = app.buyer().await;
    bought(&mut buyer, &sale, 2).await;
    refused(&order(&mut buyer, &sale, 1).await, 409, "sold_out");
    let up = restock(&mut app, &sale, 3).await;
    assert_eq!((&up["stock"], &up["units_changed"]), (&json!(5), &json!(3)));
    bought(&mut buyer, &sale, 1).await;
    app.sound(&sale, 2, 3, 0).await;
    let down = restock(&mut app, &sale, -10).await;
    assert_eq!((&down["stock"], &down["units_changed"]), (&json!(3), &json!(-2)));
    app.sound(&sale, 0, 3, 0).await;
    let path = format!("/v1/admin/sales/{sale}/restock");
    let none = app.operator.post(&path, &json!({"units": -1})).await.unwrap();
    refused(&none, 409, "no_free_units");
    restock(&mut app, &sale, 1).await;
    bought(&mut buyer, &sale, 1).await;
    app.sound(&sale, 0, 4, 0).await;
}

#[tokio::test]
async fn a_repeated_restock_with_the_same_key_adds_once() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let path = format!("/v1/admin/sales/{sale}/restock");
    for _ in 0..3 {
        let body = Some(json!({"units": 5}).to_string());
        let answer = app.operator.send(Method::POST, &path, body, Some("monday")).await.unwrap();
        assert_eq!((answer.status, &answer.json()["stock"]), (200, &json!(6)));
        assert_eq!(answer.json()["units_changed"], 5);
    }
    let other = app
        .operator
        .send(Method::POST, &path, Some(json!({"units": 6}).to_string()), Some("monday"))
        .await
        .unwrap();
    refused(&other, 422, "idempotency_key_reused");
    app.sound(&sale, 6, 0, 0).await;
}

#[tokio::test]
async fn where_approval_is_configured_a_draft_needs_it() {
    let mut app = TestApp::builder().with("TIDEGATE__SALES__REQUIRE_APPROVAL", "true").start().await;
    let terms = app.terms(1, 1).await;
    let sale = app.draft(&terms).await;
    let publish = format!("/v1/admin/sales/{sale}/publish");
    let answer = app.operator.send(Method::POST, &publish, None, None).await.unwrap();
    refused(&answer, 409, "approval_required");
    assert_eq!(app.step(&sale, "submit").await["state"], "in_review");
    assert_eq!(app.step(&sale, "refuse").await["state"], "draft");
    app.step(&sale, "submit").await;
    assert_eq!(app.step(&sale, "approve").await["state"], "approved");
    assert_eq!(app.step(&sale, "publish").await["state"], "live");
}

#[tokio::test]
async fn a_draft_can_be_edited_and_a_published_sale_cannot() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(1, 1).await;
    let sale = app.draft(&terms).await;
    terms["stock"] = json!(7);
    let path = format!("/v1/admin/sales/{sale}");
    let edited = app.operator.expect(200, Method::PUT, &path, Some(&terms)).await.unwrap();
    assert_eq!(edited["stock"], 7);
    app.step(&sale, "publish").await;
    let answer = app.operator.send(Method::PUT, &path, Some(terms.to_string()), None).await.unwrap();
    refused(&answer, 409, "wrong_state");
    app.sound(&sale, 7, 0, 0).await;
}

#[tokio::test]
async fn a_closed_sale_is_reopened_with_what_is_left() {
    let mut app = TestApp::start().await;
    let sale = app.sale(3, 1).await;
    let mut buyers = app.buyers(3).await;
    bought(&mut buyers[0], &sale, 1).await;
    app.step(&sale, "close").await;
    refused(&order(&mut buyers[1], &sale, 1).await, 409, "ended");
    let path = format!("/v1/admin/sales/{sale}/reopen");
    let past = app.operator.post(&path, &json!({"ends_at": "2026-05-01T09:00:00Z"})).await.unwrap();
    refused(&past, 422, "validation_failed");
    let ends_at = json!({"ends_at": "2026-05-01T12:00:00Z"});
    app.operator.expect(200, Method::POST, &path, Some(&ends_at)).await.unwrap();
    refused(&order(&mut buyers[0], &sale, 1).await, 409, "limit_reached");
    bought(&mut buyers[1], &sale, 1).await;
    bought(&mut buyers[2], &sale, 1).await;
    app.sound(&sale, 0, 3, 0).await;
}

#[tokio::test]
async fn buyers_see_published_sales_only() {
    let mut app = TestApp::start().await;
    let terms = app.terms(4, 2).await;
    let draft = app.draft(&terms).await;
    let sale = app.sale(4, 2).await;
    let mut buyer = app.buyer().await;
    refused(&buyer.get(&format!("/v1/sales/{draft}")).await.unwrap(), 404, "not_found");
    let list = buyer.get("/v1/sales").await.unwrap().json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    let shown = &list["data"][0];
    assert_eq!(
        (&shown["id"], &shown["stock_left"], &shown["item"]["name"]),
        (&json!(sale), &json!(4), &json!("Lamp"))
    );
    assert_eq!(
        (&shown["price"]["amount"], &shown["server_time"]),
        (&json!(9900), &json!("2026-05-01T10:00:00.000Z"))
    );
    let all = app.operator.get("/v1/admin/sales").await.unwrap().json();
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_items_new_price_does_not_change_a_sale() {
    let mut app = TestApp::start().await;
    let sale = app.sale(4, 2).await;
    let item = app.operator.get(&format!("/v1/sales/{sale}")).await.unwrap().json()["item"]["id"].clone();
    let path = format!("/v1/admin/items/{}", item.as_str().unwrap());
    let patch = json!({"name": "New lamp", "price": {"amount": 1, "currency": "CNY"}});
    app.operator.expect(200, Method::PATCH, &path, Some(&patch)).await.unwrap();
    let shown = app.operator.get(&format!("/v1/sales/{sale}")).await.unwrap().json();
    assert_eq!((&shown["item"]["name"], &shown["price"]["amount"]), (&json!("New lamp"), &json!(9900)));
}
