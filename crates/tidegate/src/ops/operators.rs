//! Operators: who acts, what they may do, and how they sign in to a console.
//!
//! What always holds: the admin key always works, and is an admin. An operator who is unknown is answered like one with a
//! wrong password, in like time. A console is looked up in the ledger with every use, so that who is disabled is out at
//! once, on every node. Every change is made in the name of who made it.

pub mod accounts;
pub mod keys;
pub mod second_factor;
mod tries;

use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tidegate_core::{Moment, Rejection, Role};
use tidegate_store::ledger::sql::{Console, OpenedBy, OperatorAccount};
use tidegate_store::ledger::{Actor, LedgerError};

use self::accounts::is_name;
use self::keys::KnownKeys;
use self::tries::Tries;
use super::{App, Refusal};
use crate::chance::{self, Secret, digest};

/// A console lasts this long after it was used.
const CONSOLE_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Using a console is noted when this much of its life is gone: not with every request.
const NOTE_AFTER: Duration = Duration::from_secs(300);
/// What tokens of consoles begin with.
const CONSOLE_PREFIX: &str = "tq_";

const WRONG_SIGN_IN: Refusal = Refusal::NotSignedIn {
    code: "login_failed",
    detail: "Name, password and code do not belong together, or the code was used before.",
};
const CODE_REQUIRED: Refusal = Refusal::NotSignedIn {
    code: "code_required",
    detail: "This operator has a second factor: send the code it shows, too.",
};

/// What the use cases remember about operators.
#[derive(Debug, Default)]
pub(super) struct Operators {
    keys: KnownKeys,
    tries: Tries,
}

/// Who acts, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operating {
    /// An operator's name, or `key:` and the name of an API key; none for the admin key.
    pub name: Option<String>,
    pub role: Role,
}

impl Operating {
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
        Err(Refusal::Denied { code: "role_required", detail })
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
    pub operating: Operating,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSession").field("operating", &self.operating).finish_non_exhaustive()
    }
}

impl App {
    /// Who shows this: the admin key, an API key, or the token of a console.
    pub async fn operator(&self, bearer: Option<&str>) -> Result<Operating, Refusal> {
        let bearer = bearer.ok_or(Rejection::Unauthenticated)?;
        if self.is_admin_key(bearer) {
            return Ok(Operating::ADMIN_KEY);
        }
        if bearer.starts_with(keys::PREFIX) {
            return self.by_api_key(bearer).await;
        }
        self.console(bearer).await
    }

    fn is_admin_key(&self, key: &str) -> bool {
        digest(&[key.as_bytes()]).ct_eq(&self.admin_key_digest).into()
    }

    /// The admin key signs in to a console, as an admin without a name.
    pub async fn sign_in_with_key(&self, key: &str) -> Result<ConsoleSession, Refusal> {
        if !self.is_admin_key(key) {
            return Err(WRONG_SIGN_IN);
        }
        let (token, expires_at, now) = self.new_console()?;
        let opener = self.console_opener();
        self.ledger.open_key_console(digest(&[token.as_bytes()]), opener, expires_at, now).await?;
        Ok(ConsoleSession { token, expires_at, operating: Operating::ADMIN_KEY })
    }

    /// An operator signs in to a console; one with a second factor needs its code, too.
    pub async fn sign_in_operator(
        &self,
        name: &str,
        password: String,
        code: Option<&str>,
    ) -> Result<ConsoleSession, Refusal> {
        // What cannot be a name is nobody's, and need not be counted.
        let tries = is_name(name).then(|| self.operators.tries.of(name));
        if let Some(tries) = &tries {
            tries.take(self.now())?;
        }
        let account = self.ledger.operator_account(name).await?;
        let hash = account.as_ref().map(|account| account.password.as_str());
        let right = self.passwords.matches(password, hash).await?;
        let account = account.filter(|account| right && !account.disabled).ok_or(WRONG_SIGN_IN)?;
        let step = match (&account.totp, code) {
            (None, _) => None,
            (Some(_), None) => {
                // Neither right nor wrong yet.
                tries.inspect(|tries| tries.give_back());
                return Err(CODE_REQUIRED);
            }
            (Some(secret), Some(code)) => {
                Some(second_factor::step_of(secret, code, self.now()).ok_or(WRONG_SIGN_IN)?)
            }
        };
        let session = self.open_console(account, step).await?;
        tries.inspect(|tries| tries.forget());
        Ok(session)
    }

