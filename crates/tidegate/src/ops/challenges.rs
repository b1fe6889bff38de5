//! Challenges: what a visitor solves before they get a pass. Proof of work (the ALTCHA protocol) or an image.
//!
//! What always holds: a challenge is for one user and one sale, ends, and is used once, a wrong answer included. It
//! may be solved before the sale starts. Nothing is kept of a challenge until it is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use altcha::{CreateChallengeOptions, Payload, VerifySolutionOptions, create_challenge, verify_solution};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use captcha::Captcha;
use captcha::filters::{Dots, Noise, Wave};
use hashbrown::HashMap;
use parking_lot::Mutex;
use serde_json::Value;
use subtle::ConstantTimeEq;
use tidegate_core::campaign::Challenge as Kind;
use tidegate_core::{Campaign, CampaignId, Moment, Rejection, UserId};
use tokio::sync::Semaphore;

use super::seal::{open, seal};
use super::{App, Refusal};
use crate::chance::{self, Secret, keyed};

/// How long a challenge can be answered.
const LIFE: Duration = Duration::from_secs(300);
/// Answered challenges to remember at most; each is forgotten when it would have ended anyway.
const MAX_USED: usize = 2_000_000;
/// Images drawn at a time: drawing takes milliseconds of a core.
const MAX_DRAWING: usize = 2;
const IMAGE_LETTERS: usize = 5;
/// As the pages show it.
const IMAGE_SIZE: (u32, u32) = (240, 90);
/// Letters and figures that cannot be taken for each other.
const ALPHABET: &[u8] = b"ACDEFHJKMNPRTUVWXY34679";
const PREFIX: &str = "tc_";
/// nonce, user, campaign, expiry, digest of the image's text
const BYTES: usize = 16 + 8 + 8 + 8 + 16;

#[derive(Debug)]
pub(super) struct Challenges {
    key: Secret,
    used: Mutex<HashMap<[u8; 16], Moment>>,
    drawing: Semaphore,
}

/// A challenge that was answered right and used up for it; `None` where none was asked for.
#[derive(Debug)]
#[must_use]
pub(super) struct Answered(Option<[u8; 16]>);

/// A challenge as the visitor gets it.
#[derive(Clone, Debug)]
pub struct Offer {
    pub id: String,
    pub expires_at: Moment,
    pub task: Task,
}

#[derive(Clone, Debug)]
pub enum Task {
    /// An ALTCHA challenge.
    Pow(Box<altcha::Challenge>),
    /// A picture, as a data URL.
    Image(String),
}

const fn denied(code: &'static str, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

impl Challenges {
    /// Keyed anew at every start, so that a challenge answered before cannot be answered again.
    pub(super) fn new(secret: &Secret, boot: &Secret) -> Self {
        let key = keyed(secret, &[b"challenges", boot]);
        Self { key, used: Mutex::default(), drawing: Semaphore::new(MAX_DRAWING) }
    }

    /// Takes the challenge out of use; `false` if it was used before.
    fn use_up(&self, nonce: [u8; 16], ends: Moment, now: Moment) -> Result<bool, Refusal> {
        let mut used = self.used.lock();
        if used.len() >= MAX_USED {
            used.retain(|_, ends| *ends > now);
            if used.len() >= MAX_USED {
                return Err(Rejection::Busy.into());
            }
        }
        Ok(used.insert(nonce, ends).is_none())
    }

    /// The answer led to nothing for want of passes: it may be shown again.
    fn give_back(&self, answered: Answered) {
        if let Some(nonce) = answered.0 {
            self.used.lock().remove(&nonce);
        }
    }

    /// What the challenge says, if it is this user's and has not ended.
    fn open(&self, (user, campaign): (UserId, CampaignId), id: &str, now: Moment) -> Result<Sealed, Refusal> {
        let foreign = denied("challenge_invalid", "This is no challenge of this buyer and sale.");
        let sealed = Sealed::open(&self.key, id).ok_or(foreign.clone())?;
        if (sealed.user, sealed.campaign) != (user.raw(), campaign.raw()) {
            return Err(foreign);
        }
        if now >= sealed.expires_at {
            return Err(denied("challenge_expired", "The challenge has ended; get a new one."));
        }
        Ok(sealed)
    }

    /// Whether a challenge that was used up for it was answered right.
    fn judge(&self, kind: Kind, sealed: &Sealed, id: &str, answer: &str) -> Result<Answered, Refusal> {
        let right = match kind {
            Kind::None => true,
            Kind::Pow => solves(id, answer, self.secret_of_pow()),
            Kind::Image => self.digest_of_text(&sealed.nonce, answer).ct_eq(&sealed.text).into(),
        };
        if right {
            Ok(Answered(Some(sealed.nonce)))
        } else {
            Err(denied("challenge_failed", "The answer is wrong; get a new challenge."))
        }
    }

    fn secret_of_pow(&self) -> String {
        chance::token("", &keyed(&self.key, &[b"altcha"]))
    }

    fn digest_of_text(&self, nonce: &[u8], text: &str) -> [u8; 16] {
        let mut short = [0; 16];
        let text = text.trim().to_ascii_uppercase();
        short.copy_from_slice(&keyed(&self.key, &[b"image", nonce, text.as_bytes()])[..16]);
        short
    }

    pub(super) fn forget_ended(&self, now: Moment) {
        self.used.lock().retain(|_, ends| *ends > now);
    }
}

/// What a challenge's id says.
struct Sealed {
    nonce: [u8; 16],
    user: u64,
    campaign: u64,
    expires_at: Moment,
    text: [u8; 16],
}

impl Sealed {
    fn seal(&self, key: &Secret) -> String {
        let expires_at = self.expires_at.millis().to_be_bytes();
        let parts: [&[u8]; 5] =
            [&self.nonce, &self.user.to_be_bytes(), &self.campaign.to_be_bytes(), &expires_at, &self.text];
        seal(key, PREFIX, &parts.concat())
    }

    fn open(key: &Secret, id: &str) -> Option<Self> {
        let bytes: [u8; BYTES] = open(key, PREFIX, id)?;
        let number = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_be_bytes);
        Some(Self {
            nonce: bytes[..16].try_into().ok()?,
            user: number(16)?,
            campaign: number(24)?,
            expires_at: Moment::from_millis(number(32)?.cast_signed()),
            text: bytes[40..].try_into().ok()?,
        })
    }
}

