//! Delivery of prizes: every kind of prize, every time of granting, and failures that do not delay other deliveries.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_rehearse::client::Client;

use crate::draws::{played, text};
use crate::receiver::{Receiver, Reply};
use crate::support::{TestApp, refused};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

fn prize(kind: &str, fields: &Value) -> Value {
    let mut prize = json!({"name": format!("A {kind}"), "kind": kind, "odds": 1_000_000_000, "stock": 5});
    for (name, value) in fields.as_object().unwrap() {
        prize[name] = value.clone();
    }
    prize
}

fn address() -> Value {
    json!({"name": "Li Lei", "phone": "+8613800138000", "lines": ["88 Century Avenue", "Shanghai"], "country": "CN"})
}

async fn delivery(player: &mut Client, play: &Value) -> Value {
    let path = format!("/v1/plays/{}", play["id"].as_str().unwrap());
    player.expect(200, Method::GET, &path, None).await.unwrap()["delivery"].clone()
}

/// The delivery of a play, as operators see it.
async fn listed(app: &mut TestApp, play: &Value) -> Value {
    let all = app.operator.expect(200, Method::GET, "/v1/admin/deliveries?limit=1000", None).await.unwrap();
    let all = all["data"].as_array().unwrap();
    all.iter().find(|delivery| delivery["play_id"] == play["id"]).unwrap().clone()
}

async fn act(app: &mut TestApp, delivery: &Value, what: &str) -> tidegate_rehearse::client::Answer {
    let path = format!("/v1/admin/deliveries/{}/{what}", delivery["id"].as_str().unwrap());
    app.operator.send(Method::POST, &path, None, None).await.unwrap()
}

#[tokio::test]
async fn texts_and_codes_are_delivered_at_once_and_each_code_once() {
    let mut app = TestApp::start().await;
    let codes = json!({"codes": ["A1", "B2", "C3", "D4", "E5"]});
    let draw = app.draw(&json!([prize("code", &codes)]), |_| {}).await;
    let texts = app.draw(&json!([text(1_000_000_000, 1)]), |_| {}).await;
    let mut players = app.buyers(2).await;
    let mut plays = Vec::new();
    for seat in 0..5 {
        let play = played(&mut players[seat % 2], &draw, "").await;
        assert_eq!(play["delivery"], json!({"state": "new"}));
        plays.push(play);
    }
    let said = played(&mut players[0], &texts, "").await;
    app.deliver().await;
    assert_eq!(delivery(&mut players[0], &said).await, json!({"state": "delivered", "content": "Hello."}));
    let mut given = Vec::new();
    for (seat, play) in plays.iter().enumerate() {
        let delivery = delivery(&mut players[seat % 2], play).await;
        assert_eq!(delivery["state"], "delivered");
        given.push(delivery["content"].as_str().unwrap().to_owned());
    }
    given.sort();
    assert_eq!(given, ["A1", "B2", "C3", "D4", "E5"]);
    let audit = app.operator.get(&format!("/v1/admin/draws/{draw}/audit")).await.unwrap().json();
    assert_eq!(audit["ok"], true, "{audit}");
}

#[tokio::test]
async fn viewers_see_neither_prize_contents_nor_addresses() {
    let mut app = TestApp::start().await;
    let codes =
        app.draw(&json!([prize("code", &json!({"codes": ["A1", "B2", "C3", "D4", "E5"]}))]), |_| {}).await;
    let goods = app.draw(&json!([prize("goods", &json!({}))]), |_| {}).await;
    let mut player = app.buyer().await;
    let code = played(&mut player, &codes, "").await;
    let parcel = played(&mut player, &goods, "").await;
    let path = format!("/v1/plays/{}/address", parcel["id"].as_str().unwrap());
    player.expect(200, Method::PUT, &path, Some(&address())).await.unwrap();
    app.deliver().await;
    let delivery = listed(&mut app, &parcel).await;
    let one = format!("/v1/admin/deliveries/{}", delivery["id"].as_str().unwrap());
    let mut seen = Vec::new();
    for role in ["viewer", "operator"] {
        let key = json!({"name": role, "role": role});
        let key = app.operator.expect(201, Method::POST, "/v1/admin/keys", Some(&key)).await.unwrap();
        let mut machine = Client::new(&app.url, key["key"].as_str()).unwrap();
        let mut said = String::new();
        for path in ["/v1/admin/plays", "/v1/admin/deliveries", one.as_str()] {
            let answer = machine.get(path).await.unwrap();
            assert_eq!(answer.status, 200, "{path}");
            said.push_str(&answer.json().to_string());
        }
        assert!(said.contains(code["id"].as_str().unwrap()), "the role sees the play");
        seen.push((said.contains("\"content\""), said.contains("88 Century Avenue")));
    }
    assert_eq!(seen, [(false, false), (true, true)]);
}

