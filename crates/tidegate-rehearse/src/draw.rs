//! A rehearsed draw: what it is made of, and whether it was fair, delivered everything and can prove it.

use std::time::Duration;

use anyhow::{Context, bail};
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::RehearseArgs;
use super::load::Told;
use crate::client::Client;
use crate::verify::{self, Verified};

/// How long prizes may take to be given once the draw is closed.
const DELIVER_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Prizes that were won or expected less often than this are rare.
const RARE: f64 = 50.0;
/// What a normal variable exceeds once in a hundred thousand times.
const RARELY: f64 = 4.265;

/// What was found out about a rehearsed draw.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Findings {
    pub(super) strategy: String,
    pub(super) plays: u64,
    pub(super) wins: u64,
    pub(super) prizes: Vec<PrizeFinding>,
    /// How far the prizes are from their odds, and what that exceeds once in a hundred thousand fair draws.
    pub(super) chi_squared: f64,
    pub(super) bound: f64,
    /// Prizes that reached their winners: as many as were won.
    pub(super) delivered: u64,
    /// Whether the proof holds, play by play.
    pub(super) proof_verified: bool,
    /// Whether a proof with one byte of one play changed is refused with that play's number.
    pub(super) tampering_named: bool,
    /// What else does not hold.
    pub(super) wrong: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PrizeFinding {
    pub(super) name: String,
    pub(super) stock: u64,
    pub(super) won: u64,
    /// Missing for a deck, which leaves nothing to chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<f64>,
}

impl Findings {
    /// For people.
    pub(super) fn print(&self) {
        say!(
            "  {} draw: {} plays, {} wins, {} delivered",
            self.strategy,
            self.plays,
            self.wins,
            self.delivered
        );
        for PrizeFinding { name, stock, won, expected } in &self.prizes {
            let expected = expected.map(|expected| format!("expected {expected:.1}")).unwrap_or_default();
            say!("    {name:<12} {won:>7} of {stock:<7} {expected}");
        }
        say!("  chi-squared {} (below {})", self.chi_squared, self.bound);
        let say_so = |holds: bool| if holds { "yes" } else { "NO" };
        say!("  proof holds   {}", say_so(self.proof_verified));
        say!("  a changed play is named  {}", say_so(self.tampering_named));
        for wrong in &self.wrong {
            say!("  wrong: {wrong}");
        }
        say!();
    }

    pub(super) fn is_sound(&self) -> bool {
        self.chi_squared < self.bound
            && self.delivered == self.wins
            && self.proof_verified
            && self.tampering_named
            && self.wrong.is_empty()
    }
}

/// One that runs out early, one that runs out on the way, one with enough for all, one that waits for the close.
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

/// Closes the draw and looks at everything that must hold then.
pub(super) async fn conclude(
    operator: &mut Client,
    draw: &str,
    committed: &str,
    told: &Told,
) -> anyhow::Result<Findings> {
    let closed = operator.expect(200, Method::POST, &format!("/v1/admin/draws/{draw}/close"), None).await?;
    let delivered = wait_for_deliveries(operator, draw).await?;
    let text = operator.get(&format!("/v1/draws/{draw}/proof")).await?;
    let text = String::from_utf8(text.body.to_vec()).context("the proof is no text")?;
    let proof: Value = serde_json::from_str(&text).context("the proof is no JSON")?;
    let verified = verify::proof(&text, Some(committed))?;
    let mut wrong = verified.wrong.clone();
    wrong.extend(as_told(&proof, told));
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
    Ok(Findings {
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

/// Waits until every prize has reached its winner; how many.
async fn wait_for_deliveries(operator: &mut Client, draw: &str) -> anyhow::Result<u64> {
    let deadline = tokio::time::Instant::now() + DELIVER_WITHIN;
    loop {
        let shown = operator.expect(200, Method::GET, &format!("/v1/admin/draws/{draw}"), None).await?;
        let states = shown["deliveries"].as_object().context("no deliveries in the answer")?;
        let of = |state: &str| states.get(state).and_then(Value::as_u64).unwrap_or(0);
        if of("new") + of("failed") + of("waiting") == 0 {
            return Ok(of("delivered"));
        }
        if tokio::time::Instant::now() > deadline {
            bail!(
                "prizes are still on their way after {} s: {}",
                DELIVER_WITHIN.as_secs(),
                shown["deliveries"]
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether the history says what the players were told.
fn as_told(proof: &Value, told: &Told) -> Vec<String> {
    let mut wrong = Vec::new();
    for play in proof["plays"].as_array().into_iter().flatten() {
        let seat = play["seat"].as_u64().unwrap_or(0);
        let prize = play["prize"].as_str().map(str::to_owned);
        match told.outcomes.get(&seat) {
            Some(said) if *said == prize => {}
            Some(said) => wrong.push(format!("seat {seat} was told {said:?}, but the proof says {prize:?}")),
            None => wrong.push(format!("nobody was told of seat {seat}")),
        }
        if wrong.len() >= 10 {
            wrong.push("and so on".into());
            break;
        }
    }
    wrong
}

fn prizes_of(draw: &Value, verified: &Verified) -> Vec<PrizeFinding> {
    let shown = draw["prizes"].as_array().into_iter().flatten();
    shown
        .zip(&verified.counts)
        .map(|(prize, (won, expected))| PrizeFinding {
            name: prize["name"].as_str().unwrap_or("").to_owned(),
            stock: prize["stock"].as_u64().unwrap_or(0),
            won: *won,
            expected: Some((expected * 10.0).round() / 10.0).filter(|expected| *expected > 0.0),
        })
        .collect()
}

/// How far what was won is from what was to be expected, given what was left at each play.
fn chi_squared(verified: &Verified) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "counts of plays, far below 2^52")]
    let cells = verified.counts.iter().map(|(won, expected)| (*won as f64, *expected));
    // Rare prizes together with losing: a few of them say nothing by themselves, and one that runs out after five says
    // less.
    let (rare, mut cells): (Vec<_>, Vec<_>) =
        cells.filter(|(_, expected)| *expected > 0.0).partition(|(won, expected)| won.min(*expected) < RARE);
    if let Some(losing) = cells.last_mut() {
        *losing = rare.iter().fold(*losing, |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    }
    let terms: Vec<f64> = cells.iter().map(|(won, expected)| (won - expected).powi(2) / expected).collect();
    let freedom = f64::from(u32::try_from(terms.len()).unwrap_or(u32::MAX).saturating_sub(1).max(1));
    // Wilson and Hilferty: the cube root of chi-squared is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - spread + RARELY * spread.sqrt()).powi(3);
    let found: f64 = terms.iter().fold(0.0, |sum, term| sum + term);
    ((found * 1000.0).round() / 1000.0, (bound * 1000.0).round() / 1000.0)
}

/// Changes the last byte of one play's hash, then the player's seed of another, and expects to be told which.
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