impl App {
    /// A fresh challenge of the sale's kind.
    pub async fn challenge(&self, user: UserId, sale: &Campaign) -> Result<Offer, Refusal> {
        let entropy = chance::secret().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&entropy[..16]);
        let expires_at = self.now() + LIFE;
        let mut sealed =
            Sealed { nonce, user: user.raw(), campaign: sale.id.raw(), expires_at, text: [0; 16] };
        let challenges = &self.challenges;
        match sale.protect.challenge {
            Kind::None => Err(Refusal::Conflict {
                code: "no_challenge",
                detail: "This sale asks for no challenge.".into(),
            }),
            Kind::Pow => {
                let id = sealed.seal(&challenges.key);
                let task = proof_of_work(&id, sale.protect.pow_difficulty, challenges.secret_of_pow())?;
                Ok(Offer { id, expires_at, task })
            }
            Kind::Image => {
                let text: String = entropy[16..16 + IMAGE_LETTERS]
                    .iter()
                    .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
                    .collect();
                sealed.text = challenges.digest_of_text(&nonce, &text);
                let id = sealed.seal(&challenges.key);
                let _place = challenges.drawing.try_acquire().map_err(|_| Rejection::Busy)?;
                let drawn = tokio::task::spawn_blocking(move || draw(&text)).await;
                let image = drawn.map_err(|error| Refusal::Unavailable(error.to_string()))?;
                let image = image.ok_or_else(|| Refusal::Unavailable("no picture could be drawn".into()))?;
                Ok(Offer { id, expires_at, task: Task::Image(image) })
            }
        }
    }

    /// Passes once, with the right answer to a challenge of this user and sale.
    pub(super) async fn answered(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<Answered, Refusal> {
        if sale.protect.challenge == Kind::None {
            return Ok(Answered(None));
        }
        let (id, answer) = answer
            .ok_or(denied("challenge_required", "This sale asks for a challenge; get one and answer it."))?;
        let now = self.now();
        let sealed = self.challenges.open((user, sale.id), id, now)?;
        let fresh = match self.admission.cluster() {
            Some(cluster) => cluster.once(&name(&sealed.nonce), now.until(sealed.expires_at)).await?,
            None => self.challenges.use_up(sealed.nonce, sealed.expires_at, now)?,
        };
        if !fresh {
            return Err(USED);
        }
        self.challenges.judge(sale.protect.challenge, &sealed, id, answer)
    }

    /// The answer led to nothing: it may be shown again.
    pub(super) async fn give_answer_back(&self, answered: Answered) {
        match (self.admission.cluster(), &answered.0) {
            (Some(cluster), Some(nonce)) => {
                if let Err(error) = cluster.forget_once(&name(nonce)).await {
                    tracing::debug!(%error, "an answer could not be given back");
                }
            }
            _ => self.challenges.give_back(answered),
        }
    }

    pub(super) fn forget_challenges(&self, now: Moment) {
        self.challenges.forget_ended(now);
    }
}

const USED: Refusal = denied("challenge_used", "The challenge was answered already; get a new one.");

/// What all nodes remember an answered challenge by.
fn name(nonce: &[u8; 16]) -> String {
    chance::token("challenge:", nonce)
}

