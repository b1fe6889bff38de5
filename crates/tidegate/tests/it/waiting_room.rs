//! The waiting room: fair order, one place per account, admission rate, and restarts.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_app::digest::{digest, token};
use tidegate_rehearse::client::Client;

use crate::support::{TestApp, order, refused};

/// Creates a sale that starts in a minute and admits two buyers per second.
async fn room(app: &mut TestApp, stock: u32) -> String {
    let mut terms = app.terms(stock, 1).await;
    terms["starts_at"] = json!("2026-05-01T10:01:00Z");
    terms["protect"] = json!({"admit_per_s": 2});
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    sale
}

async fn join(buyer: &mut Client, sale: &str) -> Value {
    buyer.expect(200, Method::POST, &format!("/v1/sales/{sale}/queue"), Some(&json!({}))).await.unwrap()
}

async fn place(buyer: &mut Client, sale: &str) -> Value {
    buyer.expect(200, Method::GET, &format!("/v1/sales/{sale}/queue"), None).await.unwrap()
}

async fn pass_time(app: &TestApp, seconds: u64) {
    for _ in 0..seconds {
        app.clock.advance(Duration::from_secs(1));
        app.app.waiting_rooms.admit_all().await.unwrap();
    }
}

#[tokio::test]
async fn early_buyers_are_shuffled_by_a_committed_seed() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 100).await;
    let mut buyers = app.buyers(12).await;
    for buyer in &mut buyers {
        let joined = join(buyer, &sale).await;
        assert_eq!(
            (&joined["state"], &joined["position"], &joined["eta_s"]),
            (&json!("waiting"), &Value::Null, &json!(60))
        );
    }
    let before = app.operator.get(&format!("/v1/sales/{sale}")).await.unwrap().json();
    assert_eq!(before.get("queue_seed"), None, "the seed is secret before the start");
    app.clock.advance(Duration::from_secs(60));
    app.app.waiting_rooms.admit_all().await.unwrap();
    let after = app.operator.get(&format!("/v1/sales/{sale}")).await.unwrap().json();
    let seed = after["queue_seed"].as_str().unwrap();
    let seed: Vec<u8> =
        (0..64).step_by(2).map(|at| u8::from_str_radix(&seed[at..at + 2], 16).unwrap()).collect();
    assert_eq!(after["queue_commitment"], token("", &digest(&[&seed])), "the seed matches the commitment");
    let mut ranked = Vec::new();
    for buyer in &mut buyers {
        let id = buyer.get("/v1/me").await.unwrap().json()["id"].as_str().unwrap().to_owned();
        let position = place(buyer, &sale).await["position"].as_u64().unwrap();
        ranked.push((digest(&[&seed, id.as_bytes()]), position));
    }
    ranked.sort_unstable();
    let positions: Vec<u64> = ranked.iter().map(|(_, position)| *position).collect();
    assert_eq!(positions, (1..=12).collect::<Vec<_>>(), "the order follows from the published seed");
}

#[tokio::test]
async fn admission_keeps_its_rate_and_hands_out_the_pass() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 100).await;
    let mut buyers = app.buyers(6).await;
    app.clock.advance(Duration::from_secs(60));
    app.app.waiting_rooms.admit_all().await.unwrap();
    for buyer in &mut buyers {
        join(buyer, &sale).await;
    }
    refused(&order(&mut buyers[0], &sale, 1).await, 403, "pass_required");
    let direct = buyers[0].post(&format!("/v1/sales/{sale}/passes"), &json!({})).await.unwrap();
    refused(&direct, 403, "queue_required");
    app.app.waiting_rooms.admit_all().await.unwrap();
    pass_time(&app, 1).await;
    let mut states = Vec::new();
    for buyer in &mut buyers {
        states.push(place(buyer, &sale).await["state"].as_str().unwrap().to_owned());
    }
    assert_eq!(states, ["admitted", "admitted", "waiting", "waiting", "waiting", "waiting"]);
    let third = place(&mut buyers[2], &sale).await;
    assert_eq!((&third["position"], &third["ahead"], &third["chance"]), (&json!(1), &json!(0), &json!(1.0)));
    let pass = place(&mut buyers[0], &sale).await["pass"].clone();
    let body = json!({"quantity": 1, "pass": pass});
    let path = format!("/v1/sales/{sale}/orders");
    assert_eq!(buyers[0].post(&path, &body).await.unwrap().status, 201);
    refused(&buyers[1].post(&path, &body).await.unwrap(), 403, "pass_invalid");
    app.sound(&sale, 99, 1, 0).await;
}

