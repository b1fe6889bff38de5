//! Challenges that a visitor solves to get a pass: proof of work (the ALTCHA protocol) or an image.
//!
//! Invariants: a challenge is for one user and one campaign, expires, and is used up by its first answer, right or
//! wrong. It may be solved before the campaign starts. Nothing is stored of a challenge until it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use altcha::{CreateChallengeOptions, Payload, VerifySolutionOptions, create_challenge, verify_solution};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use captcha::Captcha;
use captcha::filters::{Dots, Noise, Wave};
use serde_json::Value;
use subtle::ConstantTimeEq;
use tidegate_admission::once_only::{OnceError, OnceOnly};
use tidegate_core::ProblemCode;
use tidegate_core::campaign::Challenge as Kind;
use tidegate_core::{Campaign, CampaignId, Moment, Rejection, UserId};
use tokio::sync::Semaphore;

use crate::Refusal;
use crate::context::Context;
use crate::digest::{self, Secret, keyed};
use crate::random;
use crate::seal::{open, seal};

/// How long a challenge can be answered.
const LIFE: Duration = Duration::from_secs(300);
/// Images drawn concurrently: each takes milliseconds of CPU time.
const MAX_DRAWING: usize = 2;
const IMAGE_LETTERS: usize = 5;
/// Width and height in pixels, as the pages display it.
const IMAGE_SIZE: (u32, u32) = (240, 90);
/// Letters and digits that are hard to confuse with each other.
const ALPHABET: &[u8] = b"ACDEFHJKMNPRTUVWXY34679";
const PREFIX: &str = "tc_";
/// nonce, user, campaign, expiry, digest of the image's text
const BYTES: usize = 16 + 8 + 8 + 8 + 16;

#[derive(Debug)]
pub struct Challenges {
    context: Arc<Context>,
    key: Secret,
    /// Nonces of answered challenges.
    used: OnceOnly,
    drawing: Semaphore,
}

/// A challenge that was answered correctly and is thereby used up; `None` if the campaign has no challenge.
#[derive(Debug)]
#[must_use]
pub(crate) struct Answered(Option<[u8; 16]>);

