//! Draws: plays and prizes, strategies, lifecycle, commitment and proof.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, refused};

/// A text prize.
pub(crate) fn text(odds: u32, stock: u32) -> Value {
    json!({"name": "A text", "kind": "text", "content": "Hello.", "odds": odds, "stock": stock})
}

pub(crate) async fn play(player: &mut Client, draw: &str, seed: &str) -> Answer {
    player.post(&format!("/v1/draws/{draw}/plays"), &json!({"client_seed": seed})).await.unwrap()
}

pub(crate) async fn played(player: &mut Client, draw: &str, seed: &str) -> Value {
    let answer = play(player, draw, seed).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn shown(client: &mut Client, draw: &str) -> Value {
    client.expect(200, Method::GET, &format!("/v1/draws/{draw}"), None).await.unwrap()
}

pub(crate) async fn proof(client: &mut Client, draw: &str) -> Value {
    client.expect(200, Method::GET, &format!("/v1/draws/{draw}/proof"), None).await.unwrap()
}

/// Asserts that the audit finds nothing, and the numbers of plays and wins.
async fn sound(app: &mut TestApp, draw: &str, plays: u32, wins: u32) {
    app.recorded().await;
    let audit = app.operator.get(&format!("/v1/admin/draws/{draw}/audit")).await.unwrap().json();
    assert_eq!((&audit["ok"], &audit["drift"]["units"]), (&json!(true), &json!(0)), "{audit}");
    let shown = app.operator.get(&format!("/v1/admin/draws/{draw}")).await.unwrap().json();
    assert_eq!((&shown["plays"], &shown["wins"]), (&json!(plays), &json!(wins)), "{shown}");
}

#[tokio::test]
async fn a_play_shows_its_prize_and_a_losing_play_is_used_up() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([text(1_000_000_000, 1)]), |terms| terms["plays_per_user"] = json!(2)).await;
    let mut players = app.buyers(2).await;
    assert_eq!(shown(&mut players[0], &draw).await["plays_left"], 2);
    let won = played(&mut players[0], &draw, "mine").await;
    assert_eq!(
        (&won["seat"], &won["won"], &won["prize"]["name"]),
        (&json!(1), &json!(true), &json!("A text"))
    );
    assert_eq!(won["proof"]["client_seed"], "mine");
    let lost = played(&mut players[0], &draw, "").await;
    assert_eq!((&lost["seat"], &lost["won"], lost.get("prize")), (&json!(2), &json!(false), None));
    refused(&play(&mut players[0], &draw, "").await, 409, "limit_reached");
    let left = shown(&mut players[0], &draw).await;
    assert_eq!(
        (&left["plays_left"], &left["seats_left"], &left["prizes"][0]["left"]),
        (&json!(0), &json!(98), &json!(0))
    );
    sound(&mut app, &draw, 2, 1).await;
    // A player sees only their own plays.
    let mine = players[0].get("/v1/plays").await.unwrap().json();
    assert_eq!(mine["data"].as_array().unwrap().len(), 2);
    let path = format!("/v1/plays/{}", won["id"].as_str().unwrap());
    assert_eq!(players[0].get(&path).await.unwrap().json()["won"], true);
    refused(&players[1].get(&path).await.unwrap(), 404, "not_found");
    // A draw's id is not a sale's id.
    refused(&players[0].get(&format!("/v1/sales/{draw}")).await.unwrap(), 404, "not_found");
    refused(&app.operator.get(&format!("/v1/admin/sales/{draw}")).await.unwrap(), 404, "not_found");
}

#[tokio::test]
async fn an_exhausted_prize_is_no_win_with_single_and_replaced_with_whole() {
    let mut app = TestApp::start().await;
    let prizes = json!([text(600_000_000, 1), text(400_000_000, 50)]);
    for (strategy, wins) in [("single", 1..50_u64), ("whole", 50..51)] {
        let draw = app
            .draw(&prizes, |terms| {
                terms["strategy"] = json!(strategy);
                terms["seats"] = json!(50);
                terms["plays_per_user"] = json!(50);
            })
            .await;
        let mut player = app.buyer().await;
        let mut won = Vec::new();
        for seat in 1..=50 {
            let play = played(&mut player, &draw, &format!("{seat}")).await;
            won.extend(play["prize"]["id"].as_str().map(str::to_owned));
        }
        refused(&play(&mut player, &draw, "").await, 409, "sold_out");
        assert!(won.iter().filter(|prize| *prize == "1").count() <= 1, "{won:?}");
        assert!(wins.contains(&(won.len() as u64)), "{strategy}: {won:?}");
        sound(&mut app, &draw, 50, u32::try_from(won.len()).unwrap()).await;
    }
}

