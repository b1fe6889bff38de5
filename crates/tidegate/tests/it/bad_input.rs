//! Invalid input: each case is refused with a specific status and code, and changes nothing.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{ADMIN_KEY, TestApp, order, refused};

/// Asserts that the answer is a validation error about this field.
fn wrong_field(answer: &Answer, field: &str) {
    refused(answer, 422, "validation_failed");
    let errors = answer.json()["errors"].clone();
    assert!(errors.get(field).is_some_and(|what| !what.as_str().unwrap().is_empty()), "{field}: {errors}");
}

async fn raw(client: &mut Client, path: &str, token: &str, kind: &str, body: &[u8]) -> Answer {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", "test")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", kind)
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    client.exchange(request).await.unwrap()
}

#[tokio::test]
async fn orders_with_wrong_bodies_change_nothing() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 5).await;
    let mut buyer = app.buyer().await;
    for quantity in [0, -1, 101, i64::MAX, i64::MIN] {
        wrong_field(&order(&mut buyer, &sale, quantity).await, "quantity");
    }
    let path = format!("/v1/sales/{sale}/orders");
    for (body, field) in [
        (json!({}), "quantity"),
        (json!({"quantity": "1"}), "quantity"),
        (json!({"quantity": 1.5}), "quantity"),
        (json!({"quantity": null}), "quantity"),
        (json!({"quantity": 1, "price": 1}), "price"),
        (json!([1]), "body"),
        (json!("x"), "body"),
        (json!(null), "body"),
    ] {
        wrong_field(&buyer.post(&path, &body).await.unwrap(), field);
    }
    let huge: Value = serde_json::from_str("{\"quantity\": 99999999999999999999999999}").unwrap();
    wrong_field(&buyer.post(&path, &huge).await.unwrap(), "quantity");
    app.sound(&sale, 10, 0, 0).await;
}

