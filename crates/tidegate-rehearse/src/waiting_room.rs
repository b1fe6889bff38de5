//! Rehearsal with a waiting room: all buyers join before the start, some in two browsers, then are admitted and order.
//!
//! Fairness is judged by a chi-squared test of whether early and late arrivals are equally often in the first half of
//! the waiting room.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::load::{Plan, Responses};
use crate::client::Client;

/// Number of groups of arrivals in the chi-squared test.
const GROUPS: usize = 10;
/// Critical value of chi-squared with nine degrees of freedom: a fair waiting room exceeds it once in a hundred
/// thousand rehearsals. One in order of arrival would be in the hundreds.
const BOUND: f64 = 40.1;
/// One in this many accounts joins in a second browser.
const TWO_BROWSERS_EVERY: usize = 7;
const POLL_EVERY: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(90);

#[derive(Clone, Debug, Serialize)]
pub(super) struct Fairness {
    /// Accounts that joined before the start.
    pub(super) early: usize,
    /// Places the server counted; must not exceed `early`, although some accounts joined twice.
    pub(super) places: u64,
    pub(super) chi_squared: f64,
    pub(super) bound: f64,
    pub(super) fair: bool,
}

pub(super) async fn run_buyers(plan: Plan, starts_in: Duration) -> anyhow::Result<(Responses, Fairness)> {
    let started = Instant::now();
    let plan = Arc::new(plan);
    let mut joining = tokio::task::JoinSet::new();
    for part in 0..plan.connections as usize {
        joining.spawn(join(plan.clone(), part));
    }
    while let Some(part) = joining.join_next().await {
        part??;
    }
    anyhow::ensure!(
        started.elapsed() < starts_in,
        "not all buyers could join before the start; use fewer --buyers"
    );
    tokio::time::sleep_until(started + starts_in + Duration::from_millis(300)).await;
    let fairness = judge(&plan).await?;
    let mut responses = Responses::new()?;
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for part in 0..plan.connections as usize {
        tasks.spawn(wait_and_buy(plan.clone(), part, began));
    }
    while let Some(part) = tasks.join_next().await {
        responses.add(part??)?;
    }
    responses.elapsed = began.elapsed();
    Ok((responses, fairness))
}

/// The buyers of one connection, in order of arrival.
fn buyers_of(plan: &Plan, part: usize) -> impl Iterator<Item = usize> {
    (part..plan.tokens.len()).step_by(plan.connections as usize)
}

fn queue_path(plan: &Plan) -> String {
    format!("/v1{}/queue", plan.path)
}

async fn join(plan: Arc<Plan>, part: usize) -> anyhow::Result<()> {
    let mut client = Client::new(&plan.url, None)?.spread(part);
    for buyer in buyers_of(&plan, part) {
        let browsers = if buyer % TWO_BROWSERS_EVERY == 0 { 2 } else { 1 };
        for _ in 0..browsers {
            let body = Some("{}".to_owned());
            let joined =
                client.send_as(&plan.tokens[buyer], Method::POST, &queue_path(&plan), body, None).await?;
            anyhow::ensure!(
                joined.status == 200,
                "joining failed with status {}: {}",
                joined.status,
                joined.code()
            );
        }
    }
    Ok(())
}

async fn judge(plan: &Plan) -> anyhow::Result<Fairness> {
    let mut client = Client::new(&plan.url, None)?;
    let total = plan.tokens.len();
    let mut in_first_half = [0_u32; GROUPS];
    let mut places = 0;
    for (buyer, token) in plan.tokens.iter().enumerate() {
        let place = client.send_as(token, Method::GET, &queue_path(plan), None, None).await?.json();
        // Buyers are admitted while the positions are read. Those already admitted were ahead of all who still wait.
        let waiting = place["waiting"].as_u64().unwrap_or(0);
        let gone = (total as u64).saturating_sub(waiting);
        let position = place["position"].as_u64().map_or(0, |position| position + gone);
        places = places.max(waiting);
        in_first_half[buyer * GROUPS / total] += u32::from(position <= total as u64 / 2);
    }
    let size = f64::from(u32::try_from(total)?) / f64::from(u32::try_from(GROUPS)?);
    let half: f64 =
        in_first_half.iter().map(|count| f64::from(*count)).sum::<f64>() / f64::from(u32::try_from(total)?);
    let spread = (size * half * (1.0 - half)).max(f64::MIN_POSITIVE);
    let chi_squared: f64 =
        in_first_half.iter().map(|count| (f64::from(*count) - size * half).powi(2) / spread).sum();
    let chi_squared = (chi_squared * 1000.0).round() / 1000.0;
    let fair = chi_squared < BOUND && places <= total as u64;
    Ok(Fairness { early: total, places, chi_squared, bound: BOUND, fair })
}

/// Polls the place of each buyer in turn, and orders for those who are admitted.
async fn wait_and_buy(plan: Arc<Plan>, part: usize, began: Instant) -> anyhow::Result<Responses> {
    // Uses another node than the one where the buyers joined, if there are several.
    let mut client = Client::new(&plan.url, None)?.spread(part + 1);
    let mut responses = Responses::new()?;
    let mut waiting: Vec<usize> = buyers_of(&plan, part).collect();
    let deadline = Instant::now() + LONGEST;
    while !waiting.is_empty() {
        anyhow::ensure!(Instant::now() < deadline, "{} buyers are still waiting", waiting.len());
        let mut still = Vec::new();
        for buyer in waiting {
            let token = &plan.tokens[buyer];
            let place = client.send_as(token, Method::GET, &queue_path(&plan), None, None).await?;
            let shown = place.json();
            match shown["state"].as_str() {
                Some("admitted") => {
                    let pass = shown["pass"].as_str().context("admitted without a pass")?;
                    buy(&mut client, &plan, (buyer, pass), began, &mut responses).await?;
                }
                Some("waiting") => still.push(buyer),
                Some(state) => responses.count_refusal(state),
                None => responses.count_refusal(&place.code()),
            }
        }
        waiting = still;
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(responses)
}

async fn buy(
    client: &mut Client,
    plan: &Plan,
    (buyer, pass): (usize, &str),
    began: Instant,
    responses: &mut Responses,
) -> anyhow::Result<()> {
    let body: Value = json!({"quantity": plan.quantity, "pass": pass});
    let path = format!("/v1{}/orders", plan.path);
    let arrival = Instant::now();
    let answer =
        client.send_as(&plan.tokens[buyer], Method::POST, &path, Some(body.to_string()), None).await.ok();
    let id = answer.as_ref().and_then(|answer| answer.json()["id"].as_str().map(str::to_owned));
    let took = arrival.elapsed();
    let accepted = responses.count(buyer, answer, took);
    plan.mark(began, accepted, took);
    if let Some(id) = id {
        // Paid at once, so that no unit can come back and the server tells the remaining buyers that it is sold out.
        let path = format!("/v1/orders/{id}/pay");
        let body = Some(json!({"method": "sandbox"}).to_string());
        let paid = client.send_as(&plan.tokens[buyer], Method::POST, &path, body, None).await?;
        anyhow::ensure!(paid.status == 200, "payment failed with status {}: {}", paid.status, paid.code());
    }
    Ok(())
}