#[tokio::test]
async fn an_account_holds_one_place_and_absent_buyers_are_skipped() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 100).await;
    app.clock.advance(Duration::from_secs(60));
    let minted = app.operator.post("/v1/admin/tokens", &json!({"count": 3})).await.unwrap().json();
    let browser = |at: usize| Client::new(&app.url, minted["tokens"][at].as_str()).unwrap();
    let (mut first, mut again, mut gone, mut last) = (browser(0), browser(0), browser(1), browser(2));
    assert_eq!(join(&mut gone, &sale).await["position"], 1);
    assert_eq!(join(&mut first, &sale).await["position"], 2);
    assert_eq!(join(&mut again, &sale).await["position"], 2);
    assert_eq!(join(&mut last, &sale).await["position"], 3);
    app.clock.advance(Duration::from_secs(115));
    place(&mut first, &sale).await;
    place(&mut last, &sale).await;
    app.clock.advance(Duration::from_secs(6));
    app.app.waiting_rooms.admit_all().await.unwrap();
    pass_time(&app, 1).await;
    assert_eq!(place(&mut again, &sale).await["state"], "admitted");
    assert_eq!(
        place(&mut last, &sale).await["state"],
        "admitted",
        "an abandoned place does not use up an admission"
    );
    refused(&gone.get(&format!("/v1/sales/{sale}/queue")).await.unwrap(), 404, "not_found");
}

#[tokio::test]
async fn an_unused_pass_expires_with_its_place() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 100).await;
    let mut buyer = app.buyer().await;
    app.clock.advance(Duration::from_secs(60));
    join(&mut buyer, &sale).await;
    app.app.waiting_rooms.admit_all().await.unwrap();
    pass_time(&app, 1).await;
    assert_eq!(place(&mut buyer, &sale).await["state"], "admitted");
    app.clock.advance(Duration::from_secs(120));
    refused(&buyer.get(&format!("/v1/sales/{sale}/queue")).await.unwrap(), 403, "place_expired");
    app.app.waiting_rooms.admit_all().await.unwrap();
    refused(&buyer.get(&format!("/v1/sales/{sale}/queue")).await.unwrap(), 404, "not_found");
    let again = join(&mut buyer, &sale).await;
    assert_eq!((&again["state"], &again["position"]), (&json!("waiting"), &json!(1)));
}

#[tokio::test]
async fn a_buyer_without_a_chance_is_marked_hopeless() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 1).await;
    let mut buyers = app.buyers(3).await;
    app.clock.advance(Duration::from_secs(60));
    app.app.waiting_rooms.admit_all().await.unwrap();
    for buyer in &mut buyers {
        join(buyer, &sale).await;
    }
    let second = place(&mut buyers[1], &sale).await;
    assert_eq!((&second["chance"], &second["state"]), (&json!(0.5), &json!("waiting")));
    app.app.waiting_rooms.admit_all().await.unwrap();
    pass_time(&app, 1).await;
    let pass = place(&mut buyers[0], &sale).await["pass"].clone();
    let path = format!("/v1/sales/{sale}/orders");
    let bought = buyers[0].post(&path, &json!({"quantity": 1, "pass": pass})).await.unwrap().json();
    crate::support::pay(&mut buyers[0], bought["id"].as_str().unwrap()).await;
    let third = place(&mut buyers[2], &sale).await;
    assert_eq!((&third["state"], &third["chance"]), (&json!("hopeless"), &json!(0.0)));
}