/// A challenge as it is sent to the visitor.
#[derive(Clone, Debug)]
pub struct IssuedChallenge {
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

const fn denied(code: ProblemCode, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

impl Challenges {
    /// Embedded, `challenge_secret` is new at every start: the record of answered challenges is lost, so that older
    /// challenges must be void.
    pub(crate) fn new(context: Arc<Context>, challenge_secret: &Secret, used: OnceOnly) -> Self {
        let key = keyed(&context.secret, &[b"challenges", challenge_secret]);
        Self { context, key, used, drawing: Semaphore::new(MAX_DRAWING) }
    }

    /// The contents of a challenge's id, if it belongs to this user and campaign and has not expired.
    fn open(&self, (user, campaign): (UserId, CampaignId), id: &str, now: Moment) -> Result<Sealed, Refusal> {
        let foreign = denied(ProblemCode::ChallengeInvalid, "This is no challenge of this buyer and sale.");
        let sealed = Sealed::open(&self.key, id).ok_or(foreign.clone())?;
        if (sealed.user, sealed.campaign) != (user.raw(), campaign.raw()) {
            return Err(foreign);
        }
        if now >= sealed.expires_at {
            return Err(denied(ProblemCode::ChallengeExpired, "The challenge has ended; get a new one."));
        }
        Ok(sealed)
    }

    /// Checks the answer to a challenge that is already marked as used.
    fn judge(&self, kind: Kind, sealed: &Sealed, id: &str, answer: &str) -> Result<Answered, Refusal> {
        let right = match kind {
            Kind::None => true,
            Kind::Pow => solves(id, answer, self.secret_of_pow()),
            Kind::Image => self.digest_of_text(&sealed.nonce, answer).ct_eq(&sealed.text).into(),
        };
        if right {
            Ok(Answered(Some(sealed.nonce)))
        } else {
            Err(denied(ProblemCode::ChallengeFailed, "The answer is wrong; get a new challenge."))
        }
    }

    fn secret_of_pow(&self) -> String {
        digest::token("", &keyed(&self.key, &[b"altcha"]))
    }

    fn digest_of_text(&self, nonce: &[u8], text: &str) -> [u8; 16] {
        let mut short = [0; 16];
        let text = text.trim().to_ascii_uppercase();
        short.copy_from_slice(&keyed(&self.key, &[b"image", nonce, text.as_bytes()])[..16]);
        short
    }
}

/// Contents of a challenge's id.
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

impl Challenges {
    /// A new challenge of the campaign's kind.
    pub async fn issue(&self, user: UserId, sale: &Campaign) -> Result<IssuedChallenge, Refusal> {
        let entropy = random::secret()?;
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&entropy[..16]);
        let expires_at = self.context.now() + LIFE;
        let mut sealed =
            Sealed { nonce, user: user.raw(), campaign: sale.id.raw(), expires_at, text: [0; 16] };
        match sale.protect.challenge {
            Kind::None => Err(Refusal::Conflict {
                code: ProblemCode::NoChallenge,
                detail: "This sale asks for no challenge.".into(),
            }),
            Kind::Pow => {
                let id = sealed.seal(&self.key);
                let task = proof_of_work(&id, sale.protect.pow_difficulty, self.secret_of_pow())?;
                Ok(IssuedChallenge { id, expires_at, task })
            }
            Kind::Image => {
                let text: String = entropy[16..16 + IMAGE_LETTERS]
                    .iter()
                    .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
                    .collect();
                sealed.text = self.digest_of_text(&nonce, &text);
                let id = sealed.seal(&self.key);
                let _place = self.drawing.try_acquire().map_err(|_| Rejection::Busy)?;
                let drawn = tokio::task::spawn_blocking(move || draw(&text)).await;
                let image = drawn.map_err(|error| Refusal::Unavailable(error.to_string()))?;
                let image = image.ok_or_else(|| Refusal::Unavailable("no picture could be drawn".into()))?;
                Ok(IssuedChallenge { id, expires_at, task: Task::Image(image) })
            }
        }
    }

    /// Accepts the right answer to a challenge of this user and campaign, once.
    pub(crate) async fn answered(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<Answered, Refusal> {
        if sale.protect.challenge == Kind::None {
            return Ok(Answered(None));
        }
        let (id, answer) = answer.ok_or(denied(
            ProblemCode::ChallengeRequired,
            "This sale asks for a challenge; get one and answer it.",
        ))?;
        let now = self.context.now();
        let sealed = self.open((user, sale.id), id, now)?;
        if !self.used.take(sealed.nonce, sealed.expires_at, now).await? {
            return Err(USED);
        }
        self.judge(sale.protect.challenge, &sealed, id, answer)
    }

    /// Makes an answer valid again for which no pass or place could be given.
    pub(crate) async fn give_back(&self, answered: Answered) {
        if let Some(nonce) = answered.0 {
            self.used.give_back(nonce).await;
        }
    }

    pub(crate) fn forget_expired(&self, now: Moment) {
        self.used.forget_expired(now);
    }
}

impl From<OnceError> for Refusal {
    fn from(error: OnceError) -> Self {
        match error {
            OnceError::Full => Rejection::Busy.into(),
            OnceError::Gate(error) => error.into(),
        }
    }
}

const USED: Refusal =
    denied(ProblemCode::ChallengeUsed, "The challenge was answered already; get a new one.");

fn proof_of_work(id: &str, difficulty: u32, secret: String) -> Result<Task, Refusal> {
    let options = CreateChallengeOptions {
        algorithm: "SHA-256".into(),
        cost: 1,
        key_prefix: "0".repeat(difficulty as usize),
        // Ties the work to this challenge: the ALTCHA signature covers the id.
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

/// Renders the text as a distorted image with dots and noise; returns a data URL.
fn draw(text: &str) -> Option<String> {
    let mut picture = Captcha::new();
    for letter in text.chars() {
        // `add_char` adds a random character of the set, so the set has only this one.
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
    use tidegate_testing::conformance;

    use super::*;

    const USER: UserId = UserId::from_raw(1);
    const SALE: CampaignId = CampaignId::from_raw(2);
    const ENDS: Moment = Moment::from_millis(1_000);

    fn code(result: Result<Answered, Refusal>) -> &'static str {
        match result {
            Ok(_) => "ok",
            Err(Refusal::Denied { code, .. }) => code.as_str(),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn sale() -> Campaign {
        let mut sale = Campaign { id: SALE, ..conformance::campaign(10, 1) };
        sale.protect.challenge = Kind::Image;
        sale
    }

    fn service(challenge_secret: u8) -> Challenges {
        let context = Context::at(Moment::from_millis(0));
        Challenges::new(context, &[challenge_secret; 32], OnceOnly::memory("challenge"))
    }

    #[tokio::test]
    async fn an_image_is_answered_in_any_case_once_and_in_time() {
        let challenges = service(2);
        let with = |nonce: u8| {
            let nonce = [nonce; 16];
            let text = challenges.digest_of_text(&nonce, "ACDEF");
            Sealed { nonce, user: 1, campaign: 2, expires_at: ENDS, text }.seal(&challenges.key)
        };
        let by = async |challenges: &Challenges, user: UserId, id: &str, answer: &str| {
            code(challenges.answered(user, &sale(), Some((id, answer))).await)
        };
        let check = async |id: &str, answer: &str| by(&challenges, USER, id, answer).await;
        assert_eq!(check(&with(1), " acdef ").await, "ok");
        assert_eq!(check(&with(1), "ACDEF").await, "challenge_used");
        assert_eq!(check(&with(2), "ACDEG").await, "challenge_failed");
        assert_eq!(check(&with(2), "ACDEF").await, "challenge_used", "a wrong answer uses it up");
        assert_eq!(check("tc_00", "ACDEF").await, "challenge_invalid");
        let other = by(&challenges, UserId::from_raw(9), &with(4), "ACDEF").await;
        assert_eq!(other, "challenge_invalid", "another's");
        let old = by(&service(3), USER, &with(5), "ACDEF").await;
        assert_eq!(old, "challenge_invalid", "one of the life before");
        challenges.context.clock.advance(Duration::from_secs(1));
        assert_eq!(check(&with(3), "ACDEF").await, "challenge_expired");
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
