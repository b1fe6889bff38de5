//! What somebody shows who changes what is their own: a session alone may have been left open.
//!
//! What always holds: wrong passwords and codes count here as they do where one signs in. Admins who change what is
//! somebody else's, and the admin key, need to show nothing.

use std::time::Instant;

use tidegate_core::EventKind;
use tidegate_ledger::OperatorAccount;

use super::{OperatorIdentity, Operators, second_factor};
use crate::Refusal;

/// The place that tries are counted under which come from a session.
const PLACE: &str = "signed in";

/// What is shown by who changes their own account.
#[derive(Clone, Default)]
pub struct Shown {
    pub current_password: Option<String>,
    /// Of the second factor that is in force, where that is to be changed.
    pub current_code: Option<String>,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shown(..)")
    }
}

impl Operators {
    /// Refuses whoever changes their own account and does not show its password.
    pub(super) async fn prove_password(
        &self,
        by: &OperatorIdentity,
        name: &str,
        shown: Shown,
    ) -> Result<(), Refusal> {
        self.prove(by, name, shown, false).await
    }

    /// The same for the second factor: one that is in force is shown, too.
    pub(super) async fn prove_factor(
        &self,
        by: &OperatorIdentity,
        name: &str,
        shown: Shown,
    ) -> Result<(), Refusal> {
        self.prove(by, name, shown, true).await
    }

    async fn prove(
        &self,
        by: &OperatorIdentity,
        name: &str,
        shown: Shown,
        factor: bool,
    ) -> Result<(), Refusal> {
        if by.name.as_deref() != Some(name) {
            return Ok(());
        }
        let missing = || Refusal::invalid("current_password", "is needed to change what is your own");
        let current = shown.current_password.filter(|given| !given.is_empty()).ok_or_else(missing)?;
        if current.chars().count() > super::LONGEST {
            return Err(wrong_password());
        }
        let taken = self.guesses.password(name, PLACE, Instant::now())?;
        let account = self.account(name).await?;
        if !self.passwords.matches(current, Some(&account.password)).await? {
            if taken.wrong() {
                self.tell_refused(&account, EventKind::OperatorSignInRefused, PLACE);
            }
            return Err(wrong_password());
        }
        if factor && account.totp.is_some() {
            self.prove_code(account, shown.current_code).await?;
        }
        taken.right();
        Ok(())
    }

    async fn prove_code(&self, account: OperatorAccount, code: Option<String>) -> Result<(), Refusal> {
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
            self.tell_refused(&account, EventKind::OperatorCodeRefused, PLACE);
        }
        Err(Refusal::invalid("current_code", "is not what your second factor shows now, or was used before"))
    }

    /// Writes into the log that somebody was not let in, as far as that can be written now. Nobody waits for it: how
    /// long a refusal takes would tell whether there is somebody of that name.
    pub(super) fn tell_refused(&self, account: &OperatorAccount, kind: EventKind, place: &str) {
        let (ledger, id, now) = (self.ledger.clone(), account.id, self.context.now());
        let detail = format!("{}, {place}", account.name);
        tokio::spawn(async move {
            if let Err(error) = ledger.operators.log_refusal(id, kind, detail, now).await {
                tracing::warn!(%error, %kind, "a refusal could not be logged");
            }
        });
    }
}

fn wrong_password() -> Refusal {
    Refusal::invalid("current_password", "is not the password you have now")
}