#[tokio::test]
async fn bodies_that_are_not_json_are_refused() {
    let mut app = TestApp::start().await;
    let mut client = Client::new(&app.url, None).unwrap();
    let path = "/v1/admin/items";
    for body in ["", "{", "{\"name\": ", "{} {}", "name=x", "\u{0}", "[[[[[["] {
        let answer = raw(&mut client, path, ADMIN_KEY, "application/json", body.as_bytes()).await;
        assert!(
            matches!(
                (answer.status, answer.code().as_str()),
                (400, "malformed_json") | (422, "validation_failed")
            ),
            "{body:?}: {:?}",
            answer.body
        );
    }
    refused(
        &raw(&mut client, path, ADMIN_KEY, "application/json", &[0xff, 0xfe]).await,
        400,
        "malformed_json",
    );
    let deep = "[".repeat(10_000);
    refused(
        &raw(&mut client, path, ADMIN_KEY, "application/json", deep.as_bytes()).await,
        422,
        "validation_failed",
    );
    refused(&raw(&mut client, path, ADMIN_KEY, "text/plain", b"{}").await, 415, "unsupported_media_type");
    let large = vec![b' '; 16_385];
    refused(&raw(&mut client, path, ADMIN_KEY, "application/json", &large).await, 413, "body_too_large");
    app.item().await;
    assert_eq!(app.operator.get("/v1/items").await.unwrap().json()["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sales_with_wrong_terms_are_refused_field_by_field() {
    let mut app = TestApp::start().await;
    let terms = app.terms(10, 5).await;
    for (field, value, named) in [
        ("stock", json!(0), "stock"),
        ("stock", json!(-5), "stock"),
        ("stock", json!(10_000_001), "stock"),
        ("price", json!({"amount": -1, "currency": "CNY"}), "price.amount"),
        ("price", json!({"amount": 1, "currency": "cny"}), "price.currency"),
        ("price", json!({"amount": 1}), "price.currency"),
        ("price", json!({"amount": 1, "currency": "CNY", "cents": 1}), "price.cents"),
        ("starts_at", json!("2026-04-30T10:00:00Z"), "starts_at"),
        ("starts_at", json!("tomorrow"), "starts_at"),
        ("starts_at", json!("2026-05-01T10:00:00"), "starts_at"),
        ("ends_at", json!("2026-05-01T10:00:00Z"), "ends_at"),
        ("ends_at", json!("2026-05-01T09:00:00Z"), "ends_at"),
        ("ends_at", json!("2036-05-01T09:00:00Z"), "ends_at"),
        ("per_user_limit", json!(0), "per_user_limit"),
        ("pay_within_s", json!(0), "pay_within_s"),
        ("pay_within_s", json!(99_999_999), "pay_within_s"),
        ("item_id", json!("nonsense"), "item_id"),
        ("item_id", json!("0123456789ABC"), "item_id"),
        ("shards", json!(0), "shards"),
        ("discount", json!(5), "discount"),
        ("protect", json!({"challenge": "riddle"}), "protect.challenge"),
        ("protect", json!({"challenge": "pow", "pow_difficulty": 7}), "protect.pow_difficulty"),
        ("protect", json!({"pass": true, "pass_factor": 0}), "protect.pass_factor"),
        ("protect", json!({"pas": true}), "protect.pas"),
        ("protect", json!({"admit_per_s": 0}), "protect.admit_per_s"),
    ] {
        let mut wrong = terms.clone();
        wrong[field] = value;
        let answer = app.operator.post("/v1/admin/sales", &wrong).await.unwrap();
        wrong_field(&answer, named);
    }
    let mut two = terms.clone();
    two["stock"] = json!(0);
    two["per_user_limit"] = json!(0);
    let answer = app.operator.post("/v1/admin/sales", &two).await.unwrap();
    wrong_field(&answer, "stock");
    wrong_field(&answer, "per_user_limit");
    assert_eq!(app.operator.get("/v1/admin/sales").await.unwrap().json()["data"], json!([]));
}

#[tokio::test]
async fn items_with_wrong_terms_are_refused() {
    let mut app = TestApp::start().await;
    let price = json!({"amount": 1, "currency": "CNY"});
    for (body, field) in [
        (json!({"name": "", "price": price}), "name"),
        (json!({"name": "x".repeat(201), "price": price}), "name"),
        (json!({"name": "a\u{7}b", "price": price}), "name"),
        (json!({"name": "x"}), "price"),
        (json!({"name": "x", "price": price, "image_url": "javascript:alert(1)"}), "image_url"),
    ] {
        wrong_field(&app.operator.post("/v1/admin/items", &body).await.unwrap(), field);
    }
}

#[tokio::test]
async fn restocks_and_token_counts_have_bounds() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 5).await;
    let path = format!("/v1/admin/sales/{sale}/restock");
    for units in [0, 10_000_001, -10_000_001, 9_999_999, i64::MIN] {
        wrong_field(&app.operator.post(&path, &json!({"units": units})).await.unwrap(), "units");
    }
    for count in [0, -1, 100_001] {
        wrong_field(&app.operator.post("/v1/admin/tokens", &json!({"count": count})).await.unwrap(), "count");
    }
    app.sound(&sale, 10, 0, 0).await;
}