#[tokio::test]
async fn a_deck_gives_every_prize_exactly_once() {
    let mut app = TestApp::start().await;
    let card = |name: &str, stock| json!({"name": name, "kind": "text", "content": "x", "stock": stock});
    let draw = app
        .draw(&json!([card("Ace", 1), card("King", 4)]), |terms| {
            terms["strategy"] = json!("deck");
            terms["seats"] = json!(10);
            terms["plays_per_user"] = json!(10);
        })
        .await;
    let mut player = app.buyer().await;
    let mut names = Vec::new();
    for seat in 0..10 {
        let play = played(&mut player, &draw, &format!("{seat}")).await;
        names.extend(play["prize"]["name"].as_str().map(str::to_owned));
    }
    names.sort();
    assert_eq!(names, ["Ace", "King", "King", "King", "King"]);
    sound(&mut app, &draw, 10, 5).await;
}

#[tokio::test]
async fn the_same_key_gives_the_same_play_even_after_the_close() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([text(500_000_000, 9)]), |terms| terms["plays_per_user"] = json!(1)).await;
    let mut player = app.buyer().await;
    let path = format!("/v1/draws/{draw}/plays");
    let send = async |player: &mut Client, seed: &str| {
        let body = Some(json!({"client_seed": seed}).to_string());
        player.send(Method::POST, &path, body, Some("one")).await.unwrap()
    };
    let first = send(&mut player, "a").await;
    assert_eq!(first.status, 201);
    let again = send(&mut player, "a").await;
    assert_eq!((again.status, again.json()["id"].clone()), (201, first.json()["id"].clone()));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    refused(&send(&mut player, "b").await, 422, "idempotency_key_reused");
    sound(&mut app, &draw, 1, u32::from(first.json()["won"] == true)).await;
    app.step_draw(&draw, "close").await;
    assert_eq!(send(&mut player, "a").await.json()["id"], first.json()["id"]);
    refused(&play(&mut player, &draw, "").await, 409, "ended");
}

#[tokio::test]
async fn a_draw_has_the_lifecycle_of_a_sale_but_never_reopens() {
    let mut app = TestApp::builder().with("TIDEGATE__SALES__REQUIRE_APPROVAL", "true").start().await;
    let terms = app.draw_terms(&json!([text(1, 1)]));
    let made = app.operator.expect(201, Method::POST, "/v1/admin/draws", Some(&terms)).await.unwrap();
    let draw = made["id"].as_str().unwrap().to_owned();
    let mut player = app.buyer().await;
    refused(&player.get(&format!("/v1/draws/{draw}")).await.unwrap(), 404, "not_found");
    let publish = format!("/v1/admin/draws/{draw}/publish");
    refused(&app.operator.post(&publish, &json!({})).await.unwrap(), 409, "approval_required");
    for (step, state) in [
        ("submit", "in_review"),
        ("refuse", "draft"),
        ("submit", "in_review"),
        ("approve", "approved"),
        ("publish", "live"),
        ("pause", "paused"),
        ("resume", "live"),
    ] {
        assert_eq!(app.step_draw(&draw, step).await["state"], state);
    }
    let edit = app
        .operator
        .send(Method::PUT, &format!("/v1/admin/draws/{draw}"), Some(terms.to_string()), None)
        .await;
    refused(&edit.unwrap(), 409, "wrong_state");
    app.step_draw(&draw, "pause").await;
    refused(&play(&mut player, &draw, "").await, 409, "paused");
    assert_eq!(app.step_draw(&draw, "close").await["state"], "closed");
    let ends_at = (app.app.now() + Duration::from_secs(9999)).to_string();
    let reopen =
        app.operator.post(&format!("/v1/admin/draws/{draw}/reopen"), &json!({"ends_at": ends_at})).await;
    refused(&reopen.unwrap(), 404, "not_found");
}

