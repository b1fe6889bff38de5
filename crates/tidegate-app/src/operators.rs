//! Operators: authentication, roles, and console sessions.
//!
//! Invariants: the admin key always works and has the role admin. An unknown name gets the same answer as a wrong
//! password, in about the same time. A console session is looked up in the ledger on every use, so that a disabled
//! operator is signed out at once on every node. Every change carries the name of the operator who made it.

pub mod accounts;
mod guess_limits;
pub mod keys;
pub mod reauthentication;
pub mod second_factor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use tidegate_core::EventKind;
use tidegate_core::ProblemCode;
use tidegate_core::{Moment, Rejection, Role};
use tidegate_ledger::{Actor, LedgerError};
use tidegate_ledger::{ConsoleSessionRecord, NewConsoleSession, OpenedBy, OperatorAccount};

use self::accounts::is_name;
use self::guess_limits::GuessLimits;
use self::keys::ApiKeyCache;
use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::digest::{self, Secret, digest};
use crate::passwords::Passwords;
use crate::random;
use crate::tables::OperatorTables;

/// A console session expires this long after its last use.
const CONSOLE_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Maximum lifetime of a console session, however much it is used.
const CONSOLE_MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minimum interval between two extensions of a console session, which would otherwise happen on every request.
const EXTEND_AFTER: Duration = Duration::from_secs(300);
/// Prefix of console session tokens.
const CONSOLE_PREFIX: &str = "tq_";
/// Maximum length of a submitted name, password or code, in characters.
const MAX_INPUT_CHARS: usize = 128;

const WRONG_SIGN_IN: Refusal = Refusal::NotSignedIn {
    code: ProblemCode::LoginFailed,
    detail: "Name, password and code do not belong together, or the code was used before.",
};
const CODE_REQUIRED: Refusal = Refusal::NotSignedIn {
    code: ProblemCode::CodeRequired,
    detail: "This operator has a second factor: send the code it shows, too.",
};

#[derive(Debug)]
pub struct Operators {
    context: Arc<Context>,
    ledger: OperatorTables,
    changes: Arc<Changes>,
    keys: ApiKeyCache,
    guesses: GuessLimits,
    /// Has its own hashing slots, so that a burst of buyers' logins does not delay operators.
    passwords: Passwords,
    admin_key_digest: Secret,
}

/// The credentials of a sign-in, and where it comes from.
#[derive(Clone)]
pub struct SignIn {
    pub name: String,
    pub password: String,
    /// Code of the second factor, if the account has one.
    pub code: Option<String>,
    /// Key under which attempts from this network address are counted.
    pub address_key: String,
    /// Token of the browser's current console session, which the sign-in ends.
    pub replaced_token: Option<String>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn")
            .field("name", &self.name)
            .field("address_key", &self.address_key)
            .finish_non_exhaustive()
    }
}

/// An authenticated operator and their role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    /// An operator's name, or `key:` and the name of an API key; none for the admin key.
    pub name: Option<String>,
    pub role: Role,
}

impl OperatorIdentity {
    /// The holder of the admin key.
    pub const ADMIN_KEY: Self = Self { name: None, role: Role::Admin };

    /// The actor that the outbox and the audit log record.
    pub fn actor(&self) -> Actor {
        Actor::Operator(self.name.as_deref().map(Arc::from))
    }

    /// Refuses an operator whose role does not cover `least`.
    pub fn may(&self, least: Role) -> Result<(), Refusal> {
        if self.role.covers(least) {
            return Ok(());
        }
        let detail = match least {
            Role::Viewer => "Only viewers, operators and admins may do this.",
            Role::Operator => "Only operators and admins may do this; viewers may look.",
            Role::Admin => "Only admins may do this.",
        };
        Err(Refusal::Denied { code: ProblemCode::RoleRequired, detail })
    }

    /// Operators may change their own account, admins any account.
    fn may_manage(&self, name: &str) -> Result<(), Refusal> {
        if self.name.as_deref() == Some(name) { Ok(()) } else { self.may(Role::Admin) }
    }
}

/// A newly opened console session.
#[derive(Clone)]
pub struct ConsoleSession {
    pub token: String,
    pub expires_at: Moment,
    pub operator: OperatorIdentity,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSession").field("operator", &self.operator).finish_non_exhaustive()
    }
}

