//! Idempotency keys: a repeated request gets the first answer and changes nothing.

use hyper::Method;
use serde_json::json;
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, cancel, refused};

async fn order_with_key(buyer: &mut Client, sale: &str, quantity: i64, key: &str) -> Answer {
    let body = Some(json!({"quantity": quantity}).to_string());
    buyer.send(Method::POST, &format!("/v1/sales/{sale}/orders"), body, Some(key)).await.unwrap()
}

#[tokio::test]
async fn a_repeated_order_is_the_same_order() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 5).await;
    let mut buyer = app.buyer().await;
    let first = order_with_key(&mut buyer, &sale, 1, "k").await;
    assert_eq!(first.status, 201);
    for recorded in [false, true] {
        if recorded {
            app.recorded().await;
        }
        let again = order_with_key(&mut buyer, &sale, 1, "k").await;
        assert_eq!((again.status, again.json()["id"].clone()), (201, first.json()["id"].clone()));
        assert_eq!(again.headers["idempotency-replayed"], "true");
        refused(&order_with_key(&mut buyer, &sale, 2, "k").await, 422, "idempotency_key_reused");
    }
    assert_eq!(order_with_key(&mut buyer, &sale, 1, "other").await.status, 201);
    app.sound(&sale, 8, 2, 0).await;
}

#[tokio::test]
async fn a_key_belongs_to_its_buyer_and_its_sale() {
    let mut app = TestApp::start().await;
    let sales = [app.sale(10, 5).await, app.sale(10, 5).await];
    let mut buyers = app.buyers(2).await;
    let first = order_with_key(&mut buyers[0], &sales[0], 1, "k").await;
    let other = order_with_key(&mut buyers[1], &sales[0], 1, "k").await;
    assert_ne!(first.json()["id"], other.json()["id"]);
    refused(&order_with_key(&mut buyers[0], &sales[1], 1, "k").await, 422, "idempotency_key_reused");
}

#[tokio::test]
async fn a_repeated_order_is_answered_even_when_the_sale_is_sold_out_or_over() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyers = app.buyers(2).await;
    let first = order_with_key(&mut buyers[0], &sale, 1, "k").await.json();
    assert_eq!(
        order_with_key(&mut buyers[0], &sale, 1, "k").await.json(),
        first,
        "sold out, but a repeated request gets its order"
    );
    refused(&order_with_key(&mut buyers[1], &sale, 1, "k").await, 409, "sold_out");
    app.step(&sale, "close").await;
    let again = order_with_key(&mut buyers[0], &sale, 1, "k").await.json();
    assert_eq!(again["id"], first["id"]);
    refused(&order_with_key(&mut buyers[1], &sale, 1, "k").await, 409, "ended");
}

#[tokio::test]
async fn a_refusal_does_not_use_the_key_up() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let mut buyers = app.buyers(2).await;
    let first = order_with_key(&mut buyers[0], &sale, 1, "a").await.json();
    refused(&order_with_key(&mut buyers[1], &sale, 1, "b").await, 409, "sold_out");
    cancel(&mut buyers[0], first["id"].as_str().unwrap()).await;
    assert_eq!(order_with_key(&mut buyers[1], &sale, 1, "b").await.status, 201);
    let replay = order_with_key(&mut buyers[0], &sale, 1, "a").await.json();
    assert_eq!(
        (&replay["id"], &replay["state"]),
        (&first["id"], &json!("cancelled")),
        "the order in its current state"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_with_one_key_create_one_order() {
    let mut app = TestApp::start().await;
    let sale = app.sale(50, 50).await;
    let token =
        app.operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&json!({"count": 1}))).await.unwrap();
    let token = token["tokens"][0].as_str().unwrap().to_owned();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let mut client = Client::new(&app.url, Some(&token)).unwrap();
        let sale = sale.clone();
        tasks.spawn(async move { order_with_key(&mut client, &sale, 1, "one").await });
    }
    let mut ids = std::collections::HashSet::new();
    for answer in tasks.join_all().await {
        match answer.status {
            201 => {
                ids.insert(answer.json()["id"].to_string());
            }
            _ => refused(&answer, 409, "idempotency_in_flight"),
        }
    }
    assert_eq!(ids.len(), 1);
    app.sound(&sale, 49, 1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_admin_requests_with_one_key_create_one_resource() {
    let app = TestApp::start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut client = Client::new(&app.url, Some(crate::support::ADMIN_KEY)).unwrap();
        tasks.spawn(async move {
            let body = json!({"name": "Cup", "price": {"amount": 1, "currency": "EUR"}}).to_string();
            let item = client.send(Method::POST, "/v1/admin/items", Some(body), Some("k")).await.unwrap();
            let body = json!({"count": 3}).to_string();
            let tokens = client.send(Method::POST, "/v1/admin/tokens", Some(body), Some("k")).await.unwrap();
            assert_eq!((item.status, tokens.status), (201, 201));
            (item.json()["id"].to_string(), tokens.json().to_string())
        });
    }
    let answers: std::collections::HashSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn a_repeated_creation_of_a_sale_succeeds_after_its_start() {
    let mut app = TestApp::start().await;
    let terms = app.terms(3, 1).await.to_string();
    let first =
        app.operator.send(Method::POST, "/v1/admin/sales", Some(terms.clone()), Some("k")).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(1800));
    let again = app.operator.send(Method::POST, "/v1/admin/sales", Some(terms), Some("k")).await.unwrap();
    assert_eq!((again.status, first.json()), (201, again.json()));
}

#[tokio::test]
async fn idempotency_keys_work_for_every_admin_creation() {
    let mut app = TestApp::start().await;
    let terms = app.terms(3, 1).await;
    let item = json!({"name": "Cup", "price": {"amount": 1, "currency": "EUR"}});
    let other = json!({"name": "Mug", "price": {"amount": 1, "currency": "EUR"}});
    let mut other_terms = terms.clone();
    other_terms["stock"] = json!(4);
    for (path, body, other) in [
        ("/v1/admin/items", item, other),
        ("/v1/admin/sales", terms, other_terms),
        ("/v1/admin/tokens", json!({"count": 2}), json!({"count": 3})),
    ] {
        let first = app.operator.send(Method::POST, path, Some(body.to_string()), Some("k")).await.unwrap();
        let again = app.operator.send(Method::POST, path, Some(body.to_string()), Some("k")).await.unwrap();
        assert_eq!((first.status, again.status), (201, 201), "{path}");
        assert_eq!(first.json(), again.json(), "{path}");
        let reused = app.operator.send(Method::POST, path, Some(other.to_string()), Some("k")).await.unwrap();
        refused(&reused, 422, "idempotency_key_reused");
    }
}
