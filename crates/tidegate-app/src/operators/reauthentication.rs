//! Reauthentication of operators who change their own account: a session alone may have been left open.
//!
//! Invariants: wrong passwords and codes count as they do at sign-in. Admins who change another operator's account,
//! and the admin key, need no reauthentication.

use std::time::Instant;

use tidegate_core::EventKind;
use tidegate_ledger::OperatorAccount;

use super::{OperatorIdentity, Operators, second_factor};
use crate::Refusal;

/// Place under which attempts from an open session are counted.
const PLACE: &str = "signed in";

/// Credentials of an operator who changes their own account.
#[derive(Clone, Default)]
pub struct CurrentCredentials {
    pub current_password: Option<String>,
    /// Code of the current second factor; needed only to change the factor.
    pub current_code: Option<String>,
}

impl std::fmt::Debug for CurrentCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CurrentCredentials(..)")
    }
}

impl Operators {
    /// Requires the current password of operators who change their own account.
    pub(super) async fn require_password(
        &self,
        by: &OperatorIdentity,
        name: &str,
        credentials: CurrentCredentials,
    ) -> Result<(), Refusal> {
        self.require(by, name, credentials, false).await
    }

    /// Like `require_password`; also requires a code of the current second factor, if there is one.
    pub(super) async fn require_factor(
        &self,
        by: &OperatorIdentity,
        name: &str,
        credentials: CurrentCredentials,
    ) -> Result<(), Refusal> {
        self.require(by, name, credentials, true).await
    }

    async fn require(
        &self,
        by: &OperatorIdentity,
        name: &str,
        credentials: CurrentCredentials,
        factor: bool,
    ) -> Result<(), Refusal> {
        if by.name.as_deref() != Some(name) {
            return Ok(());
        }
        let missing = || Refusal::invalid("current_password", "is needed to change what is your own");
        let current = credentials.current_password.filter(|given| !given.is_empty()).ok_or_else(missing)?;
        if current.chars().count() > super::MAX_INPUT_CHARS {
            return Err(wrong_password());
        }
        let taken = self.guesses.password(name, PLACE, Instant::now())?;
        let account = self.account(name).await?;
        if !self.passwords.matches(current, Some(&account.password)).await? {
            if taken.wrong() {
                self.log_refusal(&account, EventKind::OperatorSignInRefused, PLACE);
            }
            return Err(wrong_password());
        }
        if factor && account.totp.is_some() {
            self.require_code(account, credentials.current_code).await?;
        }
        taken.right();
        Ok(())
    }

    async fn require_code(&self, account: OperatorAccount, code: Option<String>) -> Result<(), Refusal> {
        let missing = || Refusal::invalid("current_code", "is needed: what your second factor shows now");
        let code = code.filter(|given| !given.is_empty()).ok_or_else(missing)?;
        let taken = self.guesses.code(&account.name, Instant::now())?;
        let secret = account.totp.as_deref().unwrap_or_default();
        let is_right = match second_factor::step_of(secret, &code, self.context.now()) {
            Some(step) => self.ledger.operators.consume_totp_step(account.clone(), step).await?,
            None => false,
        };
        if is_right {
            taken.right();
            return Ok(());
        }
        if taken.wrong() {
            self.log_refusal(&account, EventKind::OperatorCodeRefused, PLACE);
        }
        Err(Refusal::invalid("current_code", "is not what your second factor shows now, or was used before"))
    }

    /// Writes a refusal to the audit log, on a best-effort basis. In the background, because the response time
    /// would otherwise reveal whether the name exists.
    pub(super) fn log_refusal(&self, account: &OperatorAccount, kind: EventKind, place: &str) {
        let (ledger, id, now) = (self.ledger.clone(), account.id, self.context.now());
        let detail = format!("{}, {place}", account.name);
        tokio::spawn(async move {
            if let Err(error) = ledger.operators.log_refusal(id, kind, detail, now).await {
                tracing::warn!(%error, %kind, "could not write a refusal to the audit log");
            }
        });
    }
}

fn wrong_password() -> Refusal {
    Refusal::invalid("current_password", "is not the password you have now")
}