#[tokio::test]
async fn a_draw_closes_by_itself_at_its_end() {
    let mut app = TestApp::start().await;
    let mut player = app.buyer().await;
    let next = app.draw(&json!([text(1, 1)]), |_| {}).await;
    app.clock.advance(Duration::from_secs(3600));
    refused(&play(&mut player, &next, "").await, 409, "ended");
    app.app.campaigns.open_and_close_due().await.unwrap();
    assert!(proof(&mut player, &next).await["seed"].is_string());
}

#[tokio::test]
async fn a_draft_can_be_edited_and_the_commitment_follows() {
    let mut app = TestApp::start().await;
    let terms = app.draw_terms(&json!([text(1, 1)]));
    let made = app.operator.expect(201, Method::POST, "/v1/admin/draws", Some(&terms)).await.unwrap();
    let draw = made["id"].as_str().unwrap().to_owned();
    let codes =
        json!({"name": "Code", "kind": "code", "codes": ["A", "B"], "odds": 1_000_000_000, "stock": 2});
    let edited = app.draw_terms(&json!([codes]));
    let path = format!("/v1/admin/draws/{draw}");
    let shown = app.operator.expect(200, Method::PUT, &path, Some(&edited)).await.unwrap();
    assert_ne!(shown["commitment"], made["commitment"]);
    app.step_draw(&draw, "publish").await;
    let mut player = app.buyer().await;
    assert_eq!(played(&mut player, &draw, "").await["prize"]["name"], "Code");
    assert_eq!(proof(&mut player, &draw).await["commitment"], shown["commitment"]);
}

#[tokio::test]
async fn a_protected_draw_requires_a_pass() {
    let mut app = TestApp::start().await;
    let draw = app
        .draw(&json!([text(1, 1)]), |terms| terms["protect"] = json!({"pass": true, "user_rate_per_s": 100}))
        .await;
    let mut player = app.buyer().await;
    refused(&play(&mut player, &draw, "").await, 403, "pass_required");
    let pass = player.post(&format!("/v1/draws/{draw}/passes"), &json!({})).await.unwrap();
    assert_eq!(pass.status, 201, "{:?}", pass.body);
    let body = json!({"pass": pass.json()["pass"]});
    let path = format!("/v1/draws/{draw}/plays");
    assert_eq!(player.post(&path, &body).await.unwrap().status, 201);
    refused(&player.post(&path, &body).await.unwrap(), 403, "pass_invalid");
}

#[tokio::test]
async fn the_seed_stays_secret_until_the_close_and_then_every_play_can_be_checked() {
    let mut app = TestApp::start().await;
    for strategy in ["single", "whole", "deck"] {
        let mut prizes = json!([text(300_000_000, 3), text(200_000_000, 40)]);
        if strategy == "deck" {
            for prize in prizes.as_array_mut().unwrap() {
                prize.as_object_mut().unwrap().remove("odds");
            }
        }
        let draw = app
            .draw(&prizes, |terms| {
                terms["strategy"] = json!(strategy);
                terms["plays_per_user"] = json!(60);
            })
            .await;
        let mut player = app.buyer().await;
        let mut receipts = Vec::new();
        for seat in 0..60 {
            receipts.push(played(&mut player, &draw, &format!("种子 \"{seat}\" <\\>")).await);
        }
        let before = proof(&mut player, &draw).await;
        assert!(before.get("seed").is_none() && before.get("plays").is_none(), "{before}");
        let committed = before["commitment"].as_str().unwrap().to_owned();
        app.step_draw(&draw, "close").await;
        let after = proof(&mut player, &draw).await;
        assert_eq!((&after["commitment"], &after["plays_count"]), (&before["commitment"], &json!(60)));
        for (receipt, play) in receipts.iter().zip(after["plays"].as_array().unwrap()) {
            assert_eq!((&receipt["seat"], &receipt["prize"]["id"]), (&play["seat"], &play["prize"]));
            let shown =
                player.get(&format!("/v1/plays/{}", receipt["id"].as_str().unwrap())).await.unwrap().json();
            assert_eq!(shown["proof"]["hash"], play["hash"]);
        }
        let verified = tidegate_rehearse::verify::proof(&after.to_string(), Some(&committed)).unwrap();
        assert_eq!((verified.wrong.as_slice(), verified.plays), (&[][..], 60), "{strategy}");
        independent_check(&after, true);
        // One changed prize is detected.
        let mut tampered = after.clone();
        let play = &mut tampered["plays"][17];
        play["prize"] = if play["prize"] == "2" { json!(null) } else { json!("2") };
        let found = tidegate_rehearse::verify::proof(&tampered.to_string(), None).unwrap();
        assert!(found.wrong[0].starts_with("play 18 "), "{:?}", found.wrong);
        independent_check(&tampered, false);
    }
}

