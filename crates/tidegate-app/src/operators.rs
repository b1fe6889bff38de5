//! Operators: who acts, what they may do, and how they sign in to a console.
//!
//! What always holds: the admin key always works, and is an admin. An operator who is unknown is answered like one
//! with a wrong password, in like time. A console is looked up in the ledger with every use, so that who is disabled
//! is out at once, on every node. Every change is made in the name of who made it.

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
use self::keys::KnownKeys;
use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::digest::{self, Secret, digest};
use crate::passwords::Passwords;
use crate::random;
use crate::tables::OperatorTables;

/// A console lasts this long after it was used.
const CONSOLE_LIFE: Duration = Duration::from_secs(12 * 3600);
/// And no longer than this after it was opened, however much it is used.
const CONSOLE_LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Using a console is noted when this much of its life is gone: not with every request.
const NOTE_AFTER: Duration = Duration::from_secs(300);
/// What tokens of consoles begin with.
const CONSOLE_PREFIX: &str = "tq_";
/// Characters of a name, a password or a code that are looked at: nobody has longer ones.
const LONGEST: usize = 128;

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
    keys: KnownKeys,
    guesses: GuessLimits,
    /// Hashes apart from the buyers': a crowd of buyers who log in keeps no operator waiting.
    passwords: Passwords,
    admin_key_digest: Secret,
}

/// What somebody signs in with, and from where.
#[derive(Clone)]
pub struct SignIn {
    pub name: String,
    pub password: String,
    /// Of the second factor, where there is one.
    pub code: Option<String>,
    /// What the tries of their network address are counted under.
    pub place: String,
    /// The token of the console that the same browser has: it ends.
    pub before: Option<String>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("name", &self.name).field("place", &self.place).finish_non_exhaustive()
    }
}

/// Who acts, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    /// An operator's name, or `key:` and the name of an API key; none for the admin key.
    pub name: Option<String>,
    pub role: Role,
}

impl OperatorIdentity {
    /// Whoever has the admin key.
    pub const ADMIN_KEY: Self = Self { name: None, role: Role::Admin };

    /// As the outbox and the audit log name them.
    pub fn actor(&self) -> Actor {
        Actor::Operator(self.name.as_deref().map(Arc::from))
    }

    /// Refuses those whose role does not reach.
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

    /// Everybody may change what is their own; admins may change what is anybody's.
    fn may_manage(&self, name: &str) -> Result<(), Refusal> {
        if self.name.as_deref() == Some(name) { Ok(()) } else { self.may(Role::Admin) }
    }
}

