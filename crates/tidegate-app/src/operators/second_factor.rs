//! An operator's second factor: TOTP codes (RFC 6238).
//!
//! Six digits, time steps of thirty seconds; one step of clock skew is tolerated, and each code is accepted once.

use tidegate_core::{Moment, Rejection};
use tidegate_ledger::{OperatorAccount, OperatorChange};
use totp_rs::{Builder, Secret};

use super::reauthentication::CurrentCredentials;
use super::{OperatorIdentity, Operators};
use crate::Refusal;
use crate::digest::{self, digest};
use crate::random;

/// The length of a SHA-1 digest, from which codes are derived.
const SECRET_BYTES: usize = 20;
/// Issuer that authenticator apps display.
const ISSUER: &str = "Tidegate";

/// A new secret, which takes effect once a code proves that a device has it.
#[derive(Clone)]
pub struct NewFactor {
    /// In base 32, as it is typed into a device.
    pub secret: String,
    /// The same as an `otpauth:` URL, for a QR code.
    pub url: String,
}

impl std::fmt::Debug for NewFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewFactor(..)")
    }
}

/// A code that proves that a device has the secret.
#[derive(Clone)]
pub struct ProvenFactor {
    pub secret: String,
    pub code: String,
    /// Token of the current console session, which continues; the operator's other sessions end.
    pub console: Option<String>,
}

impl std::fmt::Debug for ProvenFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProvenFactor(..)")
    }
}

/// The time step of the code, if it is valid now.
pub(super) fn step_of(secret: &[u8], code: &str, now: Moment) -> Option<u32> {
    let totp = Builder::new().with_secret(Secret::from(secret)).build().ok()?;
    let seconds = u64::try_from(now.millis() / 1000).ok()?;
    u32::try_from(totp.check(code.trim(), seconds)?).ok()
}

impl Operators {
    /// Generates a secret for an operator's device. Nothing changes until `confirm_totp`.
    pub async fn begin_totp(&self, by: &OperatorIdentity, name: &str) -> Result<NewFactor, Refusal> {
        by.may_manage(name)?;
        self.account(name).await?;
        let random = random::secret()?;
        let secret = Secret::from(&random[..SECRET_BYTES]).to_base32();
        let url = format!(
            "otpauth://totp/{ISSUER}:{name}?secret={secret}&issuer={ISSUER}&algorithm=SHA1&digits=6&period=30"
        );
        Ok(NewFactor { secret, url })
    }

    /// Enables or replaces the second factor; the code proves that the device has the secret. Operators who change
    /// their own factor also give their password and a code of the current factor, if there is one.
    pub async fn confirm_totp(
        &self,
        by: &OperatorIdentity,
        name: &str,
        factor: ProvenFactor,
        credentials: CurrentCredentials,
    ) -> Result<OperatorAccount, Refusal> {
        by.may_manage(name)?;
        let secret =
            Secret::try_from_base32(factor.secret.trim()).ok().filter(|secret| secret.len() == SECRET_BYTES);
        let secret = secret.ok_or_else(|| Refusal::invalid("secret", "must be the one that was given"))?;
        let step = step_of(&secret, &factor.code, self.context.now());
        let step = step.ok_or_else(|| {
            Refusal::invalid("code", "is not the one that a device with this secret shows now")
        })?;
        self.require_factor(by, name, credentials).await?;
        let keep = factor.console.map(|token| digest(&[token.as_bytes()]));
        self.change_totp(by, name, Some((secret.to_vec(), step)), keep).await
    }

    /// Disables the second factor.
    pub async fn remove_totp(
        &self,
        by: &OperatorIdentity,
        name: &str,
        credentials: CurrentCredentials,
    ) -> Result<OperatorAccount, Refusal> {
        by.may_manage(name)?;
        self.require_factor(by, name, credentials).await?;
        self.change_totp(by, name, None, None).await
    }

    async fn change_totp(
        &self,
        by: &OperatorIdentity,
        name: &str,
        factor: Option<(Vec<u8>, u32)>,
        keep: Option<digest::Secret>,
    ) -> Result<OperatorAccount, Refusal> {
        let (name, change, now) = (name.to_owned(), vec![OperatorChange::Totp(factor)], self.context.now());
        let changed = self.ledger.operators.update(name, change, keep, by.actor(), now).await?;
        changed.ok_or_else(|| Rejection::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test vector of RFC 6238, its last six digits.
    #[test]
    fn codes_are_those_of_the_standard_a_step_early_or_late() {
        let secret = b"12345678901234567890";
        let at = |seconds: i64| step_of(secret, "081804", Moment::from_millis(seconds * 1000));
        let step = Some(1_111_111_109 / 30);
        assert_eq!((at(1_111_111_109), at(1_111_111_109 + 30), at(1_111_111_109 - 30)), (step, step, step));
        assert_eq!((at(1_111_111_109 + 61), at(1_111_111_109 - 61)), (None, None));
        assert_eq!(step_of(secret, "nonsense", Moment::from_millis(0)), None);
    }
}