impl Operators {
    pub(crate) fn new(
        context: Arc<Context>,
        ledger: OperatorTables,
        changes: Arc<Changes>,
        passwords: Passwords,
        admin_key_digest: Secret,
    ) -> Self {
        let (keys, guesses) = (ApiKeyCache::default(), GuessLimits::default());
        Self { context, ledger, changes, keys, guesses, passwords, admin_key_digest }
    }

    /// Authenticates a bearer token: the admin key, an API key or a console session's token.
    pub async fn authenticate(&self, bearer: Option<&str>) -> Result<OperatorIdentity, Refusal> {
        let bearer = bearer.ok_or(Rejection::Unauthenticated)?;
        if self.is_admin_key(bearer) {
            return Ok(OperatorIdentity::ADMIN_KEY);
        }
        if bearer.starts_with(keys::PREFIX) {
            return self.by_api_key(bearer).await;
        }
        self.console_operator(bearer).await
    }

    fn is_admin_key(&self, key: &str) -> bool {
        digest(&[key.as_bytes()]).ct_eq(&self.admin_key_digest).into()
    }

    /// Opens a console session with the admin key, as an admin without a name. `replaced_token` is the token of the
    /// browser's current session, which ends.
    pub async fn sign_in_with_key(
        &self,
        key: &str,
        replaced_token: Option<&str>,
    ) -> Result<ConsoleSession, Refusal> {
        if !self.is_admin_key(key) {
            return Err(WRONG_SIGN_IN);
        }
        let (token, console) = self.new_console(replaced_token)?;
        self.ledger.console_sessions.open_with_admin_key(console, self.console_opener()).await?;
        Ok(ConsoleSession { token, expires_at: console.expires_at, operator: OperatorIdentity::ADMIN_KEY })
    }

    /// Opens a console session for an operator. An account with a second factor also needs its code.
    pub async fn sign_in(&self, given: SignIn) -> Result<ConsoleSession, Refusal> {
        let SignIn { name, password, code, address_key, replaced_token } = given;
        for (field, text) in [("name", Some(&name)), ("password", Some(&password)), ("code", code.as_ref())] {
            if text.is_some_and(|text| text.chars().count() > MAX_INPUT_CHARS) {
                return Err(Refusal::invalid(
                    field,
                    format!("must have at most {MAX_INPUT_CHARS} characters"),
                ));
            }
        }
        if !is_name(&name) {
            // No account can have this name, so the attempt need not be counted.
            return Err(WRONG_SIGN_IN);
        }
        let taken = self.guesses.password(&name, &address_key, Instant::now())?;
        let account = self.ledger.operators.by_name(&name).await?;
        let hash = account.as_ref().map(|account| account.password.as_str());
        let right = self.passwords.matches(password, hash).await?;
        if !right || account.as_ref().is_none_or(|account| account.disabled) {
            let is_first_report = taken.wrong();
            // Refusals of unknown names are not logged: their number is unbounded.
            if let Some(account) = account.filter(|_| is_first_report) {
                self.log_refusal(&account, EventKind::OperatorSignInRefused, &address_key);
            }
            return Err(WRONG_SIGN_IN);
        }
        let account = account.ok_or(WRONG_SIGN_IN)?;
        let session = if account.totp.is_some() {
            // Without a code the attempt is still undecided: dropping `taken` uncounts it.
            let code = code.ok_or(CODE_REQUIRED)?;
            self.sign_in_by_code(account, &code, &address_key, replaced_token.as_deref()).await?
        } else {
            self.open_console(account, None, replaced_token.as_deref()).await?.ok_or(WRONG_SIGN_IN)?
        };
        taken.right();
        Ok(session)
    }

    /// Second step of a sign-in, after the password: checks the code.
    async fn sign_in_by_code(
        &self,
        account: OperatorAccount,
        code: &str,
        address_key: &str,
        replaced_token: Option<&str>,
    ) -> Result<ConsoleSession, Refusal> {
        let taken = self.guesses.code(&account.name, Instant::now())?;
        let step =
            second_factor::step_of(account.totp.as_deref().unwrap_or_default(), code, self.context.now());
        let opened = match step {
            Some(step) => self.open_console(account.clone(), Some(step), replaced_token).await?,
            None => None,
        };
        if let Some(session) = opened {
            taken.right();
            return Ok(session);
        }
        if taken.wrong() {
            self.log_refusal(&account, EventKind::OperatorCodeRefused, address_key);
        }
        Err(WRONG_SIGN_IN)
    }