/// Verifies the proof with docs/verify.py, which shares no code with the server.
fn independent_check(proof: &Value, holds: bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("proof.json");
    std::fs::write(&path, proof.to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verify.py");
    let output = std::process::Command::new("python3").arg(script).arg(&path).output();
    let output = output.expect("python3 is needed: apt-get install python3");
    assert_eq!(output.status.success(), holds, "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn plays_survive_a_restart_and_seat_numbers_continue() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([text(500_000_000, 3)]), |terms| terms["plays_per_user"] = json!(3)).await;
    let mut player = app.buyer().await;
    let first = played(&mut player, &draw, "a").await;
    played(&mut player, &draw, "b").await;
    let mut app = app.restart().await;
    let mut player = Client::new(&app.url, Some(player.token())).unwrap();
    let path = format!("/v1/plays/{}", first["id"].as_str().unwrap());
    assert_eq!(
        player.get(&path).await.unwrap().json()["prize"],
        first.get("prize").cloned().unwrap_or(Value::Null)
    );
    assert_eq!(played(&mut player, &draw, "c").await["seat"], 3);
    refused(&play(&mut player, &draw, "d").await, 409, "limit_reached");
    app.step_draw(&draw, "close").await;
    let proof = proof(&mut player, &draw).await;
    assert_eq!(
        tidegate_rehearse::verify::proof(&proof.to_string(), None).unwrap().wrong,
        Vec::<String>::new()
    );
}

/// Clients cannot construct such an id, but a mistake in the program must not change a published draw.
#[tokio::test]
async fn a_draw_cannot_be_run_as_a_sale() {
    let mut app = TestApp::start().await;
    let draw = app.draw(&json!([text(1, 1)]), |_| {}).await;
    let campaign = app.app.parse::<tidegate_core::DrawId>(&draw).unwrap().campaign();
    let as_sale = format!("/v1/admin/sales/{}", app.app.print(campaign));
    for (step, body) in [("restock", json!({"units": 5})), ("pause", json!({})), ("close", json!({}))] {
        refused(&app.operator.post(&format!("{as_sale}/{step}"), &body).await.unwrap(), 404, "not_found");
    }
    let mut player = app.buyer().await;
    let order =
        player.post(&format!("/v1/sales/{}/orders", app.app.print(campaign)), &json!({"quantity": 1})).await;
    refused(&order.unwrap(), 404, "not_found");
    assert_eq!(shown(&mut player, &draw).await["seats_left"], 100);
}

#[tokio::test]
async fn one_commitment_cannot_be_opened_to_two_tables() {
    let mut app = TestApp::start().await;
    let pen = json!({"name": "Pen", "kind": "text", "content": "x", "odds": 900_000_000, "stock": 5});
    let draw = app.draw(&json!([text(1, 1), pen]), |_| {}).await;
    let mut player = app.buyer().await;
    app.step_draw(&draw, "close").await;
    let mut proof = proof(&mut player, &draw).await;
    assert_eq!(
        tidegate_rehearse::verify::proof(&proof.to_string(), None).unwrap().wrong,
        Vec::<String>::new()
    );
    proof["prizes"] = json!([proof["prizes"][0].clone()]);
    proof["prizes"][0]["name"] = json!("A text\nprize 2 text 900000000 5 Pen");
    let refusal = tidegate_rehearse::verify::proof(&proof.to_string(), None).unwrap_err();
    assert!(refusal.to_string().contains("control characters"), "{refusal}");
    independent_check(&proof, false);
}
