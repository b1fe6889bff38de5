//! The verdict: the server's books against what the buyers were told.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::RehearseArgs;
use super::crowd::Fairness;
use super::draw::Findings;
use super::load::Told;
use super::setup::Books;

/// What a rehearsal found. Everything but the first four figures and the speed must be zero.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) stock: u32,
    pub(super) buyers: u32,
    pub(super) attempts: u64,
    /// Orders the buyers were told they have.
    pub(super) accepted: u64,
    /// Attempts refused, by the reason given.
    pub(super) rejected: BTreeMap<String, u64>,
    /// Attempts without a clear answer.
    pub(super) errors: u64,
    /// Units in active orders, by the server's books.
    pub(super) sold: u64,
    pub(super) oversold: u64,
    /// Units left although somebody who might have had them was refused.
    pub(super) undersold: u64,
    /// Orders a buyer was told of and the server does not have.
    pub(super) lost: u64,
    /// Orders the server has and no buyer was told of.
    pub(super) unannounced: u64,
    /// Buyers with more than their limit, by the books or by what they were told.
    pub(super) limit_broken: u64,
    /// With --bots: what became of the scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bots: Option<Bots>,
    /// With --waiting-room: whether the early had equal chances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting_room: Option<Fairness>,
    /// With --draw: whether it was fair, delivered everything and can prove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<Findings>,
    /// What the server's own audit found.
    pub(super) violations: Vec<String>,
    pub(super) rps: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    pub(super) elapsed_s: f64,
    pub(super) verdict: &'static str,
}

/// Scripts among the visitors.
#[derive(Debug, Serialize)]
pub(super) struct Bots {
    pub(super) visitors: u32,
    /// Orders and passes they got.
    pub(super) accepted: u64,
    /// Why they were turned away, and how often.
    pub(super) turned_away: BTreeMap<String, u64>,
}

pub(super) fn judge(
    args: &RehearseArgs,
    told: &Told,
    books: &Books,
    fairness: Option<Fairness>,
    findings: Option<Findings>,
) -> Report {
    let active: Vec<&Value> = books
        .orders
        .iter()
        .filter(|order| matches!(text(order, "state"), "awaiting_payment" | "paid" | "played"))
        .collect();
    let sold: u64 = active.iter().map(|order| quantity(order)).sum();
    let known: HashSet<&str> = active.iter().map(|order| text(order, "id")).collect();
    let lost = told.accepted.keys().filter(|id| !known.contains(id.as_str())).count() as u64;
    let unannounced = known.iter().filter(|id| !told.accepted.contains_key(**id)).count() as u64;
    let mut violations: Vec<String> = strings(&books.audit["violations"]);
    if books.audit["ok"] != true && violations.is_empty() {
        violations.push(format!("gate and ledger differ: {}", books.audit["drift"]));
    }
    if books.counters["awaiting_payment"].as_u64().unwrap_or(0) + books.counters["paid"].as_u64().unwrap_or(0)
        != sold
    {
        violations.push(format!("the counters {} differ from the orders", books.counters));
    }
    let stock = u64::from(args.stock());
    let millis = |quantile: f64| round(micros(told.latency.value_at_quantile(quantile)) / 1000.0);
    let elapsed = told.elapsed.as_secs_f64();
    let mut report = Report {
        stock: args.stock(),
        buyers: args.buyers(),
        attempts: told.attempts,
        accepted: told.accepted.len() as u64,
        rejected: told.rejected.clone(),
        errors: told.errors,
        sold,
        oversold: sold.saturating_sub(stock),
        undersold: could_sell(args).saturating_sub(sold),
        lost,
        unannounced,
        limit_broken: above_limit(args, told, &active),
        bots: args.bots.map(|_| Bots {
            visitors: args.buyers() - args.honest(),
            accepted: told.bots_accepted,
            turned_away: told.turned_away.clone(),
        }),
        waiting_room: fairness,
        draw: findings,
        violations,
        rps: round(micros(told.attempts) / elapsed),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        max_ms: millis(1.0),
        elapsed_s: round(elapsed),
        verdict: "",
    };
    report.decide();
    report
}

