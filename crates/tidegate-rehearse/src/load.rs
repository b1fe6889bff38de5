//! The load: every buyer makes the planned number of attempts over shared connections, and all responses are collected.
//!
//! Closed loop: a connection makes the next attempt as soon as the previous one is answered. Open loop: arrivals have a
//! fixed rate, and latency counts from the planned arrival, so that waiting for a slow server is not hidden.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::bots::{earn_pass, is_bot, run_bot};
use super::timeline::Timeline;
use crate::client::{Answer, Client};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) url: String,
    /// `/sales/{id}` or `/draws/{id}`.
    pub(super) path: String,
    pub(super) draw: bool,
    pub(super) tokens: Vec<String>,
    pub(super) tries: u32,
    pub(super) quantity: u32,
    pub(super) connections: u32,
    pub(super) rate: Option<u32>,
    /// Percentage of visitors that are bots.
    pub(super) bots_percent: usize,
    /// Passes issued to honest buyers, for bots to steal.
    pub(super) used_passes: Arc<Mutex<Vec<String>>>,
    /// How long a buyer retries, with the same idempotency key, until the outcome is definite.
    pub(super) patience: Duration,
    /// Collected only for the HTML report.
    pub(super) timeline: Option<Arc<Mutex<Timeline>>>,
}

impl Plan {
    /// Adds an attempt that was just answered to the timeline.
    pub(super) fn mark(&self, started: Instant, accepted: bool, took: Duration) {
        if let Some(timeline) = &self.timeline {
            timeline.lock().count(started.elapsed(), accepted, took);
        }
    }
}

/// The responses that buyers and bots received.
#[derive(Debug)]
pub(super) struct Responses {
    pub(super) attempts: u64,
    /// Order id to the index of its buyer.
    pub(super) accepted: HashMap<String, usize>,
    /// Seat of a draw to the id of the prize in its player's response; `None` for no win.
    pub(super) outcomes: HashMap<u64, Option<String>>,
    pub(super) rejected: BTreeMap<String, u64>,
    pub(super) errors: u64,
    /// Refusals of bots, by problem code.
    pub(super) bot_refusals: BTreeMap<String, u64>,
    /// Orders and passes that bots got.
    pub(super) bots_accepted: u64,
    pub(super) elapsed: Duration,
    /// In microseconds.
    pub(super) latency: Histogram<u64>,
}

const RETRY_AFTER: Duration = Duration::from_millis(100);
const LONGEST_US: u64 = 600_000_000;

impl Responses {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            attempts: 0,
            accepted: HashMap::new(),
            outcomes: HashMap::new(),
            rejected: BTreeMap::new(),
            errors: 0,
            bot_refusals: BTreeMap::new(),
            bots_accepted: 0,
            elapsed: Duration::ZERO,
            latency: Histogram::new_with_bounds(1, LONGEST_US, 3)?,
        })
    }

    /// Counts the response to a buyer; returns whether the attempt was accepted.
    pub(super) fn count(&mut self, buyer: usize, answer: Option<Answer>, took: Duration) -> bool {
        self.attempts += 1;
        let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST_US);
        self.latency.saturating_record(micros.max(1));
        let Some(answer) = answer else {
            self.errors += 1;
            return false;
        };
        let body = if answer.status < 300 { answer.json() } else { Value::Null };
        match (answer.status, body["id"].as_str()) {
            (201 | 202, Some(id)) => {
                self.accepted.insert(id.to_owned(), buyer);
                if let Some(seat) = body["seat"].as_u64() {
                    self.outcomes.insert(seat, body["prize"]["id"].as_str().map(str::to_owned));
                }
                return true;
            }
            (400..=499 | 503, _) => *self.rejected.entry(answer.code()).or_default() += 1,
            _ => self.errors += 1,
        }
        false
    }

    /// Counts the response to a bot.
    fn count_bot(&mut self, answer: Option<Answer>) {
        self.attempts += 1;
        match answer {
            Some(answer) if (200..300).contains(&answer.status) => self.bots_accepted += 1,
            Some(answer) if answer.status < 500 || answer.status == 503 => {
                *self.bot_refusals.entry(answer.code()).or_default() += 1;
            }
            _ => self.errors += 1,
        }
    }

    /// Counts a buyer who was refused before placing an order.
    pub(super) fn count_refusal(&mut self, why: &str) {
        self.attempts += 1;
        *self.rejected.entry(why.to_owned()).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.attempts += other.attempts;
        self.accepted.extend(other.accepted);
        self.outcomes.extend(other.outcomes);
        for (code, count) in other.rejected {
            *self.rejected.entry(code).or_default() += count;
        }
        for (code, count) in other.bot_refusals {
            *self.bot_refusals.entry(code).or_default() += count;
        }
        self.bots_accepted += other.bots_accepted;
        self.errors += other.errors;
        self.latency.add(other.latency)?;
        Ok(())
    }
}