    /// `None` if the account has changed since it was read, or the code was used before.
    async fn open_console(
        &self,
        account: OperatorAccount,
        step: Option<u32>,
        replaced_token: Option<&str>,
    ) -> Result<Option<ConsoleSession>, Refusal> {
        let (token, console) = self.new_console(replaced_token)?;
        let operator = OperatorIdentity { name: Some(account.name.clone()), role: account.role };
        let is_open = self.ledger.console_sessions.open(console, account, step).await?;
        Ok(is_open.then_some(ConsoleSession { token, expires_at: console.expires_at, operator }))
    }

    fn new_console(&self, replaced_token: Option<&str>) -> Result<(String, NewConsoleSession), Refusal> {
        let secret = random::secret()?;
        let (token, now) = (digest::token(CONSOLE_PREFIX, &secret), self.context.now());
        let console = NewConsoleSession {
            token: digest(&[token.as_bytes()]),
            opened_at: now,
            expires_at: now + CONSOLE_LIFE,
            instead_of: replaced_token.map(|token| digest(&[token.as_bytes()])),
        };
        Ok((token, console))
    }

    /// Stored with sessions that the admin key opened; a new admin key invalidates them.
    fn console_opener(&self) -> Secret {
        digest::keyed(&self.context.secret, &[b"console", &self.admin_key_digest])
    }

    /// The operator of a console session. Extends the session.
    pub async fn console_operator(&self, token: &str) -> Result<OperatorIdentity, Refusal> {
        let (operator, console) = self.find_session(token).await?;
        let now = self.context.now();
        let until = (now + CONSOLE_LIFE).min(console.opened_at + CONSOLE_MAX_LIFE);
        if until >= console.expires_at + EXTEND_AFTER {
            let extended = self.ledger.console_sessions.extend(digest(&[token.as_bytes()]), until).await;
            // On failure the session keeps its earlier expiry.
            let _ =
                extended.inspect_err(|error| tracing::warn!(%error, "could not extend a console session"));
        }
        Ok(operator)
    }

    /// Like `authenticate`, for a stream that only watches: it does not extend a console's session.
    pub async fn recheck(&self, bearer: &str) -> Result<OperatorIdentity, Refusal> {
        if bearer.starts_with(CONSOLE_PREFIX) {
            return Ok(self.find_session(bearer).await?.0);
        }
        self.authenticate(Some(bearer)).await
    }

    async fn find_session(&self, token: &str) -> Result<(OperatorIdentity, ConsoleSessionRecord), Refusal> {
        if !token.starts_with(CONSOLE_PREFIX) {
            return Err(Rejection::Unauthenticated.into());
        }
        let (token, now) = (digest(&[token.as_bytes()]), self.context.now());
        let found = self.ledger.console_sessions.get(token).await?.filter(|console| now < console.expires_at);
        let console = found.ok_or(Rejection::Unauthenticated)?;
        let operator = match &console.opened_by {
            OpenedBy::Operator { name, role } => OperatorIdentity { name: Some(name.clone()), role: *role },
            OpenedBy::AdminKey(opener) if *opener == self.console_opener() => OperatorIdentity::ADMIN_KEY,
            OpenedBy::AdminKey(_) => return Err(Rejection::Unauthenticated.into()),
        };
        Ok((operator, console))
    }

    /// Ends the console session of this token.
    pub async fn sign_out(&self, token: &str) -> Result<(), Refusal> {
        Ok(self.ledger.console_sessions.end(digest(&[token.as_bytes()]), self.context.now()).await?)
    }

    /// Deletes expired console sessions and API keys that were revoked long ago.
    pub(crate) async fn forget_old(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.console_sessions.delete_expired(now).await?;
        self.ledger.api_keys.delete_revoked(now - keys::KEEP_REVOKED).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_where_there_is_one() {
        let named =
            |name: &str| OperatorIdentity { name: Some(name.into()), role: Role::Viewer }.actor().to_string();
        assert_eq!(named("lin"), "operator:lin");
        assert_eq!(named("key:deploy"), "operator:key:deploy");
        assert_eq!(OperatorIdentity::ADMIN_KEY.actor().to_string(), "operator");
    }

    #[test]
    fn everybody_manages_themselves_and_admins_everybody() {
        let lin = |role| OperatorIdentity { name: Some("lin".into()), role };
        assert!(lin(Role::Viewer).may_manage("lin").is_ok());
        assert!(lin(Role::Operator).may_manage("mei").is_err());
        assert!(lin(Role::Admin).may_manage("mei").is_ok());
    }
}
