//! The program's randomness, and what is made of it: secrets, tokens and their digests.

use sha2::{Digest, Sha256};

pub type Secret = [u8; 32];

/// 256 bits from the system.
pub fn secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; 32];
    #[expect(clippy::disallowed_methods, reason = "this is the program's edge")]
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

/// How a token is kept: who reads the digest cannot act for its owner.
pub fn digest(parts: &[&[u8]]) -> Secret {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The first half of a digest: enough to tell requests and keys apart.
pub fn short_digest(parts: &[&[u8]]) -> [u8; 16] {
    let digest = digest(parts);
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

/// A secret as text, with a prefix that tells what it opens.
pub fn token(prefix: &str, secret: &Secret) -> String {
    use std::fmt::Write;
    secret.iter().fold(prefix.to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
