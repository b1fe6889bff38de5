//! The crowd: every buyer tries as often as planned, over shared connections, and remembers what they were told.
//!
//! Closed loop: a connection tries again as soon as it is answered. Open loop: arrivals keep their own pace, and an
//! answer's latency counts from the planned arrival, so that waiting for a slow server is not hidden.

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

use super::bots::{earn_pass, is_bot, misbehave};
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
    /// Of a hundred visitors so many are scripts.
    pub(super) bots_percent: usize,
    /// Passes that buyers have got, for scripts to steal.
    pub(super) used_passes: Arc<Mutex<Vec<String>>>,
    /// How long a buyer goes on asking, with the same key, while there is no clear answer.
    pub(super) patience: Duration,
    /// How it went over time, where somebody wants to see it.
    pub(super) timeline: Option<Arc<Mutex<Timeline>>>,
}

impl Plan {
    /// Puts an attempt that was answered now on the timeline.
    pub(super) fn mark(&self, started: Instant, accepted: bool, took: Duration) {
        if let Some(timeline) = &self.timeline {
            timeline.lock().note(started.elapsed(), accepted, took);
        }
    }
}

/// What the buyers were told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) attempts: u64,
    /// Order id to the index of its buyer.
    pub(super) accepted: HashMap<String, usize>,
    /// What each seat of a draw was said to have won.
    pub(super) outcomes: HashMap<u64, Option<String>>,
    pub(super) rejected: BTreeMap<String, u64>,
    pub(super) errors: u64,
    /// What scripts were told, and orders they got.
    pub(super) turned_away: BTreeMap<String, u64>,
    pub(super) bots_accepted: u64,
    pub(super) elapsed: Duration,
    /// In microseconds.
    pub(super) latency: Histogram<u64>,
}

const RETRY_AFTER: Duration = Duration::from_millis(100);
const LONGEST_US: u64 = 600_000_000;

impl Told {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            attempts: 0,
            accepted: HashMap::new(),
            outcomes: HashMap::new(),
            rejected: BTreeMap::new(),
            errors: 0,
            turned_away: BTreeMap::new(),
            bots_accepted: 0,
            elapsed: Duration::ZERO,
            latency: Histogram::new_with_bounds(1, LONGEST_US, 3)?,
        })
    }

    /// What one buyer was told; whether it was accepted.
    pub(super) fn note(&mut self, buyer: usize, answer: Option<Answer>, took: Duration) -> bool {
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

    /// What one script was told.
    fn note_bot(&mut self, answer: Option<Answer>) {
        self.attempts += 1;
        match answer {
            Some(answer) if (200..300).contains(&answer.status) => self.bots_accepted += 1,
            Some(answer) if answer.status < 500 || answer.status == 503 => {
                *self.turned_away.entry(answer.code()).or_default() += 1;
            }
            _ => self.errors += 1,
        }
    }

    /// A buyer who was told without having tried.
    pub(super) fn turned_down(&mut self, why: &str) {
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
        for (code, count) in other.turned_away {
            *self.turned_away.entry(code).or_default() += count;
        }
        self.bots_accepted += other.bots_accepted;
        self.errors += other.errors;
        self.latency.add(other.latency)?;
        Ok(())
    }
}

pub(super) async fn fire(plan: Plan) -> anyhow::Result<Told> {
    let total = plan.tokens.len() as u64 * u64::from(plan.tries);
    let bar = ProgressBar::new(total).with_style(ProgressStyle::with_template(
        "  rehearsing {bar:40} {pos}/{len} attempts  {per_sec}  {elapsed}",
    )?);
    let (plan, next) = (Arc::new(plan), Arc::new(AtomicU64::new(0)));
    let started = Instant::now();
    let mut crowd = tokio::task::JoinSet::new();
    for number in 0..plan.connections as usize {
        let client = Client::new(&plan.url, None)?.spread(number);
        crowd.spawn(connection(plan.clone(), client, next.clone(), total, started, bar.clone()));
    }
    let mut told = Told::new()?;
    while let Some(part) = crowd.join_next().await {
        told.add(part??)?;
    }
    told.elapsed = started.elapsed();
    bar.finish_and_clear();
    Ok(told)
}

/// One connection, taking the next attempt whenever it is free.
async fn connection(
    plan: Arc<Plan>,
    mut client: Client,
    next: Arc<AtomicU64>,
    total: u64,
    started: Instant,
    bar: ProgressBar,
) -> anyhow::Result<Told> {
    let mut told = Told::new()?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= total {
            return Ok(told);
        }
        let arrival = match plan.rate {
            Some(rate) => {
                let planned = started + Duration::from_nanos(number * 1_000_000_000 / u64::from(rate));
                tokio::time::sleep_until(planned).await;
                planned
            }
            None => Instant::now(),
        };
        // A buyer's tries come together, on several connections at once: that is what puts a limit to the test.
        let buyer = usize::try_from(number / u64::from(plan.tries))?;
        if is_bot(&plan, buyer) {
            for answer in misbehave(&mut client, &plan, buyer).await {
                told.note_bot(answer);
            }
        } else {
            let answer = attempt(&mut client, &plan, buyer, number).await;
            let took = arrival.elapsed();
            let accepted = told.note(buyer, answer, took);
            plan.mark(started, accepted, took);
        }
        bar.inc(1);
    }
}

/// One try of one buyer, until there is a clear answer.
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
        // Something of theirs does not work right now, or what was queued was lost: the buyer may try again at once.
        let unclear = answer.as_ref().is_none_or(|answer| {
            answer.status >= 500 || ["idempotency_in_flight", "claim_lost"].contains(&answer.code().as_str())
        });
        if !unclear || Instant::now() >= deadline {
            return answer;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// What became of an order that was queued; `None` if it came to nothing, or nobody can say.
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
