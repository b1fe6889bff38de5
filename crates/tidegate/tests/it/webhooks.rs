//! Webhooks to receivers that fail, hang or redirect: every event arrives, signed, in order per order.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_testing::{eventually, eventually_within};

use crate::receiver::{Got, Receiver, Reply};
use crate::support::{Builder, TestApp, bought, cancel, pay, refused};

fn allowing_loopback() -> Builder {
    TestApp::builder().with("TIDEGATE__DELIVERIES__ALLOW_NETWORKS", "127.0.0.0/8")
}

async fn hook(app: &mut TestApp, url: &str, events: &Value) -> (String, String) {
    let body = json!({"url": url, "events": events});
    let made = app.operator.expect(201, Method::POST, "/v1/admin/webhooks", Some(&body)).await.unwrap();
    (made["id"].as_str().unwrap().to_owned(), made["secret"].as_str().unwrap().to_owned())
}

/// The kinds of the events about one subject, in order of arrival, without repetitions.
fn story(got: &[Got], subject: &str) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for event in got.iter().map(Got::json).filter(|event| event["subject"] == subject) {
        let kind = event["type"].as_str().unwrap().to_owned();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

#[tokio::test]
async fn only_subscribed_events_arrive_signed_in_one_envelope() {
    let receiver = Receiver::start(|_, _| Reply::Status(204)).await;
    let mut app = allowing_loopback().alive().start().await;
    let sale = app.sale(10, 10).await;
    let mut buyer = app.buyer().await;
    let before = bought(&mut buyer, &sale, 1).await;
    app.recorded().await;
    let (_, secret) = hook(&mut app, &receiver.url(), &json!(["order.*"])).await;
    let order = bought(&mut buyer, &sale, 2).await;
    assert_eq!(pay(&mut buyer, &order).await.status, 200);
    app.step(&sale, "pause").await;
    let got = receiver.wait_for(2).await;
    assert!(got.iter().all(|got| got.verifies(&secret)), "signatures verify");
    assert!(
        got.iter().all(|got| got.json()["subject"] != before.as_str()),
        "no events from before the webhook was created"
    );
    assert_eq!(story(&got, &order), ["order.created", "order.paid"]);
    let paid = got[1].json();
    assert_eq!((&paid["specversion"], &paid["data"]["order"]["state"]), (&json!("1.0"), &json!("paid")));
    assert_eq!(paid["data"]["order"]["total"], json!({"amount": 19800, "currency": "CNY"}));
    assert_eq!(got[0].json()["data"]["order"]["state"], "awaiting_payment");
    assert_eq!(got[0].headers["webhook-id"], got[0].json()["id"].as_str().unwrap());
    assert_eq!(got[0].headers["content-type"], "application/cloudevents+json");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.all().len(), 2, "the pause is not subscribed, and no event is sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_for_a_while_gets_everything_in_order_per_order() {
    // The first ten requests fail, then every third one.
    let receiver =
        Receiver::start(|_, before| Reply::Status(if before < 10 || before % 3 == 0 { 500 } else { 200 }))
            .await;
    let mut app = allowing_loopback().alive().start().await;
    let (_, secret) = hook(&mut app, &receiver.url(), &json!(["order.*"])).await;
    let sale = app.sale(100, 100).await;
    let mut buyer = app.buyer().await;
    let mut orders = Vec::new();
    for number in 0..12 {
        let order = bought(&mut buyer, &sale, 1).await;
        if number % 2 == 0 {
            assert_eq!(pay(&mut buyer, &order).await.status, 200);
            orders.push((order, "order.paid"));
        } else {
            assert_eq!(cancel(&mut buyer, &order).await.status, 200);
            orders.push((order, "order.cancelled"));
        }
    }
    eventually_within(Duration::from_secs(90), "every order's events arrive in order", async || {
        let taken = receiver.taken();
        let stories: Vec<_> = orders.iter().map(|(order, _)| story(&taken, order)).collect();
        let complete =
            orders.iter().zip(&stories).all(|((_, last), story)| *story == ["order.created", *last]);
        if complete { Ok(()) } else { Err(stories) }
    })
    .await;
    assert!(receiver.taken().iter().all(|got| got.verifies(&secret)));
    // A retry has the same id, so that the receiver recognizes it.
    let ids = |id: &str| receiver.all().iter().filter(|(got, _)| got.headers["webhook-id"] == id).count();
    assert!(receiver.all().iter().any(|(got, _)| ids(got.headers["webhook-id"].to_str().unwrap()) > 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_and_redirecting_receivers_delay_no_other() {
    let trap = Receiver::start(|_, _| Reply::Status(200)).await;
    let elsewhere = trap.url();
    let (hangs, redirects, works) = (
        Receiver::start(|_, _| Reply::Hang).await,
        Receiver::start(move |_, _| Reply::Redirect(elsewhere.clone())).await,
        Receiver::start(|_, _| Reply::Status(200)).await,
    );
    let mut app = allowing_loopback().with("TIDEGATE__DELIVERIES__TIMEOUT_MS", "500").alive().start().await;
    for receiver in [&hangs, &redirects, &works] {
        hook(&mut app, &receiver.url(), &json!(["*"])).await;
    }
    let sale = app.sale(50, 50).await;
    let mut buyer = app.buyer().await;
    for _ in 0..10 {
        bought(&mut buyer, &sale, 1).await;
    }
    works.wait_for(12).await;
    eventually("both failures are shown with their reason", async || {
        let failed = app.operator.get("/v1/admin/deliveries?state=failed&limit=1000").await.unwrap().body;
        let failed = String::from_utf8_lossy(&failed).into_owned();
        let shown =
            failed.contains("no answer within 0.5 s") && failed.contains("redirects are not followed");
        if shown { Ok(()) } else { Err(failed) }
    })
    .await;
    assert_eq!(trap.all().len(), 0, "the redirect was not followed");
    assert!(!redirects.all().is_empty() && !hangs.all().is_empty());
}

#[tokio::test]
async fn a_410_disables_a_webhook_that_can_be_enabled_and_replayed() {
    let receiver = Receiver::start(|_, before| Reply::Status(if before == 0 { 410 } else { 200 })).await;
    let mut app = allowing_loopback().alive().start().await;
    let (id, _) = hook(&mut app, &receiver.url(), &json!(["sale.*", "order.created"])).await;
    let sale = app.sale(10, 10).await;
    let path = format!("/v1/admin/webhooks/{id}");
    let disabled = eventually("410 disables", async || {
        let hook = app.operator.get(&path).await.unwrap().json();
        if hook["state"] == "disabled" { Ok(hook) } else { Err(hook) }
    });
    assert!(disabled.await["reason"].as_str().unwrap().contains("410"));
    let mut buyer = app.buyer().await;
    let order = bought(&mut buyer, &sale, 1).await;
    app.recorded().await;
    let replay = format!("{path}/replay");
    refused(&app.operator.post(&replay, &json!({"after": "0"})).await.unwrap(), 409, "disabled");
    app.operator.expect(200, Method::POST, &format!("{path}/enable"), None).await.unwrap();
    refused(
        &app.operator.post(&replay, &json!({"after": "yesterday"})).await.unwrap(),
        422,
        "validation_failed",
    );
    // The order's event may not be fanned out yet; in that case the dispatcher sends it without a replay.
    eventually("everything is sent again", async || {
        app.operator.expect(200, Method::POST, &replay, Some(&json!({"after": "0"}))).await.unwrap();
        let sent = (story(&receiver.taken(), &order), story(&receiver.taken(), &sale));
        if !sent.0.is_empty() && sent.1.len() >= 2 { Ok(()) } else { Err(sent) }
    })
    .await;
    assert_eq!(app.operator.send(Method::DELETE, &path, None, None).await.unwrap().status, 204);
    assert_eq!(app.operator.send(Method::DELETE, &path, None, None).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_rotated_secret_signs_beside_the_old_one_for_a_day() {
    let receiver = Receiver::start(|_, _| Reply::Status(200)).await;
    let mut app = allowing_loopback().start().await;
    let (id, old) = hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    let rotate = format!("/v1/admin/webhooks/{id}/rotate");
    let rotated = app.operator.expect(200, Method::POST, &rotate, None).await.unwrap();
    let new = rotated["secret"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    let shown = app.operator.get(&format!("/v1/admin/webhooks/{id}")).await.unwrap().json();
    assert!(shown.get("secret").is_none() && shown["old_secret_until"].is_string(), "{shown}");
    let count = |signature: &Got| signature.headers["webhook-signature"].to_str().unwrap().split(' ').count();
    app.item().await;
    app.deliver().await;
    assert_eq!(count(&receiver.taken()[0]), 2);
    app.clock.advance(Duration::from_secs(24 * 3600));
    app.item().await;
    app.deliver().await;
    assert_eq!(count(&receiver.taken()[1]), 1);
}

#[tokio::test]
async fn addresses_that_are_not_public_and_events_that_do_not_exist_are_refused() {
    let mut app = TestApp::start().await;
    for url in [
        "http://127.0.0.1:9/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://localhost:9/",
        "ftp://shop.example/",
        "https://user:secret@shop.example/",
        "nonsense",
        "http://",
        "http://[::ffff:127.0.0.1]/",
    ] {
        let answer =
            app.operator.post("/v1/admin/webhooks", &json!({"url": url, "events": ["*"]})).await.unwrap();
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"]["url"].is_string(), "{url}");
    }
    for events in [json!([]), json!(["order.eaten"]), json!(["orde*"]), json!(["user.*"])] {
        let body = json!({"url": "https://shop.example/", "events": events});
        refused(&app.operator.post("/v1/admin/webhooks", &body).await.unwrap(), 422, "validation_failed");
    }
}

#[tokio::test]
async fn https_receivers_are_checked_against_trusted_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, made.cert.pem()).unwrap();
    let receiver = Receiver::start_tls(&made).await;
    let url = format!("https://{}/", receiver.address);
    for (trusted, arrives) in [(true, true), (false, false)] {
        let mut builder = allowing_loopback();
        if trusted {
            builder = builder.with("TIDEGATE__DELIVERIES__CA_FILE", ca_file.to_str().unwrap());
        }
        let mut app = builder.start().await;
        hook(&mut app, &url, &json!(["item.*"])).await;
        let before = receiver.taken().len();
        app.item().await;
        app.deliver().await;
        assert_eq!(receiver.taken().len() > before, arrives, "trusted: {trusted}");
        let failed = app.operator.get("/v1/admin/deliveries?state=failed").await.unwrap();
        let said = String::from_utf8_lossy(&failed.body).to_lowercase();
        assert_eq!(said.contains("certificate"), !arrives, "{said}");
    }
}

#[tokio::test]
async fn plays_and_prizes_are_sent_to_webhooks() {
    let receiver = Receiver::start(|_, _| Reply::Status(200)).await;
    let mut app = allowing_loopback().alive().start().await;
    hook(&mut app, &receiver.url(), &json!(["play.*", "prize.*"])).await;
    let goods = json!({"name": "Bicycle", "kind": "goods", "odds": 1_000_000_000, "stock": 1});
    let draw = app.draw(&json!([goods]), |_| {}).await;
    let mut player = app.buyer().await;
    let won = crate::draws::played(&mut player, &draw, "").await;
    let id = won["id"].as_str().unwrap();
    let address =
        json!({"name": "Li Lei", "phone": "13800138000", "lines": ["88 Century Avenue"], "country": "CN"});
    player.expect(200, Method::PUT, &format!("/v1/plays/{id}/address"), Some(&address)).await.unwrap();
    let got = receiver.wait_for(4).await;
    assert_eq!(story(&got, id), ["play.created", "prize.addressed", "prize.ship", "prize.delivered"]);
    let ship = got.iter().map(Got::json).find(|event| event["type"] == "prize.ship").unwrap();
    assert_eq!(ship["data"]["address"]["name"], "Li Lei");
    assert_eq!(ship["data"]["play"]["prize"]["name"], "Bicycle");
}

#[tokio::test]
async fn retry_after_of_a_receiver_is_respected() {
    let receiver =
        Receiver::start(|_, before| if before == 0 { Reply::RetryAfter("100") } else { Reply::Status(200) })
            .await;
    let mut app = allowing_loopback().start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.item().await;
    app.deliver().await;
    app.clock.advance(Duration::from_secs(99));
    app.deliver().await;
    assert_eq!(receiver.all().len(), 1);
    app.clock.advance(Duration::from_secs(1));
    app.deliver().await;
    assert_eq!(receiver.taken().len(), 1);
}
