//! Faults of draws: invalid terms and input, a slow disk, kills during plays and deliveries.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tidegate_testing::{eventually, eventually_within};

use super::faults::SlowDisk;
use crate::draws::{play, proof, text};
use crate::receiver::{Receiver, Reply};
use crate::support::{ADMIN_KEY, TestApp, program, refused};

#[tokio::test]
async fn draws_with_wrong_terms_are_refused_field_by_field() {
    let mut app = TestApp::start().await;
    let good = app.draw_terms(&json!([text(1, 1)]));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut terms = good.clone();
        change(&mut terms);
        terms
    };
    let prizes = |prizes: Value| with(&|terms| terms["prizes"] = prizes.clone());
    let code = |codes: Value| json!([{"name": "C", "kind": "code", "codes": codes, "odds": 1, "stock": 2}]);
    let deck = |prizes: Value| {
        with(&|terms| {
            terms["strategy"] = json!("deck");
            terms["seats"] = json!(3);
            terms["prizes"] = prizes.clone();
        })
    };
    let many: Vec<Value> = (0..51).map(|_| text(1, 1)).collect();
    let wrong = [
        (with(&|terms| terms["seats"] = json!(0)), "seats"),
        (with(&|terms| terms["seats"] = json!(10_000_001)), "seats"),
        (with(&|terms| terms["plays_per_user"] = json!(0)), "plays_per_user"),
        (with(&|terms| terms["strategy"] = json!("luck")), "strategy"),
        (with(&|terms| terms["name"] = json!("two\nlines")), "name"),
        (with(&|terms| terms["ends_at"] = terms["starts_at"].clone()), "ends_at"),
        (with(&|terms| terms["starts_at"] = json!("soon")), "starts_at"),
        (with(&|terms| terms["luck"] = json!(1)), "luck"),
        (prizes(json!([])), "prizes"),
        (prizes(json!(many)), "prizes"),
        (prizes(json!([text(600_000_000, 1), text(400_000_001, 1)])), "prizes"),
        (prizes(json!([text(0, 1)])), "prizes[0].odds"),
        (prizes(json!([text(1, 0)])), "prizes[0].stock"),
        (prizes(json!([{"name": "x", "kind": "text", "odds": 1, "stock": 1}])), "prizes[0].content"),
        (prizes(json!([{"name": "x", "kind": "luck", "odds": 1, "stock": 1}])), "prizes[0].kind"),
        (prizes(json!([{"name": "x", "kind": "goods", "stock": 1}])), "prizes[0].odds"),
        (prizes(json!([{"name": "x\ny", "kind": "goods", "odds": 1, "stock": 1}])), "prizes[0].name"),
        (
            prizes(json!([{"name": "x", "kind": "goods", "odds": 1, "stock": 1, "grant": "never"}])),
            "prizes[0].grant",
        ),
        (
            prizes(json!([{"name": "x", "kind": "goods", "odds": 1, "stock": 1, "codes": ["A"]}])),
            "prizes[0].codes",
        ),
        (
            prizes(json!([{"name": "x", "kind": "coupon", "content": "c", "odds": 1, "stock": 1}])),
            "prizes[0].kind",
        ),
        (prizes(code(json!(["A"]))), "prizes[0].codes"),
        (prizes(code(json!(["A", "A"]))), "prizes[0].codes[1]"),
        (prizes(code(json!(["A", ""]))), "prizes[0].codes[1]"),
        (deck(json!([{"name": "x", "kind": "goods", "stock": 4}])), "prizes"),
        (deck(json!([{"name": "x", "kind": "goods", "stock": 1, "odds": 5}])), "prizes[0].odds"),
    ];
    for (terms, field) in wrong {
        let answer = app.operator.post("/v1/admin/draws", &terms).await.unwrap();
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"].get(field).is_some(), "{field}: {:?}", answer.body);
    }
    let list = app.operator.get("/v1/admin/draws").await.unwrap().json();
    assert_eq!(list["data"], json!([]), "no draw was created");
}

