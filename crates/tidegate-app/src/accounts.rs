//! Buyers' accounts: a phone number verified by a one-time code, a password, sessions.
//!
//! Invariants: codes come from the system's randomness, are valid for one number and purpose, and expire after five
//! minutes, one use or five attempts; they are never logged, and appear in no answer unless the configuration says
//! so. Numbers with and without an account get the same answers in about the same time.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::{Admission, News};
use tidegate_core::ProblemCode;
use tidegate_core::{Moment, UserId};
use tidegate_ledger::{Account, CodeCheck, CodeIssueOutcome, CodeLimits, NewCode, Session};

use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::digest::{self, Secret, digest, keyed};
use crate::merchant::Merchant;
use crate::passwords::Passwords;
use crate::random;
use crate::sessions::{SESSION_LIFE, Sessions};
use crate::sms::Sms;
use crate::tables::AccountTables;

const CODE_LIFE: Duration = Duration::from_secs(300);
const RESEND_AFTER: Duration = Duration::from_secs(60);
const CODE_TRIES: u32 = 5;

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

/// Answer to a request for a code.
#[derive(Clone, Debug)]
pub struct CodeSent {
    pub expires_in: Duration,
    pub resend_after: Duration,
    /// Set only if the configuration reveals codes.
    pub code: Option<String>,
}

/// A fresh session.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub token: String,
    pub expires_at: Moment,
    pub account: Account,
}

const fn denied(code: ProblemCode, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

const WRONG_CODE: Refusal =
    denied(ProblemCode::CodeInvalid, "The code is wrong, has ended, or was used. Five wrong tries end it.");
const WRONG_LOGIN: Refusal = Refusal::NotSignedIn {
    code: ProblemCode::LoginFailed,
    detail: "Number and password, or number and code, do not belong together.",
};

/// Configuration of accounts.
#[derive(Clone, Copy, Debug)]
pub struct AccountRules {
    /// Whether buyers may be minted for load tests.
    pub test_tokens: bool,
    /// Whether answers contain the one-time code; for demos only.
    pub reveal_codes: bool,
    pub code_limits: CodeLimits,
}

#[derive(Debug)]
pub struct Accounts {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: AccountTables,
    pub(crate) changes: Arc<Changes>,
    pub(crate) sessions: Sessions,
    pub(crate) passwords: Passwords,
    pub(crate) sms: Sms,
    /// Verifies the JWTs of the merchant's own users, if configured.
    pub(crate) merchant: Option<Merchant>,
    pub(crate) rules: AccountRules,
}

impl Accounts {
    /// Sends a one-time code. Without a purpose, it is for login if the number has an account, otherwise for
    /// registration.
    pub async fn send_code(
        &self,
        phone: &str,
        purpose: Option<Purpose>,
        address: &str,
    ) -> Result<CodeSent, Refusal> {
        let now = self.context.now();
        let known = self.ledger.accounts.by_phone(phone).await?.is_some();
        let purpose = purpose.unwrap_or(if known { Purpose::Login } else { Purpose::Register });
        let number = random::number(1_000_000)?;
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
        match self.ledger.one_time_codes.issue(new, self.rules.code_limits, now).await? {
            CodeIssueOutcome::Issued => {}
            CodeIssueOutcome::TooSoon(last) => {
                return Err(Refusal::RateLimited { retry_after: now.until(last + RESEND_AFTER) });
            }
            CodeIssueOutcome::TooMany => {
                return Err(Refusal::RateLimited { retry_after: Duration::from_secs(3600) });
            }
        }
        self.sms.send(phone, &code);
        let code = self.rules.reveal_codes.then_some(code);
        Ok(CodeSent { expires_in: CODE_LIFE, resend_after: RESEND_AFTER, code })
    }

    fn code_digest(&self, phone: &str, purpose: Purpose, code: &str) -> Secret {
        keyed(&self.context.secret, &[b"code", phone.as_bytes(), purpose.name().as_bytes(), code.as_bytes()])
    }

    async fn check_code(&self, phone: &str, purpose: Purpose, code: &str) -> Result<(), Refusal> {
        let digest = self.code_digest(phone, purpose, code.trim());
        match self
            .ledger
            .one_time_codes
            .check(phone.to_owned(), purpose.name(), digest, self.context.now())
            .await?
        {
            CodeCheck::Valid => Ok(()),
            CodeCheck::Invalid | CodeCheck::Expired => Err(WRONG_CODE),
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
        let now = self.context.now();
        let user = UserId::from_raw(self.context.next_id(now));
        let account = Account { user, phone, name, password, created_at: now };
        let (token, session) = self.new_session(user)?;
        let made = self.ledger.accounts.create(account.clone(), digest(&[token.as_bytes()]), session).await?;
        if !made {
            let detail = "This number has an account; sign in instead.".into();
            return Err(Refusal::Conflict { code: ProblemCode::PhoneTaken, detail });
        }
        Ok(SignedIn { token, expires_at: session.expires_at, account })
    }

    pub async fn login_by_password(&self, phone: &str, password: String) -> Result<SignedIn, Refusal> {
        let account = self.ledger.accounts.by_phone(phone).await?;
        let hash = account.as_ref().map(|account| account.password.as_str());
        let right = self.passwords.matches(password, hash).await?;
        match account.filter(|_| right) {
            Some(account) => self.sign_in(account).await,
            None => Err(WRONG_LOGIN),
        }
    }

    pub async fn login_by_code(&self, phone: &str, code: &str) -> Result<SignedIn, Refusal> {
        self.check_code(phone, Purpose::Login, code).await?;
        match self.ledger.accounts.by_phone(phone).await? {
            Some(account) => self.sign_in(account).await,
            None => Err(WRONG_LOGIN),
        }
    }

    async fn sign_in(&self, account: Account) -> Result<SignedIn, Refusal> {
        let (token, session) = self.new_session(account.user)?;
        self.ledger.sessions.open(digest(&[token.as_bytes()]), session).await?;
        Ok(SignedIn { token, expires_at: session.expires_at, account })
    }

    fn new_session(&self, user: UserId) -> Result<(String, Session), Refusal> {
        let secret = random::secret()?;
        let session = Session { user, expires_at: self.context.now() + SESSION_LIFE, slides: true };
        Ok((digest::token("ts_", &secret), session))
    }

    /// Ends the session this token belongs to.
    pub async fn logout(&self, token: &str) -> Result<(), Refusal> {
        let token = digest(&[token.as_bytes()]);
        self.ledger.sessions.end(token).await?;
        self.sessions.forget(&token);
        self.admission.publish(News::SessionEnded(token)).await;
        Ok(())
    }

    /// The account behind a buyer; `None` for demo, load-test and the merchant's own buyers.
    pub async fn account_of(&self, user: UserId) -> Result<Option<Account>, Refusal> {
        Ok(self.ledger.accounts.by_user(user).await?)
    }
}