/// Units that a crowd of this size must have bought.
fn could_sell(args: &RehearseArgs) -> u64 {
    let orders_each = u64::from(args.tries().min(args.limit() / args.quantity));
    let wanted = u64::from(args.honest()) * orders_each;
    wanted.min(u64::from(args.stock() / args.quantity)) * u64::from(args.quantity)
}

fn above_limit(args: &RehearseArgs, told: &Told, active: &[&Value]) -> u64 {
    let limit = u64::from(args.limit());
    let mut by_books: HashMap<&str, u64> = HashMap::new();
    for order in active {
        *by_books.entry(text(order, "user_id")).or_default() += quantity(order);
    }
    let mut by_told: HashMap<usize, u64> = HashMap::new();
    for buyer in told.accepted.values() {
        *by_told.entry(*buyer).or_default() += u64::from(args.quantity);
    }
    let above = |units: &&u64| **units > limit;
    let books = by_books.values().filter(above).count();
    books.max(by_told.values().filter(above).count()) as u64
}

/// A play is one seat.
fn quantity(order: &Value) -> u64 {
    order["quantity"].as_u64().unwrap_or(1)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
fn micros(value: u64) -> f64 {
    value as f64
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl Report {
    fn decide(&mut self) {
        let broken =
            self.errors + self.oversold + self.undersold + self.lost + self.unannounced + self.limit_broken;
        let fair = self.waiting_room.as_ref().is_none_or(|fairness| fairness.fair);
        let kept_out = self.bots.as_ref().is_none_or(|bots| bots.accepted == 0);
        let sound = self.draw.as_ref().is_none_or(Findings::is_sound);
        let pass = broken == 0 && self.violations.is_empty() && fair && kept_out && sound;
        self.verdict = if pass { "pass" } else { "fail" };
    }

    pub(super) fn server_stopped_cleanly(&mut self, cleanly: bool) {
        if !cleanly {
            self.violations.push("the server did not stop cleanly".into());
            self.decide();
        }
    }

    pub(super) fn passed(&self) -> bool {
        self.verdict == "pass"
    }

    /// For people.
    pub(super) fn print(&self) {
        say!("\n  Rehearsal: {} units, {} buyers, {} attempts\n", self.stock, self.buyers, self.attempts);
        say!("  accepted      {:>10}", self.accepted);
        for (code, count) in &self.rejected {
            say!("  {code:<13} {count:>10}");
        }
        say!("  errors        {:>10}\n", self.errors);
        say!("  sold          {:>10}", self.sold);
        say!("  oversold      {:>10}", self.oversold);
        say!("  undersold     {:>10}", self.undersold);
        say!("  lost          {:>10}", self.lost);
        say!("  unannounced   {:>10}", self.unannounced);
        say!("  limit broken  {:>10}\n", self.limit_broken);
        if let Some(bots) = &self.bots {
            say!("  {} scripts got {} orders or passes; turned away:", bots.visitors, bots.accepted);
            for (code, count) in &bots.turned_away {
                say!("    {code:<18} {count:>8}");
            }
            say!();
        }
        if let Some(room) = &self.waiting_room {
            say!("  waiting room: {room:?}\n");
        }
        if let Some(draw) = &self.draw {
            draw.print();
        }
        say!(
            "  {:.0} attempts/s in {:.2} s; half within {:.2} ms, 99 % within {:.2} ms, all within {:.2} ms",
            self.rps,
            self.elapsed_s,
            self.p50_ms,
            self.p99_ms,
            self.max_ms
        );
        for violation in &self.violations {
            say!("  violation: {violation}");
        }
        say!("\n  verdict: {}\n", self.verdict);
    }
}
