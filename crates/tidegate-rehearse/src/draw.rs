//! Rehearsal of a draw: its terms, and the checks that it was fair, delivered every prize and has a valid proof.

use std::time::Duration;

use anyhow::{Context, bail};
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::RehearseArgs;
use super::load::Responses;
use crate::client::Client;
use crate::verify::{self, Verified};

/// How long deliveries may take after the draw is closed.
const DELIVER_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Prizes won or expected less often than this count as rare in the chi-squared test.
const MIN_CELL_COUNT: f64 = 50.0;
/// Quantile of the standard normal distribution, exceeded with probability 1/100,000.
const NORMAL_QUANTILE: f64 = 4.265;

/// Results of a rehearsed draw.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DrawResult {
    pub(super) strategy: String,
    pub(super) plays: u64,
    pub(super) wins: u64,
    pub(super) prizes: Vec<PrizeResult>,
    /// Deviation of the wins from their odds.
    pub(super) chi_squared: f64,
    /// Critical value of `chi_squared`, which a fair draw exceeds once in a hundred thousand times.
    pub(super) bound: f64,
    /// Delivered prizes; must equal `wins`.
    pub(super) delivered: u64,
    /// Whether the proof is valid for every play.
    pub(super) proof_verified: bool,
    /// Whether verifying a proof with one changed play names that play.
    pub(super) tampering_named: bool,
    /// All violations found.
    pub(super) wrong: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PrizeResult {
    pub(super) name: String,
    pub(super) stock: u64,
    pub(super) won: u64,
    /// `None` for a deck, whose wins are fixed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<f64>,
}

impl DrawResult {
    /// Prints the results for humans.
    pub(super) fn print(&self) {
        print_line!(
            "  {} draw: {} plays, {} wins, {} delivered",
            self.strategy,
            self.plays,
            self.wins,
            self.delivered
        );
        for PrizeResult { name, stock, won, expected } in &self.prizes {
            let expected = expected.map(|expected| format!("expected {expected:.1}")).unwrap_or_default();
            print_line!("    {name:<12} {won:>7} of {stock:<7} {expected}");
        }
        print_line!("  chi-squared {} (below {})", self.chi_squared, self.bound);
        let yes_or_no = |holds: bool| if holds { "yes" } else { "NO" };
        print_line!("  proof holds   {}", yes_or_no(self.proof_verified));
        print_line!("  a changed play is named  {}", yes_or_no(self.tampering_named));
        for wrong in &self.wrong {
            print_line!("  wrong: {wrong}");
        }
        print_line!();
    }

    pub(super) fn is_sound(&self) -> bool {
        self.chi_squared < self.bound
            && self.delivered == self.wins
            && self.proof_verified
            && self.tampering_named
            && self.wrong.is_empty()
    }
}

/// Terms of the draw. Its prizes: one that runs out early, one that runs out midway, one with ample stock, and one
/// granted at close.
pub(super) fn terms(args: &RehearseArgs, strategy: &str, starts_at: &str, ends_at: &str) -> Value {
    let seats = args.stock();
    let part = |of: u32| (seats / of).max(1);
    let codes: Vec<String> = (1..=part(100)).map(|number| format!("REHEARSAL-{number:06}")).collect();
    let mut prizes = json!([
        {"name": "Jackpot", "kind": "text", "content": "You won the jackpot.", "odds": 100_000, "stock": part(20_000)},
        {"name": "Code", "kind": "code", "codes": codes, "odds": 20_000_000, "stock": codes.len()},
        {"name": "Text", "kind": "text", "content": "Well played.", "odds": 100_000_000, "stock": part(4)},
        {"name": "Later", "kind": "text", "content": "Thank you for waiting.", "odds": 50_000_000, "stock": part(8),
         "grant": "at_close"},
    ]);
    if strategy == "deck" {
        for prize in prizes.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            prize.remove("odds");
        }
        if seats < 4 {
            prizes = json!([{"name": "Text", "kind": "text", "content": "Well played.", "stock": 1}]);
        }
    }
    json!({
        "name": "Rehearsal", "seats": seats, "starts_at": starts_at, "ends_at": ends_at,
        "plays_per_user": args.limit(), "strategy": strategy, "prizes": prizes,
    })
}

/// Closes the draw and checks deliveries, proof, outcomes and fairness.
pub(super) async fn close_and_check(
    operator: &mut Client,
    draw: &str,
    committed: &str,
    responses: &Responses,
) -> anyhow::Result<DrawResult> {
    let closed = operator.expect(200, Method::POST, &format!("/v1/admin/draws/{draw}/close"), None).await?;
    let delivered = wait_for_deliveries(operator, draw).await?;
    let text = operator.get(&format!("/v1/draws/{draw}/proof")).await?;
    let text = String::from_utf8(text.body.to_vec()).context("the proof is not UTF-8")?;
    let proof: Value = serde_json::from_str(&text).context("the proof is not JSON")?;
    let verified = verify::proof(&text, Some(committed))?;
    let mut wrong = verified.wrong.clone();
    wrong.extend(outcome_differences(&proof, responses));
    let prizes = prizes_of(&closed, &verified);
    let whole_deck = closed["strategy"] == "deck" && closed["seats"].as_u64() == Some(verified.plays);
    for prize in prizes.iter().filter(|prize| whole_deck && prize.won != prize.stock) {
        wrong.push(format!("the whole deck was played, and {} was won {} times", prize.name, prize.won));
    }
    for prize in prizes.iter().filter(|prize| prize.won > prize.stock) {
        wrong.push(format!("{} was won {} times, but there are {}", prize.name, prize.won, prize.stock));
    }
    let strategy = closed["strategy"].as_str().unwrap_or("").to_owned();
    let (chi_squared, bound) = chi_squared(&verified);
    Ok(DrawResult {
        strategy,
        plays: verified.plays,
        wins: verified.wins,
        prizes,
        chi_squared,
        bound,
        delivered,
        proof_verified: verified.wrong.is_empty(),
        tampering_named: tampering_is_named(&proof),
        wrong,
    })
}