    async fn open_console(
        &self,
        account: OperatorAccount,
        step: Option<u32>,
    ) -> Result<ConsoleSession, Refusal> {
        let (token, expires_at, now) = self.new_console()?;
        let operating = Operating { name: Some(account.name.clone()), role: account.role };
        let kept = digest(&[token.as_bytes()]);
        if !self.ledger.open_console(kept, account, step, expires_at, now).await? {
            return Err(WRONG_SIGN_IN);
        }
        Ok(ConsoleSession { token, expires_at, operating })
    }

    fn new_console(&self) -> Result<(String, Moment, Moment), Refusal> {
        let secret = chance::secret().map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let now = self.now();
        Ok((chance::token(CONSOLE_PREFIX, &secret), now + CONSOLE_LIFE, now))
    }

    /// What consoles are kept with that the admin key opened: with another key they are worth nothing.
    fn console_opener(&self) -> Secret {
        chance::keyed(&self.secret, &[b"console", &self.admin_key_digest])
    }

    /// Who has signed in to the console of this token.
    pub async fn console(&self, token: &str) -> Result<Operating, Refusal> {
        if !token.starts_with(CONSOLE_PREFIX) {
            return Err(Rejection::Unauthenticated.into());
        }
        let (token, now) = (digest(&[token.as_bytes()]), self.now());
        let found = self.ledger.console(token).await?.filter(|console| now < console.expires_at);
        let Some(Console { opened_by, expires_at }) = found else {
            return Err(Rejection::Unauthenticated.into());
        };
        let operating = match opened_by {
            OpenedBy::Operator { name, role } => Operating { name: Some(name), role },
            OpenedBy::AdminKey(opener) if opener == self.console_opener() => Operating::ADMIN_KEY,
            OpenedBy::AdminKey(_) => return Err(Rejection::Unauthenticated.into()),
        };
        if now + CONSOLE_LIFE >= expires_at + NOTE_AFTER {
            let extended = self.ledger.extend_console(token, now + CONSOLE_LIFE).await;
            // It ends when it would have.
            let _ = extended.inspect_err(|error| tracing::warn!(%error, "a console could not be extended"));
        }
        Ok(operating)
    }

    /// Ends the console of this token.
    pub async fn sign_out_operator(&self, token: &str) -> Result<(), Refusal> {
        Ok(self.ledger.end_console(digest(&[token.as_bytes()])).await?)
    }

    /// Forgets consoles that ended and keys that were revoked long ago.
    pub(super) async fn forget_operators(&self, now: Moment) -> Result<(), LedgerError> {
        self.ledger.forget_consoles(now).await?;
        self.ledger.forget_api_keys(now - keys::KEEP_REVOKED).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_where_there_is_one() {
        let named =
            |name: &str| Operating { name: Some(name.into()), role: Role::Viewer }.actor().to_string();
        assert_eq!(named("lin"), "operator:lin");
        assert_eq!(named("key:deploy"), "operator:key:deploy");
        assert_eq!(Operating::ADMIN_KEY.actor().to_string(), "operator");
    }

    #[test]
    fn everybody_manages_themselves_and_admins_everybody() {
        let lin = |role| Operating { name: Some("lin".into()), role };
        assert!(lin(Role::Viewer).may_manage("lin").is_ok());
        assert!(lin(Role::Operator).may_manage("mei").is_err());
        assert!(lin(Role::Admin).may_manage("mei").is_ok());
    }
}
