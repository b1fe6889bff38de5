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

/// Orders of several buyers at once; returns their ids.
async fn rush(app: &mut TestApp, sale: &str, each: usize) -> Vec<String> {
    let mut buying = tokio::task::JoinSet::new();
    for mut buyer in app.buyers(8).await {
        let sale = sale.to_owned();
        buying.spawn(async move {
            let mut orders = Vec::new();
            for _ in 0..each {
                orders.push(bought(&mut buyer, &sale, 1).await);
            }
            orders
        });
    }
    buying.join_all().await.concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_target_delays_no_other_while_a_quick_one_receives_thousands() {
    let (hangs, slow, quick) = (
        Receiver::start(|_, _| Reply::Hang).await,
        Receiver::start(|_, _| Reply::Late(Duration::from_millis(400))).await,
        Receiver::start(|_, _| Reply::Status(204)).await,
    );
    let mut app = allowing_loopback()
        .with("TIDEGATE__DELIVERIES__AT_ONCE", "4")
        .with("TIDEGATE__DELIVERIES__TIMEOUT_MS", "60000")
        .alive()
        .start()
        .await;
    let sale = app.sale(2_000, 1_000).await;
    let orders = rush(&mut app, &sale, 250).await;
    app.recorded().await;
    // The quick one is the last to be given its events: the others hold all of their places by then.
    for receiver in [&hangs, &slow, &quick] {
        let (id, _) = hook(&mut app, &receiver.url(), &json!(["order.created"])).await;
        let replay = format!("/v1/admin/webhooks/{id}/replay");
        app.operator.expect(200, Method::POST, &replay, Some(&json!({"after": "0"}))).await.unwrap();
    }
    let told = eventually("the quick one is told everything", async || {
        if quick.count() >= orders.len() { Ok(quick.taken()) } else { Err((quick.count(), slow.count())) }
    });
    let told = told.await;
    // Two thousand events at eight per 50 ms would take the quick one 12 seconds, in which the slow one takes 120.
    assert!(slow.count() < 60, "the slow one was told {} meanwhile", slow.count());
    let subjects: std::collections::BTreeSet<String> =
        told.iter().map(|got| got.json()["subject"].as_str().unwrap().to_owned()).collect();
    assert_eq!((told.len(), subjects.len()), (orders.len(), orders.len()), "each event once");
    assert!(quick.connections() <= 16, "connections are reused: {}", quick.connections());
    for receiver in [&hangs, &slow, &quick] {
        assert!((1..=4).contains(&receiver.most_at_once()), "{} at once", receiver.most_at_once());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_order_arrive_in_order_however_many_are_sent_at_once() {
    // Some answers are slow, some fail: neither lets an order's second event overtake its first.
    let receiver = Receiver::start(|_, before| match before % 13 {
        0 => Reply::Status(500),
        1 | 5 => Reply::Late(Duration::from_millis(20)),
        _ => Reply::Status(200),
    })
    .await;
    let mut app = allowing_loopback().with("TIDEGATE__DELIVERIES__AT_ONCE", "6").alive().start().await;
    hook(&mut app, &receiver.url(), &json!(["order.*"])).await;
    let sale = app.sale(1_000, 1_000).await;
    let mut buyer = app.buyer().await;
    let mut orders = Vec::new();
    for _ in 0..100 {
        let order = bought(&mut buyer, &sale, 1).await;
        assert_eq!(cancel(&mut buyer, &order).await.status, 200);
        orders.push(order);
    }
    eventually_within(Duration::from_secs(60), "every order's events arrive in order", async || {
        let taken = receiver.taken();
        let late = orders.iter().filter(|order| story(&taken, order) != ["order.created", "order.cancelled"]);
        let late = late.count();
        if late == 0 { Ok(()) } else { Err(late) }
    })
    .await;
    assert!((2..=6).contains(&receiver.most_at_once()), "{} at once", receiver.most_at_once());
}

#[tokio::test]
async fn all_targets_share_the_bound_and_each_has_a_place() {
    let receivers = [Receiver::start(|_, _| Reply::Hang).await, Receiver::start(|_, _| Reply::Hang).await];
    let mut app = allowing_loopback()
        .with("TIDEGATE__DELIVERIES__AT_ONCE", "1000")
        .with("TIDEGATE__DELIVERIES__AT_ONCE_IN_ALL", "101")
        .with("TIDEGATE__DELIVERIES__TIMEOUT_MS", "60000")
        .alive()
        .start()
        .await;
    for receiver in &receivers {
        hook(&mut app, &receiver.url(), &json!(["order.created"])).await;
    }
    let sale = app.sale(200, 200).await;
    let mut buyer = app.buyer().await;
    for _ in 0..60 {
        bought(&mut buyer, &sale, 1).await;
    }
    // The merchant, who is asked for coupons, has a third of the 101 as well.
    eventually("both hold all of their places", async || {
        let counts: Vec<usize> = receivers.iter().map(Receiver::count).collect();
        if counts == [33, 33] { Ok(()) } else { Err(counts) }
    })
    .await;
    app.recorded().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receivers.each_ref().map(Receiver::most_at_once), [33, 33]);
}

/// The state and the number of tries of the only delivery to webhooks.
async fn only_delivery(app: &mut TestApp) -> (String, u64) {
    let all = app.operator.get("/v1/admin/deliveries").await.unwrap().json();
    let [delivery] = all["data"].as_array().unwrap().as_slice() else { panic!("{all}") };
    (delivery["state"].as_str().unwrap().to_owned(), delivery["tries"].as_u64().unwrap())
}

#[tokio::test]
async fn a_clock_set_ahead_gives_up_no_delivery() {
    let receiver = Receiver::start(|_, before| Reply::Status(if before < 3 { 500 } else { 200 })).await;
    let mut app = allowing_loopback().start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.item().await;
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("failed".into(), 1));
    let days = Duration::from_secs(40 * 24 * 3600);
    app.clock.set_ahead(days);
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("failed".into(), 2), "forty days in which nothing was tried");
    // Nor do days in which this program does not run.
    app.clock.advance(days);
    let mut app = app.restart().await;
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("failed".into(), 3));
    app.clock.advance(Duration::from_secs(10));
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("delivered".into(), 4));
}

