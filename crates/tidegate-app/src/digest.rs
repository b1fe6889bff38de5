//! Digests, keyed digests, and tokens as text.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tidegate_core::IdempotencyKey;

/// A secret key, or a SHA-256 digest.
pub type Secret = [u8; 32];

/// SHA-256 over the parts. Tokens are stored as digests, so that a copy of the ledger contains no usable token.
pub fn digest(parts: &[&[u8]]) -> Secret {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// HMAC-SHA-256 over the parts. Keys have at most 64 bytes.
pub fn keyed(key: &[u8], parts: &[&[u8]]) -> Secret {
    // HMAC itself pads a key to a whole block with zeros.
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

/// An `Idempotency-Key` as it is stored: a digest of its text.
pub fn idempotency_key(text: &str) -> IdempotencyKey {
    IdempotencyKey(short_digest(&[b"key", text.as_bytes()]))
}

/// Bytes in hex, after a prefix that names the kind of token.
pub fn token(prefix: &str, bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(prefix.to_owned(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
