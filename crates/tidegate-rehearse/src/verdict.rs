//! The verdict: compares the server's records with the responses that buyers received.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::RehearseArgs;
use super::draw::DrawResult;
use super::load::Responses;
use super::setup::ServerRecords;
use super::waiting_room::Fairness;

/// The result of a rehearsal. It passes if `errors`, `oversold`, `undersold`, `lost`, `unannounced` and `limit_broken`
/// are zero, there are no violations, and the optional checks pass.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) stock: u32,
    pub(super) buyers: u32,
    pub(super) attempts: u64,
    /// Orders or plays confirmed to buyers.
    pub(super) accepted: u64,
    /// Refused attempts, by problem code.
    pub(super) rejected: BTreeMap<String, u64>,
    /// Attempts without a definite outcome.
    pub(super) errors: u64,
    /// Units in active orders, by the server's records.
    pub(super) sold: u64,
    pub(super) oversold: u64,
    /// Units left although there were enough buyers to sell them to.
    pub(super) undersold: u64,
    /// Orders confirmed to a buyer that the server does not have.
    pub(super) lost: u64,
    /// Orders that the server has but no buyer got a confirmation of.
    pub(super) unannounced: u64,
    /// Buyers above their limit, by the server's records or by the confirmations, whichever is more.
    pub(super) limit_broken: u64,
    /// With --bots: what the bots achieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bots: Option<Bots>,
    /// With --waiting-room: whether all who joined before the start had equal chances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting_room: Option<Fairness>,
    /// With --draw: whether the draw was fair, delivered every prize and has a valid proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<DrawResult>,
    /// Violations found by the server's audit and by this program.
    pub(super) violations: Vec<String>,
    pub(super) rps: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    pub(super) elapsed_s: f64,
    pub(super) verdict: &'static str,
}

/// Results of the bots.
#[derive(Debug, Serialize)]
pub(super) struct Bots {
    pub(super) visitors: u32,
    /// Orders and passes they got.
    pub(super) accepted: u64,
    /// Refusals, by problem code.
    pub(super) turned_away: BTreeMap<String, u64>,
}

pub(super) fn judge(
    args: &RehearseArgs,
    responses: &Responses,
    records: &ServerRecords,
    fairness: Option<Fairness>,
    draw_result: Option<DrawResult>,
) -> Report {
    let active: Vec<&Value> = records
        .orders
        .iter()
        .filter(|order| matches!(text(order, "state"), "awaiting_payment" | "paid" | "played"))
        .collect();
    let sold: u64 = active.iter().map(|order| quantity(order)).sum();
    let known: HashSet<&str> = active.iter().map(|order| text(order, "id")).collect();
    let lost = responses.accepted.keys().filter(|id| !known.contains(id.as_str())).count() as u64;
    let unannounced = known.iter().filter(|id| !responses.accepted.contains_key(**id)).count() as u64;
    let mut violations: Vec<String> = strings(&records.audit["violations"]);
    if records.audit["ok"] != true && violations.is_empty() {
        violations.push(format!("gate and ledger differ: {}", records.audit["drift"]));
    }
    if records.counters["awaiting_payment"].as_u64().unwrap_or(0)
        + records.counters["paid"].as_u64().unwrap_or(0)
        != sold
    {
        violations.push(format!("the counters {} differ from the orders", records.counters));
    }
    let stock = u64::from(args.stock());
    let millis = |quantile: f64| round(float(responses.latency.value_at_quantile(quantile)) / 1000.0);
    let elapsed = responses.elapsed.as_secs_f64();
    let mut report = Report {
        stock: args.stock(),
        buyers: args.buyers(),
        attempts: responses.attempts,
        accepted: responses.accepted.len() as u64,
        rejected: responses.rejected.clone(),
        errors: responses.errors,
        sold,
        oversold: sold.saturating_sub(stock),
        undersold: could_sell(args).saturating_sub(sold),
        lost,
        unannounced,
        limit_broken: above_limit(args, responses, &active),
        bots: args.bots.map(|_| Bots {
            visitors: args.buyers() - args.honest(),
            accepted: responses.bots_accepted,
            turned_away: responses.bot_refusals.clone(),
        }),
        waiting_room: fairness,
        draw: draw_result,
        violations,
        rps: round(float(responses.attempts) / elapsed),
        p50_ms: millis(0.5),
        p99_ms: millis(0.99),
        max_ms: millis(1.0),
        elapsed_s: round(elapsed),
        verdict: "",
    };
    report.decide();
    report
}

/// Units that this number of honest buyers must have bought.
fn could_sell(args: &RehearseArgs) -> u64 {
    let orders_each = u64::from(args.tries().min(args.limit() / args.quantity));
    let wanted = u64::from(args.honest()) * orders_each;
    wanted.min(u64::from(args.stock() / args.quantity)) * u64::from(args.quantity)
}

fn above_limit(args: &RehearseArgs, responses: &Responses, active: &[&Value]) -> u64 {
    let limit = u64::from(args.limit());
    let mut by_records: HashMap<&str, u64> = HashMap::new();
    for order in active {
        *by_records.entry(text(order, "user_id")).or_default() += quantity(order);
    }
    let mut by_responses: HashMap<usize, u64> = HashMap::new();
    for buyer in responses.accepted.values() {
        *by_responses.entry(*buyer).or_default() += u64::from(args.quantity);
    }
    let above = |units: &&u64| **units > limit;
    let above_by_records = by_records.values().filter(above).count();
    above_by_records.max(by_responses.values().filter(above).count()) as u64
}

/// Units of an order; a play, which has no quantity, is one seat.
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
fn float(value: u64) -> f64 {
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
        let sound = self.draw.as_ref().is_none_or(DrawResult::is_sound);
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

    /// Prints the report for humans.
    pub(super) fn print(&self) {
        print_line!(
            "\n  Rehearsal: {} units, {} buyers, {} attempts\n",
            self.stock,
            self.buyers,
            self.attempts
        );
        print_line!("  accepted      {:>10}", self.accepted);
        for (code, count) in &self.rejected {
            print_line!("  {code:<13} {count:>10}");
        }
        print_line!("  errors        {:>10}\n", self.errors);
        print_line!("  sold          {:>10}", self.sold);
        print_line!("  oversold      {:>10}", self.oversold);
        print_line!("  undersold     {:>10}", self.undersold);
        print_line!("  lost          {:>10}", self.lost);
        print_line!("  unannounced   {:>10}", self.unannounced);
        print_line!("  limit broken  {:>10}\n", self.limit_broken);
        if let Some(bots) = &self.bots {
            print_line!("  {} scripts got {} orders or passes; turned away:", bots.visitors, bots.accepted);
            for (code, count) in &bots.turned_away {
                print_line!("    {code:<18} {count:>8}");
            }
            print_line!();
        }
        if let Some(room) = &self.waiting_room {
            print_line!("  waiting room: {room:?}\n");
        }
        if let Some(draw) = &self.draw {
            draw.print();
        }
        print_line!(
            "  {:.0} attempts/s in {:.2} s; half within {:.2} ms, 99 % within {:.2} ms, all within {:.2} ms",
            self.rps,
            self.elapsed_s,
            self.p50_ms,
            self.p99_ms,
            self.max_ms
        );
        for violation in &self.violations {
            print_line!("  violation: {violation}");
        }
        print_line!("\n  verdict: {}\n", self.verdict);
    }
}