pub(super) async fn run_buyers(plan: Plan) -> anyhow::Result<Responses> {
    let total = plan.tokens.len() as u64 * u64::from(plan.tries);
    let bar = ProgressBar::new(total).with_style(ProgressStyle::with_template(
        "  rehearsing {bar:40} {pos}/{len} attempts  {per_sec}  {elapsed}",
    )?);
    let (plan, next) = (Arc::new(plan), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..plan.connections as usize {
        let client = Client::new(&plan.url, None)?.spread(number);
        tasks.spawn(connection(plan.clone(), client, next.clone(), total, started, bar.clone()));
    }
    let mut responses = Responses::new()?;
    while let Some(part) = tasks.join_next().await {
        responses.add(part??)?;
    }
    responses.elapsed = started.elapsed();
    bar.finish_and_clear();
    Ok(responses)
}

/// One connection, which takes the next attempt whenever it is free.
async fn connection(
    plan: Arc<Plan>,
    mut client: Client,
    next: Arc<AtomicU64>,
    total: u64,
    started: Instant,
    bar: ProgressBar,
) -> anyhow::Result<Responses> {
    let mut responses = Responses::new()?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= total {
            return Ok(responses);
        }
        let arrival = match plan.rate {
            Some(rate) => {
                let planned = started + Duration::from_nanos(number * 1_000_000_000 / u64::from(rate));
                tokio::time::sleep_until(planned).await;
                planned
            }
            None => Instant::now(),
        };
        // A buyer's attempts are consecutive and so run concurrently on several connections, which tests the limit.
        let buyer = usize::try_from(number / u64::from(plan.tries))?;
        if is_bot(&plan, buyer) {
            for answer in run_bot(&mut client, &plan, buyer).await {
                responses.count_bot(answer);
            }
        } else {
            let answer = attempt(&mut client, &plan, buyer, number).await;
            let took = arrival.elapsed();
            let accepted = responses.count(buyer, answer, took);
            plan.mark(started, accepted, took);
        }
        bar.inc(1);
    }
}

/// One attempt of one buyer, retried until the outcome is definite or the time is up.
async fn attempt(client: &mut Client, plan: &Plan, buyer: usize, number: u64) -> Option<Answer> {
    let path = format!("/v1{}/{}", plan.path, if plan.draw { "plays" } else { "orders" });
    let key = format!("rehearsal-{number}");
    let token = &plan.tokens[buyer];
    let mut body = if plan.draw {
        format!("{{\"client_seed\":\"player {buyer} try {number}\"}}")
    } else {
        format!("{{\"quantity\":{}}}", plan.quantity)
    };
    if plan.bots_percent > 0 {
        match earn_pass(client, plan, token).await {
            Ok(pass) => body = format!("{{\"quantity\":{},\"pass\":\"{pass}\"}}", plan.quantity),
            Err(answer) => return answer,
        }
    }
    let deadline = Instant::now() + plan.patience;
    loop {
        let sent = client.send_as(token, Method::POST, &path, Some(body.clone()), Some(&key)).await.ok();
        let answer = match sent {
            Some(answer) if answer.status == 202 && !plan.patience.is_zero() => {
                outcome(client, plan, token, answer, deadline).await
            }
            sent => sent,
        };
        // No response, a server error, a request still in flight, or a lost claim: the buyer may retry.
        let unclear = answer.as_ref().is_none_or(|answer| {
            answer.status >= 500 || ["idempotency_in_flight", "claim_lost"].contains(&answer.code().as_str())
        });
        if !unclear || Instant::now() >= deadline {
            return answer;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Polls a queued order or play. `None` if it was rejected; the queued response if there is no outcome in time.
async fn outcome(
    client: &mut Client,
    plan: &Plan,
    token: &str,
    queued: Answer,
    deadline: Instant,
) -> Option<Answer> {
    let id = queued.json()["id"].as_str()?.to_owned();
    let path = format!("/v1/{}/{id}", if plan.draw { "plays" } else { "orders" });
    while Instant::now() < deadline {
        let found = client.send_as(token, Method::GET, &path, None, None).await.ok();
        match found.as_ref().map(|found| (found.status, found.json()["state"].as_str().map(str::to_owned))) {
            Some((200, Some(state))) if state == "rejected" => return None,
            Some((200, Some(state))) if state != "queued" => {
                return found.map(|found| Answer { status: 201, ..found });
            }
            _ => tokio::time::sleep(RETRY_AFTER).await,
        }
    }
    Some(queued)
}
