//! Operators' accounts: made and changed by admins; a password also by whose it is.

use tidegate_core::{OperatorId, Rejection, Role};
use tidegate_store::ledger::Remember;
use tidegate_store::ledger::sql::{Made, OperatorAccount, OperatorChange};

use super::Operating;
use crate::ops::{App, Refusal};

pub const OPERATORS_SCOPE: &str = "operators";
pub const MAX_OPERATORS: u32 = 500;
/// Characters of a password.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 10..=128;

/// What is to be different about an operator; the rest stays.
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

/// Whether an operator or an API key can be called this.
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

/// What is said where a name is taken or there are too many.
pub(super) fn made(made: Made, what: &str, most: u32) -> Result<(), Refusal> {
    match made {
        Made::Yes => Ok(()),
        Made::NameTaken => {
            let detail = format!("There is an {what} of this name already.");
            Err(Refusal::Conflict { code: "name_taken", detail })
        }
        Made::TooMany => {
            let detail = format!("There are {most} of them already.");
            Err(Refusal::Conflict { code: "too_many", detail })
        }
    }
}

impl App {
    pub async fn create_operator(
        &self,
        by: &Operating,
        name: String,
        password: String,
        role: Role,
        key: Option<Remember>,
    ) -> Result<OperatorAccount, Refusal> {
        by.may(Role::Admin)?;
        check_name(&name)?;
        check_password(&password)?;
        let password = self.passwords.hash(password).await?;
        let _one_at_a_time = self.campaigns.lock().await;
        if self.done_before(key.as_ref()).await?.is_some() {
            return self.operator_account(&name).await;
        }
        let now = self.now();
        let id = OperatorId::from_raw(self.next_id(now));
        let account =
            OperatorAccount { id, name, password, role, totp: None, disabled: false, created_at: now };
        let done = self.ledger.create_operator(account.clone(), MAX_OPERATORS, by.actor(), key).await?;
        made(done, "operator", MAX_OPERATORS)?;
        Ok(account)
    }

    /// All of them, by their names.
    pub async fn operators(&self) -> Result<Vec<OperatorAccount>, Refusal> {
        Ok(self.ledger.operator_accounts().await?)
    }

    pub async fn operator_account(&self, name: &str) -> Result<OperatorAccount, Refusal> {
        self.ledger.operator_account(name).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    /// Takes effect with the operator's next request.
    pub async fn set_role(&self, by: &Operating, name: &str, role: Role) -> Result<OperatorAccount, Refusal> {
        self.change_operator(by, name, OperatorPatch { role: Some(role), ..OperatorPatch::default() }).await
    }

    /// Who is disabled is out at once and cannot sign in.
    pub async fn set_disabled(
        &self,
        by: &Operating,
        name: &str,
        disabled: bool,
    ) -> Result<OperatorAccount, Refusal> {
        let patch = OperatorPatch { disabled: Some(disabled), ..OperatorPatch::default() };
        self.change_operator(by, name, patch).await
    }

    /// Whoever has signed in as this operator has to do so again.
    pub async fn set_password(
        &self,
        by: &Operating,
        name: &str,
        password: String,
    ) -> Result<OperatorAccount, Refusal> {
        let patch = OperatorPatch { password: Some(password), ..OperatorPatch::default() };
        self.change_operator(by, name, patch).await
    }

    /// Somebody changes their own password and shows the one they had. Wrong ones are counted like failed sign-ins.
    pub async fn change_own_password(
        &self,
        by: &Operating,
        current: String,
        password: String,
    ) -> Result<OperatorAccount, Refusal> {
        let name = by.name.as_deref().ok_or(Rejection::NotFound)?;
        check_password(&password)?;
        let tries = self.operators.tries.of(name);
        tries.take(self.now())?;
        let account = self.operator_account(name).await?;
        if !self.passwords.matches(current, Some(&account.password)).await? {
            return Err(Refusal::invalid("current", "is not the password you have now"));
        }
        tries.forget();
        self.set_password(by, name, password).await
    }

    /// Several changes at once: all of them or none.
    pub async fn change_operator(
        &self,
        by: &Operating,
        name: &str,
        patch: OperatorPatch,
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
            changes.push(OperatorChange::Password(self.passwords.hash(password).await?));
        }
        let changed = self.ledger.change_operator(name.to_owned(), changes, by.actor(), self.now()).await?;
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