/// Waits until no delivery is pending; returns how many prizes were delivered.
async fn wait_for_deliveries(operator: &mut Client, draw: &str) -> anyhow::Result<u64> {
    let deadline = tokio::time::Instant::now() + DELIVER_WITHIN;
    loop {
        let shown = operator.expect(200, Method::GET, &format!("/v1/admin/draws/{draw}"), None).await?;
        let states = shown["deliveries"].as_object().context("no deliveries in the response")?;
        let of = |state: &str| states.get(state).and_then(Value::as_u64).unwrap_or(0);
        if of("new") + of("failed") + of("waiting") == 0 {
            return Ok(of("delivered"));
        }
        if tokio::time::Instant::now() > deadline {
            bail!(
                "deliveries are still pending after {} s: {}",
                DELIVER_WITHIN.as_secs(),
                shown["deliveries"]
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Differences between the proof and the outcomes that players received.
fn outcome_differences(proof: &Value, responses: &Responses) -> Vec<String> {
    let mut wrong = Vec::new();
    for play in proof["plays"].as_array().into_iter().flatten() {
        let seat = play["seat"].as_u64().unwrap_or(0);
        let prize = play["prize"].as_str().map(str::to_owned);
        match responses.outcomes.get(&seat) {
            Some(said) if *said == prize => {}
            Some(said) => wrong.push(format!("seat {seat}: response {said:?}, but proof {prize:?}")),
            None => wrong.push(format!("no player received the outcome of seat {seat}")),
        }
        if wrong.len() >= 10 {
            wrong.push("further differences are omitted".into());
            break;
        }
    }
    wrong
}

fn prizes_of(draw: &Value, verified: &Verified) -> Vec<PrizeResult> {
    let shown = draw["prizes"].as_array().into_iter().flatten();
    shown
        .zip(&verified.counts)
        .map(|(prize, (won, expected))| PrizeResult {
            name: prize["name"].as_str().unwrap_or("").to_owned(),
            stock: prize["stock"].as_u64().unwrap_or(0),
            won: *won,
            expected: Some((expected * 10.0).round() / 10.0).filter(|expected| *expected > 0.0),
        })
        .collect()
}

/// Chi-squared of the wins against their expectation, given the prizes left at each play; and its critical value.
fn chi_squared(verified: &Verified) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "counts of plays, far below 2^52")]
    let cells = verified.counts.iter().map(|(won, expected)| (*won as f64, *expected));
    // Rare prizes are merged with the cell for no win: chi-squared is unreliable for small counts and for prizes that
    // run out early.
    let (rare, mut cells): (Vec<_>, Vec<_>) = cells
        .filter(|(_, expected)| *expected > 0.0)
        .partition(|(won, expected)| won.min(*expected) < MIN_CELL_COUNT);
    if let Some(losing) = cells.last_mut() {
        *losing = rare.iter().fold(*losing, |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    }
    let terms: Vec<f64> = cells.iter().map(|(won, expected)| (won - expected).powi(2) / expected).collect();
    let freedom = f64::from(u32::try_from(terms.len()).unwrap_or(u32::MAX).saturating_sub(1).max(1));
    // Wilson-Hilferty approximation: the cube root of chi-squared is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - spread + NORMAL_QUANTILE * spread.sqrt()).powi(3);
    let found: f64 = terms.iter().fold(0.0, |sum, term| sum + term);
    ((found * 1000.0).round() / 1000.0, (bound * 1000.0).round() / 1000.0)
}

/// Changes the hash of one play, then the player's seed of another; each time, verification must name that play.
fn tampering_is_named(proof: &Value) -> bool {
    let plays = proof["plays"].as_array().map_or(0, Vec::len);
    let named = |at: usize, tamper: &dyn Fn(&mut Value)| {
        let mut tampered = proof.clone();
        tamper(&mut tampered["plays"][at]);
        let found = verify::proof(&tampered.to_string(), None);
        found.is_ok_and(|found| {
            found.wrong.iter().any(|wrong| wrong.starts_with(&format!("play {} ", at + 1)))
        })
    };
    let flip = |text: &Value| {
        let text = text.as_str().unwrap_or("");
        let last = if text.ends_with('0') { '1' } else { '0' };
        Value::from(format!("{}{last}", &text[..text.len().saturating_sub(1)]))
    };
    plays > 0
        && named(plays / 2, &|play| play["hash"] = flip(&play["hash"]))
        && named(plays / 3, &|play| play["client_seed"] = flip(&play["client_seed"]))
}
