//! The program's randomness, and what is made of it: secrets, tokens and their digests.

use hmac::{Hmac, KeyInit, Mac};
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

/// A keyed digest: only who has the key can make it.
pub fn keyed(key: &[u8], parts: &[&[u8]]) -> Secret {
    // The algorithm itself pads a key to a whole block with zeros; ours are never longer than one.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The first half of a digest: enough to tell requests and keys apart.
pub fn short_digest(parts: &[&[u8]]) -> [u8; 16] {
    let digest = digest(parts);
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

/// Bytes as text, with a prefix that tells what they open.
pub fn token(prefix: &str, bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(prefix.to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A number from 0 to 1, to spread what would otherwise happen at once; where the system gives none, the middle.
pub fn fraction() -> f64 {
    secret().map_or(0.5, |bytes| f64::from(u16::from_le_bytes([bytes[0], bytes[1]])) / f64::from(u16::MAX))
}

/// A number below `bound` from the system, each as likely as the others.
pub fn number(bound: u32) -> anyhow::Result<u32> {
    // Numbers from the last, incomplete round would favour the small ones.
    let fair = u32::MAX - u32::MAX % bound;
    loop {
        let bytes = secret()?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if number < fair {
            return Ok(number % bound);
        }
    }
}
