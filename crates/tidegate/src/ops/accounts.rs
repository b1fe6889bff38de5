//! Accounts: a phone number proven by a one-time code, a password, sessions.
//!
//! What always holds: codes come from the system's randomness, are for one number and purpose, end after five minutes, one
//! use or five tries; they are in no log, and in no answer unless the configuration says so. Numbers with and without
//! an account are answered alike and in like time. Hashing has few places, so that logins cannot starve orders.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tidegate_core::{Moment, Rejection, UserId};
use tidegate_store::admission::News;
use tidegate_store::ledger::sql::{Account, CodeCheck, CodeSent, NewCode, Session};
use tokio::sync::Semaphore;

use super::buyers::SESSION_LIFE;
use super::{App, Refusal};
use crate::chance::{self, Secret, digest, keyed};

const CODE_LIFE: Duration = Duration::from_secs(300);
const RESEND_AFTER: Duration = Duration::from_secs(60);
const CODE_TRIES: u32 = 5;
/// How long a login waits for a place to hash.
const HASH_WAIT: Duration = Duration::from_secs(3);

/// What a code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Register,
    Login,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Login => "login",
        }
    }
}

/// What is said about a code that was asked for.
#[derive(Clone, Debug)]
pub struct CodePromise {
    pub expires_in: Duration,
    pub resend_after: Duration,
    /// Only where the configuration reveals codes.
    pub code: Option<String>,
}

/// A fresh session.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub token: String,
    pub expires_at: Moment,
    pub account: Account,
}

/// Hashes passwords, a few at a time.
#[derive(Debug)]
pub(super) struct Passwords {
    places: Arc<Semaphore>,
    /// What a number or name without an account is checked against, so that it takes as long.
    nobody: String,
}

impl Passwords {
    pub(super) fn new(at_once: usize) -> Self {
        let nobody =
            Argon2::default().hash_password(b"nobody").map(|hash| hash.to_string()).unwrap_or_default();
        Self { places: Arc::new(Semaphore::new(at_once)), nobody }
    }

    /// The same with places of its own.
    pub(super) fn beside(&self, at_once: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once)), nobody: self.nobody.clone() }
    }

    async fn with_place<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let waiting = tokio::time::timeout(HASH_WAIT, self.places.clone().acquire_owned());
        let Ok(Ok(place)) = waiting.await else { return Err(Rejection::Busy.into()) };
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    pub(super) async fn hash(&self, password: String) -> Result<String, Refusal> {
        let hash = self.with_place(move || {
            Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string())
        });
        hash.await?.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    pub(super) async fn matches(&self, password: String, hash: Option<&str>) -> Result<bool, Refusal> {
        let (known, hash) = (hash.is_some(), hash.unwrap_or(&self.nobody).to_owned());
        let right = self.with_place(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        Ok(right.await? && known)
    }
}

