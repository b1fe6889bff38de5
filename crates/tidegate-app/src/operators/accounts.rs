//! Operators' accounts, managed by admins; operators can change their own password.

use tidegate_core::ProblemCode;
use tidegate_core::{OperatorId, Rejection, Role};
use tidegate_ledger::IdempotentRequest;
use tidegate_ledger::{CreateOutcome, OperatorAccount, OperatorChange};

use super::reauthentication::CurrentCredentials;
use super::{OperatorIdentity, Operators};
use crate::Refusal;

pub const OPERATORS_SCOPE: &str = "operators";
pub const MAX_OPERATORS: u32 = 500;
/// Allowed length of a password, in characters.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 10..=128;

/// Changes to an operator; `None` leaves a field as it is.
#[derive(Clone, Default)]
pub struct OperatorPatch {
    pub role: Option<Role>,
    pub disabled: Option<bool>,
    pub password: Option<String>,
}

impl std::fmt::Debug for OperatorPatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (role, disabled) = (&self.role, &self.disabled);
        f.debug_struct("OperatorPatch")
            .field("role", role)
            .field("disabled", disabled)
            .finish_non_exhaustive()
    }
}

/// Whether this is a valid name for an operator or an API key.
pub(super) fn is_name(name: &str) -> bool {
    let sound =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"._-".contains(&letter);
    (2..=40).contains(&name.len()) && name.bytes().all(sound)
}

pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if is_name(name) {
        return Ok(());
    }
    Err(Refusal::invalid(
        "name",
        "must have 2 to 40 of the characters a to z, 0 to 9, dot, dash and underscore",
    ))
}

fn check_password(password: &str) -> Result<(), Refusal> {
    if PASSWORD_LENGTH.contains(&password.chars().count()) {
        return Ok(());
    }
    let (least, most) = (PASSWORD_LENGTH.start(), PASSWORD_LENGTH.end());
    Err(Refusal::invalid("password", format!("must have {least} to {most} characters")))
}

/// The refusal if the name is taken or the maximum is reached.
pub(super) fn refuse_unless_created(outcome: CreateOutcome, what: &str, most: u32) -> Result<(), Refusal> {
    match outcome {
        CreateOutcome::Created => Ok(()),
        CreateOutcome::NameTaken => {
            let detail = format!("There is an {what} of this name already.");
            Err(Refusal::Conflict { code: ProblemCode::NameTaken, detail })
        }
        CreateOutcome::TooMany => {
            let detail = format!("There are {most} of them already.");
            Err(Refusal::Conflict { code: ProblemCode::TooMany, detail })
        }
    }
}

impl Operators {
    pub async fn create(
        &self,
        by: &OperatorIdentity,
        name: String,
        password: String,
        role: Role,
        key: Option<IdempotentRequest>,
    ) -> Result<OperatorAccount, Refusal> {
        by.may(Role::Admin)?;
        check_name(&name)?;
        check_password(&password)?;
        let password = self.passwords.hash(password).await?;
        if self.changes.find_earlier(key.as_ref()).await?.is_some() {
            return self.account(&name).await;
        }
        let now = self.context.now();
        let id = OperatorId::from_raw(self.context.next_id(now));
        let account =
            OperatorAccount { id, name, password, role, totp: None, disabled: false, created_at: now };
        let done =
            self.ledger.operators.create(account.clone(), MAX_OPERATORS, by.actor(), key.clone()).await?;
        // A concurrent request with the same idempotency key may have created it.
        if done != CreateOutcome::Created && self.changes.find_earlier(key.as_ref()).await?.is_some() {
            return self.account(&account.name).await;
        }
        refuse_unless_created(done, "operator", MAX_OPERATORS)?;
        Ok(account)
    }

    /// All accounts, ordered by name.
    pub async fn accounts(&self) -> Result<Vec<OperatorAccount>, Refusal> {
        Ok(self.ledger.operators.list().await?)
    }

    pub async fn account(&self, name: &str) -> Result<OperatorAccount, Refusal> {
        self.ledger.operators.by_name(name).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Takes effect with the operator's next request.
    pub async fn set_role(
        &self,
        by: &OperatorIdentity,
        name: &str,
        role: Role,
    ) -> Result<OperatorAccount, Refusal> {
        let patch = OperatorPatch { role: Some(role), ..OperatorPatch::default() };
        self.change(by, name, patch, CurrentCredentials::default()).await
    }

    /// A disabled operator is signed out at once and cannot sign in.
    pub async fn set_disabled(
        &self,
        by: &OperatorIdentity,
        name: &str,
        disabled: bool,
    ) -> Result<OperatorAccount, Refusal> {
        let patch = OperatorPatch { disabled: Some(disabled), ..OperatorPatch::default() };
        self.change(by, name, patch, CurrentCredentials::default()).await
    }

    /// Ends the operator's sessions. Operators who change their own password also give the current one.
    pub async fn set_password(
        &self,
        by: &OperatorIdentity,
        name: &str,
        password: String,
        credentials: CurrentCredentials,
    ) -> Result<OperatorAccount, Refusal> {
        let patch = OperatorPatch { password: Some(password), ..OperatorPatch::default() };
        self.change(by, name, patch, credentials).await
    }

    /// Makes several changes atomically.
    pub async fn change(
        &self,
        by: &OperatorIdentity,
        name: &str,
        patch: OperatorPatch,
        credentials: CurrentCredentials,
    ) -> Result<OperatorAccount, Refusal> {
        let OperatorPatch { role, disabled, password } = patch;
        if role.is_some() || disabled.is_some() {
            by.may(Role::Admin)?;
        }
        by.may_manage(name)?;
        let mut changes = Vec::new();
        changes.extend(role.map(OperatorChange::Role));
        changes.extend(disabled.map(OperatorChange::Disabled));
        if let Some(password) = password {
            check_password(&password)?;
            self.require_password(by, name, credentials).await?;
            changes.push(OperatorChange::Password(self.passwords.hash(password).await?));
        }
        let (name, now) = (name.to_owned(), self.context.now());
        let changed = self.ledger.operators.update(name, changes, None, by.actor(), now).await?;
        changed.ok_or_else(|| Rejection::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["lin", "a.b-c_9", "42"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "x", "Lin", "key:lin", "lin ", "林林", &"a".repeat(41)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
