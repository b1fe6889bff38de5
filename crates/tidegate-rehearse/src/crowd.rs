//! A rehearsal with a waiting room: everybody joins before the start, some in two browsers; then they are let in, and
//! order.
//!
//! Fairness is judged by a chi-squared test: whether the early and the late arrivals are found in the first half of the
//! queue equally often.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::load::{Plan, Told};
use crate::client::Client;

/// Arrivals are looked at in this many groups.
const GROUPS: usize = 10;
/// What chi-squared with nine degrees of freedom exceeds once in a hundred thousand fair draws. A queue in the order
/// of arrival would be in the hundreds.
const BOUND: f64 = 40.1;
/// Every so many accounts opens a second browser.
const TWO_BROWSERS_EVERY: usize = 7;
const POLL_EVERY: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(90);

#[derive(Clone, Debug, Serialize)]
pub(super) struct Fairness {
    /// Accounts that joined before the start.
    pub(super) early: usize,
    /// Places the server counted; the same, although some used two browsers.
    pub(super) places: u64,
    pub(super) chi_squared: f64,
    pub(super) bound: f64,
    pub(super) fair: bool,
}

pub(super) async fn fire(plan: Plan, starts_in: Duration) -> anyhow::Result<(Told, Fairness)> {
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
        "not everybody could join before the start; take fewer --buyers"
    );
    tokio::time::sleep_until(started + starts_in + Duration::from_millis(300)).await;
    let fairness = judge(&plan).await?;
    let mut told = Told::new()?;
    let began = Instant::now();
    let mut crowd = tokio::task::JoinSet::new();
    for part in 0..plan.connections as usize {
        crowd.spawn(wait_and_buy(plan.clone(), part, began));
    }
    while let Some(part) = crowd.join_next().await {
        told.add(part??)?;
    }
    told.elapsed = began.elapsed();
    Ok((told, fairness))
}

/// The buyers of one connection, in the order of arrival.
fn mine(plan: &Plan, part: usize) -> impl Iterator<Item = usize> {
    (part..plan.tokens.len()).step_by(plan.connections as usize)
}

fn queue_path(plan: &Plan) -> String {
    format!("/v1{}/queue", plan.path)
}

async fn join(plan: Arc<Plan>, part: usize) -> anyhow::Result<()> {
    let mut client = Client::new(&plan.url, None)?.spread(part);
    for buyer in mine(&plan, part) {
        let browsers = if buyer % TWO_BROWSERS_EVERY == 0 { 2 } else { 1 };
        for _ in 0..browsers {
            let body = Some("{}".to_owned());
            let joined =
                client.send_as(&plan.tokens[buyer], Method::POST, &queue_path(&plan), body, None).await?;
            anyhow::ensure!(
                joined.status == 200,
                "joining was answered {}: {}",
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
        // While this asks, people are let in: those who were, were in front of everybody who still waits.
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

/// Asks for each buyer's place in turn, and orders for those whose turn it is.
async fn wait_and_buy(plan: Arc<Plan>, part: usize, began: Instant) -> anyhow::Result<Told> {
    // Not where it joined, if there are several.
    let mut client = Client::new(&plan.url, None)?.spread(part + 1);
    let mut told = Told::new()?;
    let mut waiting: Vec<usize> = mine(&plan, part).collect();
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
                    buy(&mut client, &plan, (buyer, pass), began, &mut told).await?;
                }
                Some("waiting") => still.push(buyer),
                Some(state) => told.turned_down(state),
                None => told.turned_down(&place.code()),
            }
        }
        waiting = still;
        tokio::time::sleep(POLL_EVERY).await;
    }
    Ok(told)
}

async fn buy(
    client: &mut Client,
    plan: &Plan,
    (buyer, pass): (usize, &str),
    began: Instant,
    told: &mut Told,
) -> anyhow::Result<()> {
    let body: Value = json!({"quantity": plan.quantity, "pass": pass});
    let path = format!("/v1{}/orders", plan.path);
    let arrival = Instant::now();
    let answer =
        client.send_as(&plan.tokens[buyer], Method::POST, &path, Some(body.to_string()), None).await.ok();
    let id = answer.as_ref().and_then(|answer| answer.json()["id"].as_str().map(str::to_owned));
    let took = arrival.elapsed();
    let accepted = told.note(buyer, answer, took);
    plan.mark(began, accepted, took);
    if let Some(id) = id {
        // Paid at once: nobody has to hope for returns, and those who wait in vain are told.
        let path = format!("/v1/orders/{id}/pay");
        let body = Some(json!({"method": "sandbox"}).to_string());
        let paid = client.send_as(&plan.tokens[buyer], Method::POST, &path, body, None).await?;
        anyhow::ensure!(paid.status == 200, "paying was answered {}: {}", paid.status, paid.code());
    }
    Ok(())
}