const fn denied(code: &'static str, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

const WRONG_CODE: Refusal =
    denied("code_invalid", "The code is wrong, has ended, or was used. Five wrong tries end it.");
const WRONG_LOGIN: Refusal = Refusal::NotSignedIn {
    code: "login_failed",
    detail: "Number and password, or number and code, do not belong together.",
};

impl App {
    /// Sends a one-time code. Without a purpose: to sign in where the number has an account, to register where not.
    pub async fn send_code(
        &self,
        phone: &str,
        purpose: Option<Purpose>,
        address: &str,
    ) -> Result<CodePromise, Refusal> {
        let now = self.now();
        let known = self.ledger.account_by_phone(phone).await?.is_some();
        let purpose = purpose.unwrap_or(if known { Purpose::Login } else { Purpose::Register });
        let number = chance::number(1_000_000).map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let code = format!("{number:06}");
        let new = NewCode {
            phone: phone.to_owned(),
            purpose: purpose.name(),
            address: address.to_owned(),
            digest: self.code_digest(phone, purpose, &code),
            expires_at: now + CODE_LIFE,
            tries: CODE_TRIES,
            resend_before: now - RESEND_AFTER,
        };
        match self.ledger.put_code(new, self.rules.code_limits, now).await? {
            CodeSent::Yes => {}
            CodeSent::TooSoon(last) => {
                return Err(Refusal::Slower { retry_after: now.until(last + RESEND_AFTER) });
            }
            CodeSent::TooMany => return Err(Refusal::Slower { retry_after: Duration::from_secs(3600) }),
        }
        self.sms.send(phone, &code);
        let code = self.rules.reveal_codes.then_some(code);
        Ok(CodePromise { expires_in: CODE_LIFE, resend_after: RESEND_AFTER, code })
    }

    fn code_digest(&self, phone: &str, purpose: Purpose, code: &str) -> Secret {
        keyed(&self.secret, &[b"code", phone.as_bytes(), purpose.name().as_bytes(), code.as_bytes()])
    }

    async fn check_code(&self, phone: &str, purpose: Purpose, code: &str) -> Result<(), Refusal> {
        let digest = self.code_digest(phone, purpose, code.trim());
        match self.ledger.try_code(phone.to_owned(), purpose.name(), digest, self.now()).await? {
            CodeCheck::Right => Ok(()),
            CodeCheck::Wrong | CodeCheck::Gone => Err(WRONG_CODE),
        }
    }

    pub async fn register(
        &self,
        phone: String,
        code: &str,
        name: String,
        password: String,
    ) -> Result<SignedIn, Refusal> {
        self.check_code(&phone, Purpose::Register, code).await?;
        let password = self.passwords.hash(password).await?;
        let now = self.now();
        let user = UserId::from_raw(self.next_id(now));
        let account = Account { user, phone, name, password, created_at: now };
        let (token, session) = self.new_session(user)?;
        let made = self.ledger.create_account(account.clone(), digest(&[token.as_bytes()]), session).await?;
        if !made {
            let detail = "This number has an account; sign in instead.".into();
            return Err(Refusal::Conflict { code: "phone_taken", detail });
        }
        Ok(SignedIn { token, expires_at: session.expires_at, account })
    }

    pub async fn login_by_password(&self, phone: &str, password: String) -> Result<SignedIn, Refusal> {
        let account = self.ledger.account_by_phone(phone).await?;
        let hash = account.as_ref().map(|account| account.password.as_str());
        let right = self.passwords.matches(password, hash).await?;
        match account.filter(|_| right) {
            Some(account) => self.sign_in(account).await,
            None => Err(WRONG_LOGIN),
        }
    }

    pub async fn login_by_code(&self, phone: &str, code: &str) -> Result<SignedIn, Refusal> {
        self.check_code(phone, Purpose::Login, code).await?;
        match self.ledger.account_by_phone(phone).await? {
            Some(account) => self.sign_in(account).await,
            None => Err(WRONG_LOGIN),
        }
    }

    async fn sign_in(&self, account: Account) -> Result<SignedIn, Refusal> {
        let (token, session) = self.new_session(account.user)?;
        self.ledger.open_session(digest(&[token.as_bytes()]), session).await?;
        Ok(SignedIn { token, expires_at: session.expires_at, account })
    }

    fn new_session(&self, user: UserId) -> Result<(String, Session), Refusal> {
        let secret = chance::secret().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let session = Session { user, expires_at: self.now() + SESSION_LIFE, slides: true };
        Ok((chance::token("ts_", &secret), session))
    }

    /// Ends the session this token belongs to.
    pub async fn logout(&self, token: &str) -> Result<(), Refusal> {
        let token = digest(&[token.as_bytes()]);
        self.ledger.end_session(token).await?;
        self.sessions.forget(&token);
        self.tell(News::SessionEnded(token)).await;
        Ok(())
    }

    /// The account behind a buyer; `None` for demo, load-test and the merchant's own buyers.
    pub async fn account_of(&self, user: UserId) -> Result<Option<Account>, Refusal> {
        Ok(self.ledger.account_of(user).await?)
    }
}