#[tokio::test]
async fn plays_with_wrong_input_consume_nothing() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([text(1_000_000_000, 5)]), |_| {}).await;
    let mut player = app.buyer().await;
    let path = format!("/v1/draws/{draw}/plays");
    refused(&play(&mut player, &draw, &"x".repeat(65)).await, 422, "validation_failed");
    refused(&play(&mut player, &draw, "a\nb").await, 422, "validation_failed");
    refused(&player.post(&path, &json!({"client_seed": 5})).await.unwrap(), 422, "validation_failed");
    refused(&player.post(&path, &json!({"seat": 5})).await.unwrap(), 422, "validation_failed");
    refused(&player.post("/v1/draws/0000000000000/plays", &json!({})).await.unwrap(), 404, "not_found");
    let mut nobody = Client::new(&app.url, None).unwrap();
    refused(&nobody.post(&path, &json!({})).await.unwrap(), 401, "unauthenticated");
    let shown = player.get(&format!("/v1/draws/{draw}")).await.unwrap().json();
    assert_eq!((&shown["seats_left"], &shown["plays_left"]), (&json!(100), &json!(10)));
    // The longest allowed client seed, and a request without a body.
    assert_eq!(play(&mut player, &draw, &"界".repeat(64)).await.status, 201);
    let bare = player.send(Method::POST, &path, None, None).await.unwrap();
    assert_eq!(bare.status, 201, "{:?}", bare.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_play_is_resumed_and_hides_its_outcome_until_durable() {
    let disk = SlowDisk::default();
    let mut app =
        TestApp::builder().on(disk.clone()).with("TIDEGATE__SALES__ANSWER_WITHIN_MS", "100").start().await;
    let draw = app.draw(&json!([text(1_000_000_000, 5)]), |_| {}).await;
    let mut player = app.buyer().await;
    disk.0.store(true, Ordering::SeqCst);
    let first = play(&mut player, &draw, "a").await;
    assert_eq!((first.status, &first.json()["state"]), (202, &json!("queued")));
    assert!(first.json().get("won").is_none() && first.json().get("prize").is_none(), "{:?}", first.body);
    let again = play(&mut player, &draw, "b").await;
    assert_eq!((again.status, &again.json()["id"]), (202, &first.json()["id"]), "resumed, not charged twice");
    disk.0.store(false, Ordering::SeqCst);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    eventually("the play is recorded", async || {
        let shown = player.get(&format!("/v1/plays/{id}")).await.unwrap().json();
        if shown["won"] == true { Ok(()) } else { Err(shown) }
    })
    .await;
    let shown = player.get(&format!("/v1/draws/{draw}")).await.unwrap().json();
    assert_eq!((&shown["plays_left"], &shown["prizes"][0]["left"]), (&json!(9), &json!(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_waits_for_plays_that_are_still_being_written() {
    let disk = SlowDisk::default();
    let mut app = TestApp::builder().on(disk.clone()).start().await;
    let draw = app.draw(&json!([text(1_000_000_000, 5)]), |_| {}).await;
    let mut player = app.buyer().await;
    disk.0.store(true, Ordering::SeqCst);
    let playing = tokio::spawn({
        let draw = draw.clone();
        async move { play(&mut player, &draw, "last").await }
    });
    let counters = format!("/v1/admin/draws/{draw}");
    eventually("the play is queued", async || {
        app.operator.get(&counters).await.unwrap().json()["counters"]["queued"] != 0
    })
    .await;
    let closing = tokio::spawn({
        let mut operator = Client::new(&app.url, Some(ADMIN_KEY)).unwrap();
        let path = format!("{counters}/close");
        async move { operator.send(Method::POST, &path, None, None).await.unwrap().status }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!closing.is_finished(), "the draw is not closed before the last play is durable");
    let mut visitor = Client::new(&app.url, None).unwrap();
    assert_eq!(proof(&mut visitor, &draw).await["seed"], Value::Null);
    disk.0.store(false, Ordering::SeqCst);
    assert_eq!((playing.await.unwrap().status, closing.await.unwrap()), (201, 200));
    let proof = proof(&mut visitor, &draw).await;
    assert_eq!((&proof["plays_count"], &proof["plays"][0]["client_seed"]), (&json!(1), &json!("last")));
}

const SEATS: u32 = 60_000;
const PLAYERS: u32 = 20_000;
const EACH: u64 = 3;
const COUPON_SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Acknowledged plays: play id to seat and prize.
type Told = Arc<Mutex<HashMap<String, (u64, Option<String>)>>>;

async fn start(directory: &Path, merchant: &str) -> Server {
    let settings = [
        ("TIDEGATE__JOURNAL__SEGMENT_MB", "1"),
        ("TIDEGATE__JOURNAL__MAX_UNRECORDED", "20000"),
        ("TIDEGATE__DELIVERIES__COUPON_URL", merchant),
        ("TIDEGATE__DELIVERIES__COUPON_SECRET", COUPON_SECRET),
        // A short timeout, so that a delivery in progress during a kill is soon due again.
        ("TIDEGATE__DELIVERIES__TIMEOUT_MS", "1000"),
    ];
    Server::start_in(&program(), directory, ADMIN_KEY, &settings).await.unwrap()
}

async fn set_up(url: &str) -> (String, Vec<String>) {
    let mut operator = Client::new(url, Some(ADMIN_KEY)).unwrap();
    let codes: Vec<String> = (0..2_000).map(|number| format!("CODE-{number}")).collect();
    let now = Clock::System.now();
    let terms = json!({
        "name": "Killed", "seats": SEATS, "plays_per_user": EACH, "strategy": "whole",
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        "prizes": [
            {"name": "Code", "kind": "code", "codes": codes, "odds": 100_000_000, "stock": codes.len()},
            {"name": "Text", "kind": "text", "content": "Hello.", "odds": 100_000_000, "stock": 2_500},
            {"name": "Coupon", "kind": "coupon", "content": "ten-off", "odds": 20_000_000, "stock": 300},
        ],
    });
    let draw = operator.expect(201, Method::POST, "/v1/admin/draws", Some(&terms)).await.unwrap();
    let draw = draw["id"].as_str().unwrap().to_owned();
    operator.expect(200, Method::POST, &format!("/v1/admin/draws/{draw}/publish"), None).await.unwrap();
    let minted = operator.post("/v1/admin/tokens", &json!({"count": PLAYERS})).await.unwrap().json();
    let tokens = minted["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned());
    (draw, tokens.collect())
}

/// Plays with one player after the other and notes acknowledged plays, until the server is killed.
async fn play_on(url: String, draw: String, tokens: Arc<Vec<String>>, from: usize, told: Told) {
    let mut client = Client::new(&url, None).unwrap();
    let path = format!("/v1/draws/{draw}/plays");
    for turn in 0.. {
        let token = &tokens[(from + turn * 7) % tokens.len()];
        let Ok(answer) = client.send_as(token, Method::POST, &path, Some("{}".into()), None).await else {
            return;
        };
        if answer.status != 201 {
            assert!(matches!(answer.status, 202 | 409 | 503), "{answer:?}");
            continue;
        }
        let play = answer.json();
        let prize = play["prize"]["id"].as_str().map(str::to_owned);
        told.lock().insert(play["id"].as_str().unwrap().to_owned(), (play["seat"].as_u64().unwrap(), prize));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_kills_give_no_prize_twice_and_lose_none() {
    // Fails every fourth request, so that some coupons are requested again.
    let merchant =
        Receiver::start(
            |_, before| {
                if before % 4 == 3 { Reply::Status(500) } else { Reply::Json(r#"{"code": "C"}"#) }
            },
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path(), &merchant.url()).await;
    let (draw, tokens) = set_up(server.url()).await;
    let (tokens, told) = (Arc::new(tokens), Told::default());
    let mut busy = 0;
    for kill in 0..30_usize {
        let before = told.lock().len();
        let mut players = tokio::task::JoinSet::new();
        for player in 0..16 {
            let from = (kill * 16 + player) * 41;
            players.spawn(play_on(server.url().to_owned(), draw.clone(), tokens.clone(), from, told.clone()));
        }
        tokio::time::sleep(Duration::from_millis(20 + (kill as u64 * 37) % 130)).await;
        server.kill().await.unwrap();
        players.join_all().await;
        busy += usize::from(told.lock().len() > before);
        server = start(directory.path(), &merchant.url()).await;
    }
    assert!(busy > 15, "most kills must hit a busy server: {busy} did");
    check(&server, &draw, &told).await;
    assert!(server.stop().await.unwrap());
}

/// Checks that the proof contains every acknowledged play, and that plays, prizes and deliveries are exact.
async fn check(server: &Server, draw: &str, told: &Told) {
    let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
    operator.expect(200, Method::POST, &format!("/v1/admin/draws/{draw}/close"), None).await.unwrap();
    let audit = operator.get(&format!("/v1/admin/draws/{draw}/audit")).await.unwrap().json();
    assert_eq!((&audit["ok"], &audit["drift"]["units"]), (&json!(true), &json!(0)), "{audit}");
    let proof = proof(&mut operator, draw).await;
    let verified = tidegate_rehearse::verify::proof(&proof.to_string(), None).unwrap();
    assert_eq!(verified.wrong, Vec::<String>::new());
    let by_seat: HashMap<u64, Option<String>> = proof["plays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|play| (play["seat"].as_u64().unwrap(), play["prize"].as_str().map(str::to_owned)))
        .collect();
    for (id, (seat, prize)) in told.lock().iter() {
        assert_eq!(by_seat.get(seat), Some(prize), "play {id} is lost or has another outcome");
    }
    let seats: HashSet<u64> = told.lock().values().map(|(seat, _)| *seat).collect();
    assert_eq!(seats.len(), told.lock().len(), "a seat was given to two players");
    let wins = wait_for_prizes(&mut operator, draw).await;
    assert_eq!(wins, verified.wins);
    let plays = all_plays(&mut operator, draw).await;
    let mut each: HashMap<String, u64> = HashMap::new();
    let mut codes = HashSet::new();
    for play in &plays {
        *each.entry(play["user_id"].to_string()).or_default() += 1;
        if play["prize"]["kind"] == "code" {
            assert!(codes.insert(play["delivery"]["content"].to_string()), "a code was given twice");
        }
    }
    assert_eq!(plays.len() as u64, verified.plays);
    assert!(each.values().all(|plays| *plays <= EACH), "a player exceeds the limit");
}

async fn wait_for_prizes(operator: &mut Client, draw: &str) -> u64 {
    eventually_within(Duration::from_secs(90), "all prizes are delivered", async || {
        let shown = operator.get(&format!("/v1/admin/draws/{draw}")).await.unwrap().json();
        let states = shown["deliveries"].as_object().unwrap().clone();
        if states.len() == 1 && states.contains_key("delivered") {
            return Ok(states["delivered"].as_u64().unwrap());
        }
        // Without this, failed deliveries would wait for their backoff.
        let failed = operator.get("/v1/admin/deliveries?state=failed&limit=1000").await.unwrap().json();
        for delivery in failed["data"].as_array().unwrap() {
            let path = format!("/v1/admin/deliveries/{}/retry", delivery["id"].as_str().unwrap());
            // The delivery may have succeeded in the meantime.
            let _ = operator.send(Method::POST, &path, None, None).await.unwrap();
        }
        Err(states)
    })
    .await
}

async fn all_plays(operator: &mut Client, draw: &str) -> Vec<Value> {
    let mut plays = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/admin/plays?draw_id={draw}&limit=1000{cursor}");
        let page = operator.expect(200, Method::GET, &path, None).await.unwrap();
        plays.extend(page["data"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return plays,
        }
    }
}