#[tokio::test]
async fn a_clock_set_back_holds_up_no_delivery() {
    let receiver = Receiver::start(|_, before| Reply::Status(if before == 0 { 500 } else { 200 })).await;
    let mut app = allowing_loopback().start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.clock.set_ahead(Duration::from_secs(40 * 24 * 3600));
    app.item().await;
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("failed".into(), 1));
    app.clock.set_back(Duration::from_secs(40 * 24 * 3600));
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("delivered".into(), 2));
}

#[tokio::test]
async fn a_delivery_that_a_fast_clock_put_off_is_sent_by_the_next_start() {
    let receiver = Receiver::start(|_, before| Reply::Status(if before == 0 { 500 } else { 200 })).await;
    let mut app = allowing_loopback().start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.clock.set_ahead(Duration::from_secs(40 * 24 * 3600));
    app.item().await;
    app.deliver().await;
    app.clock.set_back(Duration::from_secs(40 * 24 * 3600));
    let mut app = app.restart().await;
    app.deliver().await;
    assert_eq!(only_delivery(&mut app).await, ("delivered".into(), 2));
}

#[tokio::test]
async fn a_receiver_that_fails_for_the_time_to_give_up_is_given_up() {
    let receiver = Receiver::start(|_, _| Reply::Status(500)).await;
    let mut app = allowing_loopback().with("TIDEGATE__DELIVERIES__GIVE_UP_AFTER_H", "1").start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.item().await;
    let mut tries = 0;
    // The pauses of an hour: 1, 2, 4, … seconds.
    for waited in 0..90 {
        app.deliver().await;
        let (state, tried) = only_delivery(&mut app).await;
        if state == "dead" {
            assert!(waited >= 60, "given up after {waited} minutes");
            tries = tried;
            break;
        }
        app.clock.advance(Duration::from_secs(60));
    }
    assert!((10..=16).contains(&tries), "{tries} tries");
}

#[tokio::test]
async fn a_clock_set_ahead_deletes_no_finished_delivery() {
    let receiver = Receiver::start(|_, _| Reply::Status(200)).await;
    let mut app = allowing_loopback().start().await;
    hook(&mut app, &receiver.url(), &json!(["item.*"])).await;
    app.item().await;
    app.deliver().await;
    let days = Duration::from_secs(40 * 24 * 3600);
    for _ in 0..3 {
        app.app.housekeeping.forget_old(app.app.now()).await.unwrap();
        app.clock.set_ahead(days);
    }
    assert_eq!(only_delivery(&mut app).await, ("delivered".into(), 1));
    app.clock.advance(days);
    app.app.housekeeping.forget_old(app.app.now()).await.unwrap();
    let left = app.operator.get("/v1/admin/deliveries").await.unwrap().json();
    assert_eq!(left["data"], json!([]), "forty days have passed");
}