#[tokio::test]
async fn joining_the_waiting_room_requires_the_challenge() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(5, 1).await;
    terms["protect"] = json!({"admit_per_s": 2, "challenge": "pow", "pow_difficulty": 1});
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut buyer = app.buyer().await;
    let answer = buyer.post(&format!("/v1/sales/{sale}/queue"), &json!({})).await.unwrap();
    refused(&answer, 403, "challenge_required");
    let plain = app.sale(5, 1).await;
    let answer = buyer.post(&format!("/v1/sales/{plain}/queue"), &json!({})).await.unwrap();
    refused(&answer, 409, "no_queue");
}

#[tokio::test]
async fn the_waiting_room_survives_a_kill() {
    use tidegate_app::clock::Clock;
    use tidegate_rehearse::server::Server;

    use crate::support::{ADMIN_KEY, program};
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
    let price = json!({"amount": 1, "currency": "CNY"});
    let item =
        operator.post("/v1/admin/items", &json!({"name": "Lamp", "price": price})).await.unwrap().json();
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": price, "stock": 100, "per_user_limit": 1, "pay_within_s": 600,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(600)).to_string(),
        "protect": {"admit_per_s": 1},
    });
    let sale =
        operator.post("/v1/admin/sales", &terms).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    operator.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None).await.unwrap();
    let minted = operator.post("/v1/admin/tokens", &json!({"count": 30})).await.unwrap().json();
    let tokens: Vec<_> =
        minted["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned()).collect();
    for token in &tokens {
        join(&mut Client::new(server.url(), Some(token)).unwrap(), &sale).await;
    }
    server.kill().await.unwrap();
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let mut ahead = Vec::new();
    for token in &tokens {
        let place = place(&mut Client::new(server.url(), Some(token)).unwrap(), &sale).await;
        ahead.push(place["ahead"].as_u64().unwrap_or(0));
    }
    assert!(ahead.is_sorted() && *ahead.last().unwrap() >= 20, "the order survives the restart: {ahead:?}");
    assert!(server.stop().await.unwrap());
}

#[tokio::test]
async fn a_changed_admission_rate_applies_at_once_and_is_logged() {
    let mut app = TestApp::start().await;
    let sale = room(&mut app, 100).await;
    let mut buyers = app.buyers(6).await;
    app.clock.advance(Duration::from_secs(60));
    app.app.waiting_rooms.admit_all().await.unwrap();
    for buyer in &mut buyers {
        join(buyer, &sale).await;
    }
    app.app.waiting_rooms.admit_all().await.unwrap();
    let path = format!("/v1/admin/sales/{sale}/admission");
    let changed = json!({"admit_per_s": 5});
    let changed = app.operator.expect(200, Method::POST, &path, Some(&changed)).await.unwrap();
    assert_eq!(changed["protect"]["admit_per_s"], 5);
    pass_time(&app, 1).await;
    let mut admitted = 0;
    for buyer in &mut buyers {
        admitted += u32::from(place(buyer, &sale).await["state"] == "admitted");
    }
    assert_eq!(admitted, 5);
    let events = app.operator.get(&format!("/v1/admin/events?sale_id={sale}")).await.unwrap().json();
    let event =
        events["data"].as_array().unwrap().iter().find(|event| event["kind"] == "sale.admission_changed");
    assert_eq!(event.unwrap()["detail"], "2 -> 5", "{events}");

    refused(&app.operator.post(&path, &json!({"admit_per_s": 0})).await.unwrap(), 422, "validation_failed");
    let open = app.sale(5, 1).await;
    let other =
        app.operator.post(&format!("/v1/admin/sales/{open}/admission"), &json!({"admit_per_s": 5})).await;
    refused(&other.unwrap(), 409, "no_queue");
    app.step(&sale, "close").await;
    refused(&app.operator.post(&path, &json!({"admit_per_s": 9})).await.unwrap(), 409, "wrong_state");
}