#[tokio::test]
async fn malformed_ids_are_not_found() {
    let mut app = TestApp::start().await;
    let mut buyer = app.buyer().await;
    for id in ["0", "0123456789ABC", "ZZZZZZZZZZZZZ", "%00", "%ff", "..%2f..%2fetc", "1%27%20OR%201=1", "💥"]
    {
        let id = id.replace('💥', "%F0%9F%92%A5");
        refused(&buyer.get(&format!("/v1/orders/{id}")).await.unwrap(), 404, "not_found");
        refused(&buyer.get(&format!("/v1/sales/{id}")).await.unwrap(), 404, "not_found");
        refused(&buyer.get(&format!("/v1/items/{id}")).await.unwrap(), 404, "not_found");
        refused(&order(&mut buyer, &id, 1).await, 404, "not_found");
        let publish = format!("/v1/admin/sales/{id}/publish");
        let answer = app.operator.send(Method::POST, &publish, None, None).await.unwrap();
        refused(&answer, 404, "not_found");
    }
    let sale = app.sale(1, 1).await;
    refused(&buyer.get(&format!("/v1/orders/{sale}")).await.unwrap(), 404, "not_found");
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let mut app = TestApp::start().await;
    let sale = app.sale(1, 1).await;
    let buyer_token =
        app.operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&json!({"count": 1}))).await.unwrap();
    let buyer_token = buyer_token["tokens"][0].as_str().unwrap().to_owned();
    let mut client = Client::new(&app.url, None).unwrap();
    for token in ["", "x", "Bearer", "an-admin-key-for-test", &buyer_token] {
        for (method, path) in [
            (Method::GET, "/v1/admin/sales".to_owned()),
            (Method::POST, "/v1/admin/tokens".to_owned()),
            (Method::POST, format!("/v1/admin/sales/{sale}/publish")),
            (Method::POST, format!("/v1/admin/sales/{sale}/restock")),
        ] {
            let answer =
                client.send_as(token, method, &path, Some("{\"count\":1}".into()), None).await.unwrap();
            refused(&answer, 401, "unauthenticated");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    for token in ["", "x", ADMIN_KEY] {
        let answer = client.send_as(token, Method::GET, "/v1/orders", None, None).await.unwrap();
        refused(&answer, 401, "unauthenticated");
    }
    app.sound(&sale, 1, 0, 0).await;
}

#[tokio::test]
async fn tokens_expire_and_are_minted_only_where_allowed() {
    let mut app = TestApp::start().await;
    let mut buyer = app.buyer().await;
    assert_eq!(buyer.get("/v1/orders").await.unwrap().status, 200);
    app.clock.advance(std::time::Duration::from_secs(24 * 3600));
    refused(&buyer.get("/v1/orders").await.unwrap(), 401, "unauthenticated");
    let mut strict = TestApp::builder().with("TIDEGATE_TEST_TOKENS", "false").start().await;
    let answer = strict.operator.post("/v1/admin/tokens", &json!({"count": 1})).await.unwrap();
    refused(&answer, 403, "forbidden");
}

#[tokio::test]
async fn pagination_and_idempotency_keys_are_validated() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 5).await;
    let mut buyer = app.buyer().await;
    for query in ["limit=0", "limit=1001", "limit=x", "limit=-1"] {
        wrong_field(&buyer.get(&format!("/v1/orders?{query}")).await.unwrap(), "limit");
    }
    wrong_field(&buyer.get("/v1/orders?cursor=nonsense").await.unwrap(), "cursor");
    wrong_field(&buyer.get("/v1/orders?page=2").await.unwrap(), "query");
    wrong_field(&app.operator.get("/v1/admin/orders?state=lost").await.unwrap(), "state");
    wrong_field(&app.operator.get("/v1/admin/orders?sale_id=x").await.unwrap(), "sale_id");
    let path = format!("/v1/sales/{sale}/orders");
    for key in [String::new(), "x".repeat(256)] {
        let answer =
            buyer.send(Method::POST, &path, Some("{\"quantity\":1}".into()), Some(&key)).await.unwrap();
        wrong_field(&answer, "Idempotency-Key");
    }
    let answer = buyer.post(&format!("/v1/orders/{sale}/pay"), &json!({"method": "gold"})).await.unwrap();
    assert!(matches!(answer.status, 404 | 422));
    app.sound(&sale, 5, 0, 0).await;
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems() {
    let mut app = TestApp::start().await;
    refused(&app.operator.get("/v1/nothing").await.unwrap(), 404, "not_found");
    let answer = app.operator.send(Method::DELETE, "/v1/sales", None, None).await.unwrap();
    refused(&answer, 405, "method_not_allowed");
}