fn proof_of_work(id: &str, difficulty: u32, secret: String) -> Result<Task, Refusal> {
    let options = CreateChallengeOptions {
        algorithm: "SHA-256".into(),
        cost: 1,
        key_prefix: "0".repeat(difficulty as usize),
        // Ties the work to this challenge: its signature covers it.
        data: Some(BTreeMap::from([("id".to_owned(), Value::from(id))])),
        hmac_signature_secret: Some(secret),
        ..CreateChallengeOptions::default()
    };
    let challenge = create_challenge(options).map_err(|error| Refusal::Unavailable(error.to_string()))?;
    Ok(Task::Pow(Box::new(challenge)))
}

/// Whether the answer, an ALTCHA payload in base64, solves the challenge of this id.
fn solves(id: &str, answer: &str, secret: String) -> bool {
    let payload = STANDARD.decode(answer).ok().and_then(|json| serde_json::from_slice::<Payload>(&json).ok());
    let Some(payload) = payload else { return false };
    let data = payload.challenge.parameters.data.as_ref();
    let ours = data.and_then(|data| data.get("id")).and_then(Value::as_str) == Some(id);
    let options = VerifySolutionOptions::new(&payload.challenge, &payload.solution, secret);
    ours && verify_solution(options).is_ok_and(|result| result.verified)
}

/// The letters in a picture, as a page shows it: bent, among dots and noise.
fn draw(text: &str) -> Option<String> {
    let mut picture = Captcha::new();
    for letter in text.chars() {
        // It chooses by itself, from what it is given.
        picture.set_chars(&[letter]).add_char();
    }
    picture.apply_filter(Wave::new(2.0, 10.0).horizontal()).apply_filter(Wave::new(2.0, 10.0).vertical());
    picture.view(IMAGE_SIZE.0, IMAGE_SIZE.1);
    picture.apply_filter(Dots::new(8).min_radius(3).max_radius(6)).apply_filter(Noise::new(0.12));
    let has_all = picture.chars_as_string() == text;
    let png = picture.as_png().filter(|_| has_all)?;
    Some(format!("data:image/png;base64,{}", STANDARD.encode(png)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: UserId = UserId::from_raw(1);
    const SALE: CampaignId = CampaignId::from_raw(2);
    const ENDS: Moment = Moment::from_millis(1_000);

    fn code(result: Result<Answered, Refusal>) -> &'static str {
        match result {
            Ok(_) => "ok",
            Err(Refusal::Denied { code, .. }) => code,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_image_is_answered_in_any_case_once_and_in_time() {
        let challenges = Challenges::new(&[1; 32], &[2; 32]);
        let with = |nonce: u8| {
            let nonce = [nonce; 16];
            let text = challenges.digest_of_text(&nonce, "ACDEF");
            Sealed { nonce, user: 1, campaign: 2, expires_at: ENDS, text }.seal(&challenges.key)
        };
        let by = |challenges: &Challenges, user: UserId, id: &str, answer: &str, now: i64| {
            let now = Moment::from_millis(now);
            code(challenges.open((user, SALE), id, now).and_then(|sealed| {
                if challenges.use_up(sealed.nonce, sealed.expires_at, now)? {
                    challenges.judge(Kind::Image, &sealed, id, answer)
                } else {
                    Err(USED)
                }
            }))
        };
        let check = |id: &str, answer: &str, now: i64| by(&challenges, USER, id, answer, now);
        assert_eq!(check(&with(1), " acdef ", 0), "ok");
        assert_eq!(check(&with(1), "ACDEF", 0), "challenge_used");
        assert_eq!(check(&with(2), "ACDEG", 0), "challenge_failed");
        assert_eq!(check(&with(2), "ACDEF", 0), "challenge_used", "a wrong answer uses it up");
        assert_eq!(check(&with(3), "ACDEF", 1_000), "challenge_expired");
        assert_eq!(check("tc_00", "ACDEF", 0), "challenge_invalid");
        let other = by(&challenges, UserId::from_raw(9), &with(4), "ACDEF", 0);
        assert_eq!(other, "challenge_invalid", "another's");
        let restarted = Challenges::new(&[1; 32], &[3; 32]);
        let old = by(&restarted, USER, &with(5), "ACDEF", 0);
        assert_eq!(old, "challenge_invalid", "one of the life before");
    }

    #[test]
    fn every_letter_can_be_drawn_and_no_picture_is_like_another() {
        let letters = std::str::from_utf8(ALPHABET).unwrap();
        for letter in letters.chars() {
            let text = letter.to_string().repeat(IMAGE_LETTERS);
            let drawn = draw(&text).unwrap();
            assert!(drawn.starts_with("data:image/png;base64,iVBOR"), "{drawn}");
            assert_ne!(drawn, draw(&text).unwrap());
        }
        assert_eq!(draw("AC-EF"), None, "one letter less would be another answer");
    }
}
