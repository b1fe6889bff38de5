//! Challenges and passes: solved before the start, used once, required for every order.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, order, refused};

async fn protected(app: &mut TestApp, stock: u32, protect: Value) -> String {
    let mut terms = app.terms(stock, 2).await;
    terms["protect"] = protect;
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    sale
}

async fn challenge(buyer: &mut Client, sale: &str) -> Value {
    buyer.expect(200, Method::GET, &format!("/v1/sales/{sale}/challenge"), None).await.unwrap()
}

/// The payload that an ALTCHA widget would send.
fn solve(challenge: &Value) -> String {
    let task: altcha::Challenge = serde_json::from_value(challenge["challenge"].clone()).unwrap();
    let solution = altcha::solve_challenge(altcha::SolveChallengeOptions::new(&task)).unwrap().unwrap();
    STANDARD.encode(serde_json::to_vec(&altcha::Payload { challenge: task, solution }).unwrap())
}

async fn ask_pass(buyer: &mut Client, sale: &str, body: &Value) -> Answer {
    buyer.post(&format!("/v1/sales/{sale}/passes"), body).await.unwrap()
}

async fn order_with(buyer: &mut Client, sale: &str, pass: &str) -> Answer {
    let body = json!({"quantity": 1, "pass": pass});
    buyer.post(&format!("/v1/sales/{sale}/orders"), &body).await.unwrap()
}

fn pass_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["pass"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_solved_challenge_gives_a_pass_that_buys_once() {
    let mut app = TestApp::start().await;
    let sale = protected(&mut app, 10, json!({"challenge": "pow", "pow_difficulty": 2})).await;
    let mut buyers = app.buyers(2).await;
    refused(&order(&mut buyers[0], &sale, 1).await, 403, "pass_required");
    let task = challenge(&mut buyers[0], &sale).await;
    assert_eq!(task["kind"], "pow");
    let body = json!({"challenge_id": task["id"], "answer": solve(&task)});
    let pass = pass_of(&ask_pass(&mut buyers[0], &sale, &body).await);
    refused(&ask_pass(&mut buyers[0], &sale, &body).await, 403, "challenge_used");
    refused(&order_with(&mut buyers[1], &sale, &pass).await, 403, "pass_invalid");
    assert_eq!(order_with(&mut buyers[0], &sale, &pass).await.status, 201);
    refused(&order_with(&mut buyers[0], &sale, &pass).await, 403, "pass_invalid");
    app.sound(&sale, 9, 1, 0).await;
}

#[tokio::test]
async fn wrong_forged_foreign_and_late_answers_are_refused_each_with_its_code() {
    let mut app = TestApp::start().await;
    let sale = protected(&mut app, 10, json!({"challenge": "pow", "pow_difficulty": 1})).await;
    let other_sale = protected(&mut app, 10, json!({"challenge": "pow", "pow_difficulty": 1})).await;
    let mut buyers = app.buyers(2).await;
    refused(&ask_pass(&mut buyers[0], &sale, &json!({})).await, 403, "challenge_required");
    let nonsense = json!({"challenge_id": "x", "answer": "y"});
    refused(&ask_pass(&mut buyers[0], &sale, &nonsense).await, 403, "challenge_invalid");
    let task = challenge(&mut buyers[0], &sale).await;
    let solved = json!({"challenge_id": task["id"], "answer": solve(&task)});
    refused(&ask_pass(&mut buyers[1], &sale, &solved).await, 403, "challenge_invalid");
    refused(&ask_pass(&mut buyers[0], &other_sale, &solved).await, 403, "challenge_invalid");
    let second = challenge(&mut buyers[0], &sale).await;
    let swapped = json!({"challenge_id": second["id"], "answer": solve(&task)});
    refused(&ask_pass(&mut buyers[0], &sale, &swapped).await, 403, "challenge_failed");
    let third = challenge(&mut buyers[0], &sale).await;
    let mut easier = third.clone();
    easier["challenge"]["parameters"]["keyPrefix"] = json!("");
    let forged = json!({"challenge_id": third["id"], "answer": solve(&easier)});
    refused(&ask_pass(&mut buyers[0], &sale, &forged).await, 403, "challenge_failed");
    app.clock.advance(Duration::from_secs(300));
    refused(&ask_pass(&mut buyers[0], &sale, &solved).await, 403, "challenge_expired");
}

#[tokio::test]
async fn an_image_challenge_allows_one_guess() {
    let mut app = TestApp::start().await;
    let sale = protected(&mut app, 10, json!({"challenge": "image"})).await;
    let mut buyer = app.buyer().await;
    let task = challenge(&mut buyer, &sale).await;
    assert!(task["image"].as_str().unwrap().starts_with("data:image/"));
    let guess = json!({"challenge_id": task["id"], "answer": "?????"});
    refused(&ask_pass(&mut buyer, &sale, &guess).await, 403, "challenge_failed");
    refused(&ask_pass(&mut buyer, &sale, &guess).await, 403, "challenge_used");
}

#[tokio::test]
async fn a_pass_is_issued_before_the_start_and_expires_soon_after_it() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(5, 2).await;
    terms["starts_at"] = json!("2026-05-01T10:05:00Z");
    terms["protect"] = json!({"pass": true});
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut buyers = app.buyers(2).await;
    let early = pass_of(&ask_pass(&mut buyers[0], &sale, &json!({})).await);
    let idle = pass_of(&ask_pass(&mut buyers[1], &sale, &json!({})).await);
    refused(&order_with(&mut buyers[0], &sale, &early).await, 409, "not_started");
    app.clock.advance(Duration::from_secs(300));
    assert_eq!(order_with(&mut buyers[0], &sale, &early).await.status, 201);
    app.clock.advance(Duration::from_secs(120));
    refused(&order_with(&mut buyers[1], &sale, &idle).await, 403, "pass_invalid");
}

