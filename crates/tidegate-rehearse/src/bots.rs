//! Bots among the visitors: they skip steps, replay other buyers' passes, guess, and send bursts of requests. Honest
//! buyers solve the challenge and get a pass before they order.

use altcha::{Challenge, Payload, SolveChallengeOptions, solve_challenge};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::json;

use super::load::Plan;
use crate::client::{Answer, Client};

/// Requests in a bot's burst.
const BURST: usize = 5;

/// Bots are spread evenly among the visitors.
pub(super) fn is_bot(plan: &Plan, buyer: usize) -> bool {
    buyer % 100 < plan.bots_percent
}

/// Solves the challenge and gets a pass, as an honest buyer does; `Err` with the response that refused it, if any.
pub(super) async fn earn_pass(
    client: &mut Client,
    plan: &Plan,
    token: &str,
) -> Result<String, Option<Answer>> {
    let path = format!("/v1{}/challenge", plan.path);
    let task = client.send_as(token, Method::GET, &path, None, None).await.map_err(|_| None)?;
    if task.status != 200 {
        return Err(Some(task));
    }
    let task = task.json();
    let answer = solve(&task["challenge"]).ok_or(None)?;
    let body = json!({"challenge_id": task["id"], "answer": answer}).to_string();
    let path = format!("/v1{}/passes", plan.path);
    let issued = client.send_as(token, Method::POST, &path, Some(body), None).await.map_err(|_| None)?;
    match issued.json()["pass"].as_str() {
        Some(pass) => {
            plan.used_passes.lock().push(pass.to_owned());
            Ok(pass.to_owned())
        }
        None => Err(Some(issued)),
    }
}

fn solve(task: &serde_json::Value) -> Option<String> {
    let challenge: Challenge = serde_json::from_value(task.clone()).ok()?;
    let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).ok()??;
    Some(STANDARD.encode(serde_json::to_vec(&Payload { challenge, solution }).ok()?))
}

/// Runs one bot; returns all responses it got.
pub(super) async fn run_bot(client: &mut Client, plan: &Plan, buyer: usize) -> Vec<Option<Answer>> {
    let token = plan.tokens[buyer].as_str();
    let orders = format!("/v1{}/orders", plan.path);
    let passes = format!("/v1{}/passes", plan.path);
    let with_pass = |pass: &str| json!({"quantity": 1, "pass": pass}).to_string();
    let stolen = plan.used_passes.lock().last().cloned();
    let (token, path, body, times) = match buyer % 6 {
        0 => (token, &orders, json!({"quantity": 1}).to_string(), 1),
        1 => (token, &orders, with_pass(&format!("tp_{}", "0".repeat(104))), 1),
        2 => (token, &orders, with_pass(stolen.as_deref().unwrap_or("tp_")), 1),
        3 => (token, &passes, json!({"challenge_id": "tc_00", "answer": "AAAA"}).to_string(), 1),
        4 => (token, &orders, json!({"quantity": 1}).to_string(), BURST),
        _ => ("nobody", &orders, json!({"quantity": 1}).to_string(), BURST),
    };
    let mut answers = Vec::with_capacity(times);
    for _ in 0..times {
        answers.push(client.send_as(token, Method::POST, path, Some(body.clone()), None).await.ok());
    }
    answers
}
