//! Verifies a draw's JSON proof: the commitment must follow from seed and prize table, every play from the seed.

use anyhow::{Context, bail};
use serde::Deserialize;
use tidegate_core::dealer::{self, Dealt, Hash};
use tidegate_core::draw::{Grant, ODDS_TOTAL, PrizeKind, Strategy};
use tidegate_core::limits::{MAX_PRIZES, MAX_STOCK};
use tidegate_core::proof::Replay;
use tidegate_core::{Draw, Prize, PrizeNumber};

/// The result of a verification.
#[derive(Clone, Debug)]
pub struct Verified {
    pub draw_id: String,
    pub plays: u64,
    pub wins: u64,
    /// Violations; empty if the proof is valid. The replay stops at the first wrong play, on which later ones depend.
    pub wrong: Vec<String>,
    /// Actual and expected number of wins per prize; the last entry is for no win.
    pub counts: Vec<(u64, f64)>,
    /// Units left of each prize.
    pub left: Vec<u32>,
}

#[derive(Debug, Deserialize)]
struct ProofFile {
    scheme: String,
    draw_id: String,
    strategy: String,
    seats: u32,
    prizes: Vec<PrizeEntry>,
    commitment: String,
    seed: Option<String>,
    plays_count: u64,
    plays_hash: String,
    #[serde(default)]
    plays: Vec<PlayEntry>,
}

#[derive(Debug, Deserialize)]
struct PrizeEntry {
    id: String,
    name: String,
    kind: String,
    #[serde(default)]
    odds: u32,
    stock: u32,
}

#[derive(Debug, Deserialize)]
struct PlayEntry {
    number: u64,
    seat: u32,
    client_seed: String,
    prize: Option<String>,
    hash: String,
}

/// Verifies a proof; `expected_commitment` is the one noted before the draw, if any. `Err` if the text is not a proof.
pub fn proof(text: &str, expected_commitment: Option<&str>) -> anyhow::Result<Verified> {
    let file: ProofFile = serde_json::from_str(text)?;
    let draw = read_draw(&file)?;
    let commitment = dealer::commitment(&draw.seed, &dealer::table(&file.draw_id, &draw, file.seats));
    let mut wrong = Vec::new();
    if parse_hash(&file.commitment) != Some(commitment) {
        wrong.push("the commitment does not follow from the seed and the table".to_owned());
    }
    if expected_commitment.is_some_and(|expected| !expected.trim().eq_ignore_ascii_case(&file.commitment)) {
        wrong.push("the commitment is not the one that was noted".to_owned());
    }
    let mut replay = Replay::new(&draw, file.seats);
    let mut won = vec![0_u64; draw.prizes.len() + 1];
    for play in &file.plays {
        if let Err(found) = check(&mut replay, &mut won, play) {
            wrong.push(found);
            break;
        }
    }
    let whole = file.plays.len() as u64 == file.plays_count;
    let ends = parse_hash(&file.plays_hash).as_ref() == Some(replay.hash());
    if wrong.is_empty() && !(whole && ends) {
        wrong.push("the list of plays does not end in plays_count and plays_hash".to_owned());
    }
    Ok(Verified {
        draw_id: file.draw_id,
        plays: replay.plays(),
        wins: won.iter().rev().skip(1).sum(),
        wrong,
        counts: won.into_iter().zip(replay.expected().iter().copied()).collect(),
        left: replay.left().to_vec(),
    })
}

fn check(replay: &mut Replay, won: &mut [u64], play: &PlayEntry) -> Result<(), String> {
    let named = |what: &str| format!("play {} (seat {}): {what}", play.number, play.seat);
    let prize: Option<PrizeNumber> =
        match play.prize.as_deref().map(|text| (text, text.parse::<PrizeNumber>())) {
            None => None,
            Some((text, Ok(number))) if usize::from(number) < won.len() && number.to_string() == text => {
                Some(number)
            }
            Some(_) => return Err(named("its prize is not one of the draw's")),
        };
    let hash = parse_hash(&play.hash).ok_or_else(|| named("its hash is malformed"))?;
    let dealt = Dealt { number: play.number, seat: play.seat, prize, client_seed: &play.client_seed };
    replay.play(dealt, &hash).map_err(|wrong| wrong.to_string())?;
    let at = prize.map_or(won.len() - 1, |number| usize::from(number) - 1);
    won[at] += 1;
    Ok(())
}

fn read_draw(file: &ProofFile) -> anyhow::Result<Draw> {
    if file.scheme != "tidegate draw 1" {
        bail!("its scheme is {:?}, but this program supports only \"tidegate draw 1\"", file.scheme);
    }
    let seed = file.seed.as_deref().context("it has no seed: the draw is not closed yet")?;
    let seed = parse_hash(seed).context("its seed is not 64 hexadecimal digits")?;
    let strategy = Strategy::parse(&file.strategy).context("its strategy is unknown")?;
    if !(1..=MAX_STOCK).contains(&file.seats) || file.prizes.len() > MAX_PRIZES {
        bail!("its number of seats or prizes is out of range");
    }
    // A line feed in a name would make the table that the commitment hashes ambiguous.
    let mut texts = file.prizes.iter().map(|prize| &prize.name).chain([&file.draw_id]);
    if texts.any(|text| text.chars().any(char::is_control)) {
        bail!("a name contains control characters");
    }
    let prizes = file.prizes.iter().zip(1..).map(|(prize, number)| read_prize(prize, number));
    let prizes = prizes.collect::<anyhow::Result<Vec<_>>>()?;
    let odds: u64 = prizes.iter().map(|prize| u64::from(prize.odds)).sum();
    let cards: u64 = prizes.iter().map(|prize| u64::from(prize.stock)).sum();
    if odds > ODDS_TOTAL.into() || (strategy == Strategy::Deck && cards > file.seats.into()) {
        bail!("its odds or cards do not add up");
    }
    Ok(Draw { name: String::new(), strategy, prizes, seed })
}

fn read_prize(prize: &PrizeEntry, number: u32) -> anyhow::Result<Prize> {
    if prize.id != number.to_string() {
        bail!("its prizes are not numbered 1, 2, 3, …");
    }
    Ok(Prize {
        name: prize.name.clone(),
        kind: PrizeKind::parse(&prize.kind).with_context(|| format!("prize {number} has an unknown kind"))?,
        odds: prize.odds,
        stock: prize.stock,
        grant: Grant::Instant,
        content: String::new(),
    })
}

/// Parses 64 lower-case hexadecimal digits; a hash has only one valid notation.
fn parse_hash(text: &str) -> Option<Hash> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}