/// A console that was just signed in to.
#[derive(Clone)]
pub struct ConsoleSession {
    pub token: String,
    pub expires_at: Moment,
    pub operating: OperatorIdentity,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSession").field("operating", &self.operating).finish_non_exhaustive()
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
        let (keys, guesses) = (KnownKeys::default(), GuessLimits::default());
        Self { context, ledger, changes, keys, guesses, passwords, admin_key_digest }
    }

    /// Who shows this: the admin key, an API key, or the token of a console.
    pub async fn authenticate(&self, bearer: Option<&str>) -> Result<OperatorIdentity, Refusal> {
        let bearer = bearer.ok_or(Rejection::Unauthenticated)?;
        if self.is_admin_key(bearer) {
            return Ok(OperatorIdentity::ADMIN_KEY);
        }
        if bearer.starts_with(keys::PREFIX) {
            return self.by_api_key(bearer).await;
        }
        self.console(bearer).await
    }

    fn is_admin_key(&self, key: &str) -> bool {
        digest(&[key.as_bytes()]).ct_eq(&self.admin_key_digest).into()
    }

    /// The admin key signs in to a console, as an admin without a name. `before` is the console the same browser has.
    pub async fn sign_in_with_key(&self, key: &str, before: Option<&str>) -> Result<ConsoleSession, Refusal> {
        if !self.is_admin_key(key) {
            return Err(WRONG_SIGN_IN);
        }
        let (token, console) = self.new_console(before)?;
        self.ledger.console_sessions.open_with_admin_key(console, self.console_opener()).await?;
        Ok(ConsoleSession { token, expires_at: console.expires_at, operating: OperatorIdentity::ADMIN_KEY })
    }

    /// An operator signs in to a console; one with a second factor needs its code, too.
    pub async fn sign_in(&self, given: SignIn) -> Result<ConsoleSession, Refusal> {
        let SignIn { name, password, code, place, before } = given;
        for (field, text) in [("name", Some(&name)), ("password", Some(&password)), ("code", code.as_ref())] {
            if text.is_some_and(|text| text.chars().count() > LONGEST) {
                return Err(Refusal::invalid(field, format!("must have at most {LONGEST} characters")));
            }
        }
        if !is_name(&name) {
            // It is nobody's, and need not be counted.
            return Err(WRONG_SIGN_IN);
        }
        let taken = self.guesses.password(&name, &place, Instant::now())?;
        let account = self.ledger.operators.by_name(&name).await?;
        let hash = account.as_ref().map(|account| account.password.as_str());
        let right = self.passwords.matches(password, hash).await?;
        if !right || account.as_ref().is_none_or(|account| account.disabled) {
            let is_news = taken.wrong();
            // Names that nobody has are not written down: there is no end to them.
            if let Some(account) = account.filter(|_| is_news) {
                self.tell_refused(&account, EventKind::OperatorSignInRefused, &place);
            }
            return Err(WRONG_SIGN_IN);
        }
        let account = account.ok_or(WRONG_SIGN_IN)?;
        let session = if account.totp.is_some() {
            // The password is neither right nor wrong yet for who has no code.
            let code = code.ok_or(CODE_REQUIRED)?;
            self.sign_in_by_code(account, &code, &place, before.as_deref()).await?
        } else {
            self.open_console(account, None, before.as_deref()).await?.ok_or(WRONG_SIGN_IN)?
        };
        taken.right();
        Ok(session)
    }

    /// Whoever has the password shows the code of the second factor.
    async fn sign_in_by_code(
        &self,
        account: OperatorAccount,
        code: &str,
        place: &str,
        before: Option<&str>,
    ) -> Result<ConsoleSession, Refusal> {
        let taken = self.guesses.code(&account.name, Instant::now())?;
        let step =
            second_factor::step_of(account.totp.as_deref().unwrap_or_default(), code, self.context.now());
        let opened = match step {
            Some(step) => self.open_console(account.clone(), Some(step), before).await?,
            None => None,
        };
        if let Some(session) = opened {
            taken.right();
            return Ok(session);
        }
        if taken.wrong() {
            self.tell_refused(&account, EventKind::OperatorCodeRefused, place);
        }
        Err(WRONG_SIGN_IN)
    }

    /// `None` where the account has changed since it was looked at, or the code was taken before.
    async fn open_console(
        &self,
        account: OperatorAccount,
        step: Option<u32>,
        before: Option<&str>,
    ) -> Result<Option<ConsoleSession>, Refusal> {
        let (token, console) = self.new_console(before)?;
        let operating = OperatorIdentity { name: Some(account.name.clone()), role: account.role };
        let is_open = self.ledger.console_sessions.open(console, account, step).await?;
        Ok(is_open.then_some(ConsoleSession { token, expires_at: console.expires_at, operating }))
    }

    fn new_console(&self, before: Option<&str>) -> Result<(String, NewConsoleSession), Refusal> {
        let secret = random::secret()?;
        let (token, now) = (digest::token(CONSOLE_PREFIX, &secret), self.context.now());
        let console = NewConsoleSession {
            token: digest(&[token.as_bytes()]),
            opened_at: now,
            expires_at: now + CONSOLE_LIFE,
            instead_of: before.map(|before| digest(&[before.as_bytes()])),
        };
        Ok((token, console))
    }

    /// What consoles are kept with that the admin key opened: with another key they are worth nothing.
    fn console_opener(&self) -> Secret {
        digest::keyed(&self.context.secret, &[b"console", &self.admin_key_digest])
    }

    /// Who has signed in to the console of this token; it lasts longer for being used.
    pub async fn console(&self, token: &str) -> Result<OperatorIdentity, Refusal> {
        let (operating, console) = self.opened(token).await?;
        let now = self.context.now();
        let until = (now + CONSOLE_LIFE).min(console.opened_at + CONSOLE_LONGEST);
        if until >= console.expires_at + NOTE_AFTER {
            let extended = self.ledger.console_sessions.extend(digest(&[token.as_bytes()]), until).await;
            // It ends when it would have.
            let _ = extended.inspect_err(|error| tracing::warn!(%error, "a console could not be extended"));
        }
        Ok(operating)
    }

    /// Like `authenticate`, for a stream that only watches: it does not extend a console's session.
    pub async fn recheck(&self, bearer: &str) -> Result<OperatorIdentity, Refusal> {
        if bearer.starts_with(CONSOLE_PREFIX) {
            return Ok(self.opened(bearer).await?.0);
        }
        self.authenticate(Some(bearer)).await
    }

    async fn opened(&self, token: &str) -> Result<(OperatorIdentity, ConsoleSessionRecord), Refusal> {
        if !token.starts_with(CONSOLE_PREFIX) {
            return Err(Rejection::Unauthenticated.into());
        }
        let (token, now) = (digest(&[token.as_bytes()]), self.context.now());
        let found = self.ledger.console_sessions.get(token).await?.filter(|console| now < console.expires_at);
        let console = found.ok_or(Rejection::Unauthenticated)?;
        let operating = match &console.opened_by {
            OpenedBy::Operator { name, role } => OperatorIdentity { name: Some(name.clone()), role: *role },
            OpenedBy::AdminKey(opener) if *opener == self.console_opener() => OperatorIdentity::ADMIN_KEY,
            OpenedBy::AdminKey(_) => return Err(Rejection::Unauthenticated.into()),
        };
        Ok((operating, console))
    }

    /// Ends the console of this token.
    pub async fn sign_out(&self, token: &str) -> Result<(), Refusal> {
        Ok(self.ledger.console_sessions.end(digest(&[token.as_bytes()]), self.context.now()).await?)
    }

    /// Forgets consoles that ended and keys that were revoked long ago.
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