#[tokio::test]
async fn prizes_wait_for_the_close_or_for_an_operator() {
    let mut app = TestApp::start().await;
    let later = prize("text", &json!({"content": "Later.", "grant": "at_close"}));
    let asked = prize("text", &json!({"content": "Granted.", "grant": "manual"}));
    let at_close = app.draw(&json!([later]), |_| {}).await;
    let manual = app.draw(&json!([asked]), |_| {}).await;
    let mut player = app.buyer().await;
    let (later, asked) = (played(&mut player, &at_close, "").await, played(&mut player, &manual, "").await);
    assert_eq!(later["delivery"], json!({"state": "waiting", "waits_for": "close"}));
    app.deliver().await;
    assert_eq!(delivery(&mut player, &later).await["state"], "waiting");
    app.step_draw(&at_close, "close").await;
    app.deliver().await;
    assert_eq!(delivery(&mut player, &later).await["content"], "Later.");
    let waiting = listed(&mut app, &asked).await;
    assert_eq!((&waiting["state"], &waiting["waits_for"]), (&json!("waiting"), &json!("operator")));
    refused(&act(&mut app, &waiting, "retry").await, 409, "wrong_state");
    assert_eq!(act(&mut app, &waiting, "grant").await.status, 200);
    refused(&act(&mut app, &waiting, "grant").await, 409, "wrong_state");
    app.deliver().await;
    assert_eq!(delivery(&mut player, &asked).await["content"], "Granted.");
}

#[tokio::test]
async fn goods_wait_for_an_address_and_are_then_announced() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([prize("goods", &json!({}))]), |_| {}).await;
    let mut players = app.buyers(2).await;
    let won = played(&mut players[0], &draw, "").await;
    assert_eq!(won["delivery"], json!({"state": "waiting", "waits_for": "address"}));
    app.deliver().await;
    let path = format!("/v1/plays/{}/address", won["id"].as_str().unwrap());
    refused(
        &players[1].send(Method::PUT, &path, Some(address().to_string()), None).await.unwrap(),
        404,
        "not_found",
    );
    let marked = [
        ("name", json!("<b>Li</b>")),
        ("lines", json!(["<script>alert(1)</script>"])),
        ("lines", json!([])),
        ("lines", json!(["a\nb"])),
        ("phone", json!("call me")),
        ("country", json!("China")),
        ("postcode", json!("<1>")),
    ];
    for (field, value) in marked {
        let mut wrong = address();
        wrong[field] = value;
        let answer = players[0].send(Method::PUT, &path, Some(wrong.to_string()), None).await.unwrap();
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"].to_string().contains(field), "{:?}", answer.body);
    }
    let given = players[0].expect(200, Method::PUT, &path, Some(&address())).await.unwrap();
    assert_eq!(given["delivery"]["address"]["name"], "Li Lei");
    app.deliver().await;
    assert_eq!(delivery(&mut players[0], &won).await["state"], "delivered");
    let late = players[0].send(Method::PUT, &path, Some(address().to_string()), None).await.unwrap();
    refused(&late, 409, "already_shipped");
    let events = app.operator.get("/v1/admin/events").await.unwrap().json();
    let kinds: Vec<_> =
        events["data"].as_array().unwrap().iter().map(|event| event["kind"].clone()).collect();
    assert!(kinds.contains(&json!("prize.ship")) && kinds.contains(&json!("prize.addressed")), "{kinds:?}");
    // A text prize takes no address.
    let texts = app.draw(&json!([text(1_000_000_000, 1)]), |_| {}).await;
    let other = played(&mut players[0], &texts, "").await;
    let path = format!("/v1/plays/{}/address", other["id"].as_str().unwrap());
    refused(
        &players[0].send(Method::PUT, &path, Some(address().to_string()), None).await.unwrap(),
        409,
        "no_goods",
    );
}

#[tokio::test]
async fn a_coupon_request_is_retried_with_the_same_idempotency_key() {
    let merchant = Receiver::start(|_, before| match before {
        0 => Reply::Status(500),
        _ => Reply::Json(r#"{"code": "SAVE-10"}"#),
    })
    .await;
    let mut app = TestApp::builder()
        .with("TIDEGATE__DELIVERIES__COUPON_URL", &format!("http://{}/coupons", merchant.address))
        .with("TIDEGATE__DELIVERIES__COUPON_SECRET", SECRET)
        .start()
        .await;
    let draw = app.draw(&json!([prize("coupon", &json!({"content": "ten-off"}))]), |_| {}).await;
    let mut player = app.buyer().await;
    let won = played(&mut player, &draw, "").await;
    app.deliver().await;
    let failed = listed(&mut app, &won).await;
    assert_eq!((&failed["state"], &failed["tries"]), (&json!("failed"), &json!(1)));
    assert!(failed["last_error"].as_str().unwrap().contains("500"), "{failed}");
    app.clock.advance(Duration::from_secs(2));
    app.deliver().await;
    assert_eq!(delivery(&mut player, &won).await, json!({"state": "delivered", "content": "SAVE-10"}));
    let asked = merchant.all();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].0.headers["idempotency-key"], asked[1].0.headers["idempotency-key"]);
    let body = asked[1].0.json();
    assert_eq!((&body["type"], &body["data"]["coupon"]), (&json!("prize.coupon"), &json!("ten-off")));
    assert_eq!(asked[1].0.path, "/coupons");
}

