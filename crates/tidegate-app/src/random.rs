//! Randomness from the operating system: secrets, one-time codes, jitter.

use crate::Refusal;
use crate::digest::Secret;

/// The operating system provides no random numbers.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no random numbers: {0}")]
pub struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for Refusal {
    fn from(error: NoRandomness) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// 256 random bits.
pub fn secret() -> Result<Secret, NoRandomness> {
    let mut bytes = [0; 32];
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for randomness")]
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

/// A uniform number below `bound`.
pub fn number(bound: u32) -> Result<u32, NoRandomness> {
    // Rejection sampling: numbers above the last full multiple of the bound would favour small results.
    let fair = u32::MAX - u32::MAX % bound;
    loop {
        let bytes = secret()?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if number < fair {
            return Ok(number % bound);
        }
    }
}

/// A number from 0 to 1 for jitter; one half if the system provides no randomness.
pub fn fraction() -> f64 {
    secret().map_or(0.5, |bytes| f64::from(u16::from_le_bytes([bytes[0], bytes[1]])) / f64::from(u16::MAX))
}