#[tokio::test]
async fn passes_are_limited_to_a_multiple_of_the_stock_and_one_buyer_has_one() {
    let mut app = TestApp::start().await;
    let sale = protected(&mut app, 2, json!({"pass": true, "pass_factor": 2})).await;
    let mut buyers = app.buyers(6).await;
    let mine = pass_of(&ask_pass(&mut buyers[0], &sale, &json!({})).await);
    assert_eq!(pass_of(&ask_pass(&mut buyers[0], &sale, &json!({})).await), mine, "a buyer has one pass");
    for buyer in &mut buyers[1..4] {
        pass_of(&ask_pass(buyer, &sale, &json!({})).await);
    }
    refused(&ask_pass(&mut buyers[4], &sale, &json!({})).await, 503, "busy");
    app.clock.advance(Duration::from_secs(120));
    pass_of(&ask_pass(&mut buyers[4], &sale, &json!({})).await);
}

#[tokio::test]
async fn a_solution_refused_for_lack_of_quota_can_be_submitted_again() {
    let mut app = TestApp::start().await;
    let protect = json!({"challenge": "pow", "pow_difficulty": 1, "pass_factor": 1});
    let sale = protected(&mut app, 1, protect).await;
    let mut buyers = app.buyers(2).await;
    let mut bodies = Vec::new();
    for buyer in &mut buyers {
        let task = challenge(buyer, &sale).await;
        bodies.push(json!({"challenge_id": task["id"], "answer": solve(&task)}));
    }
    pass_of(&ask_pass(&mut buyers[0], &sale, &bodies[0]).await);
    refused(&ask_pass(&mut buyers[1], &sale, &bodies[1]).await, 503, "busy");
    app.clock.advance(Duration::from_secs(120));
    pass_of(&ask_pass(&mut buyers[1], &sale, &bodies[1]).await);
}

#[tokio::test]
async fn a_forged_pass_is_refused_and_changes_nothing() {
    let mut app = TestApp::start().await;
    let sale = protected(&mut app, 5, json!({"pass": true})).await;
    let mut buyer = app.buyer().await;
    let pass = pass_of(&ask_pass(&mut buyer, &sale, &json!({})).await);
    for at in [3, 20, 60, pass.len() - 1] {
        let mut forged = pass.clone().into_bytes();
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        let forged = String::from_utf8(forged).unwrap();
        refused(&order_with(&mut buyer, &sale, &forged).await, 403, "pass_invalid");
    }
    for wrong in ["", "x", "tp_", "tp_zz"] {
        refused(&order_with(&mut buyer, &sale, wrong).await, 403, "pass_invalid");
    }
    assert_eq!(order_with(&mut buyer, &sale, &pass).await.status, 201);
    app.sound(&sale, 4, 1, 0).await;
}

#[tokio::test]
async fn sales_without_protection_require_no_pass() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 2).await;
    let mut buyer = app.buyer().await;
    let asked = buyer.get(&format!("/v1/sales/{sale}/challenge")).await.unwrap();
    refused(&asked, 409, "no_challenge");
    refused(&ask_pass(&mut buyer, &sale, &json!({})).await, 409, "no_pass");
    assert_eq!(order(&mut buyer, &sale, 1).await.status, 201);
}