#[tokio::test]
async fn a_coupon_is_given_up_after_days_and_retried_by_an_operator() {
    let merchant = Receiver::start(|_, before| Reply::Status(if before < 40 { 503 } else { 204 })).await;
    let mut app = TestApp::builder()
        .with("TIDEGATE__DELIVERIES__COUPON_URL", &merchant.url())
        .with("TIDEGATE__DELIVERIES__COUPON_SECRET", SECRET)
        .start()
        .await;
    let coupon = prize("coupon", &json!({"content": "ten-off", "odds": 500_000_000, "stock": 50}));
    let draw = app.draw(&json!([coupon, text(500_000_000, 50)]), |_| {}).await;
    let mut player = app.buyer().await;
    let won = loop {
        let play = played(&mut player, &draw, "").await;
        if play["prize"]["kind"] == "coupon" {
            break play;
        }
    };
    // The delivery is given up after three days, that is about thirty attempts.
    for _ in 0..200 {
        app.clock.advance(Duration::from_secs(3600));
        app.deliver().await;
        if listed(&mut app, &won).await["state"] == "dead" {
            break;
        }
    }
    let dead = listed(&mut app, &won).await;
    assert_eq!(dead["state"], "dead");
    let why = dead["last_error"].as_str().unwrap();
    assert!(why.contains("given up after") && why.contains("503"), "{why}");
    assert!((15..=40).contains(&dead["tries"].as_u64().unwrap()), "{dead}");
    let filtered = app.operator.get("/v1/admin/deliveries?state=dead").await.unwrap().json();
    assert_eq!(filtered["data"].as_array().unwrap().len(), 1);
    while merchant.all().len() < 40 {
        assert_eq!(act(&mut app, &dead, "retry").await.status, 200);
        app.clock.advance(Duration::from_secs(120));
        app.deliver().await;
    }
    app.clock.advance(Duration::from_secs(4 * 3600));
    app.deliver().await;
    assert_eq!(listed(&mut app, &won).await["state"], "delivered");
}

#[tokio::test]
async fn waiting_for_the_close_does_not_shorten_the_retries_of_a_coupon() {
    let merchant = Receiver::start(|_, before| Reply::Status(if before < 3 { 500 } else { 200 })).await;
    let mut app = TestApp::builder()
        .with("TIDEGATE__DELIVERIES__COUPON_URL", &merchant.url())
        .with("TIDEGATE__DELIVERIES__COUPON_SECRET", SECRET)
        .start()
        .await;
    let later = prize("coupon", &json!({"content": "ten-off", "grant": "at_close"}));
    let weeks = (app.app.now() + Duration::from_secs(21 * 24 * 3600)).to_string();
    let draw = app.draw(&json!([later]), |terms| terms["ends_at"] = json!(weeks)).await;
    let mut player = app.buyer().await;
    let won = played(&mut player, &draw, "").await;
    app.clock.advance(Duration::from_secs(20 * 24 * 3600));
    app.step_draw(&draw, "close").await;
    for _ in 0..4 {
        app.deliver().await;
        app.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(listed(&mut app, &won).await["state"], "delivered");
}

/// Modifies SQLite's file directly.
mod embedded_only {
    use super::*;

    #[tokio::test]
    async fn an_undeliverable_prize_is_set_aside_and_the_others_are_delivered() {
        let mut app = TestApp::start().await;
        let draw = app.draw(&json!([text(1_000_000_000, 9)]), |_| {}).await;
        let mut player = app.buyer().await;
        let mut plays = Vec::new();
        for _ in 0..4 {
            plays.push(played(&mut player, &draw, "").await);
        }
        app.recorded().await;
        let raw = app.raw_ledger();
        raw.execute("UPDATE delivery SET kind = 'hologram' WHERE id = 2", []).unwrap();
        raw.execute("UPDATE play SET prize = 77 WHERE id = (SELECT play FROM delivery WHERE id = 3)", [])
            .unwrap();
        app.deliver().await;
        let states: Vec<(String, String)> =
            app.operator.get("/v1/admin/deliveries").await.unwrap().json()["data"]
                .as_array()
                .unwrap()
                .iter()
                .rev()
                .map(|delivery| (delivery["state"].to_string(), delivery["last_error"].to_string()))
                .collect();
        assert_eq!(
            states.iter().map(|(state, _)| state.trim_matches('"')).collect::<Vec<_>>(),
            ["delivered", "dead", "dead", "delivered"]
        );
        assert!(states[1].1.contains("hologram"), "{states:?}");
    }
}
