//! Sealed tokens: data of the server that a client carries and cannot alter. They are not encrypted.
//!
//! Format: a prefix, then in hex the bytes and the first sixteen bytes of an HMAC over prefix and bytes.

use subtle::ConstantTimeEq;

use crate::digest::{self, Secret};

const MAC: usize = 16;

/// Seals `bytes` under a prefix that names their purpose.
pub(super) fn seal(key: &Secret, prefix: &str, bytes: &[u8]) -> String {
    let mac = digest::keyed(key, &[prefix.as_bytes(), bytes]);
    digest::token(prefix, &[bytes, &mac[..MAC]].concat())
}

/// The bytes, if the seal is valid for this key and prefix.
pub(super) fn open<const N: usize>(key: &Secret, prefix: &str, text: &str) -> Option<[u8; N]> {
    let hex = text.strip_prefix(prefix)?;
    if hex.len() != 2 * (N + MAC) || !hex.is_ascii() {
        return None;
    }
    let bytes = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect::<Option<Vec<u8>>>()?;
    let (bytes, mac) = bytes.split_at(N);
    let expected = digest::keyed(key, &[prefix.as_bytes(), bytes]);
    let ours: bool = expected[..MAC].ct_eq(mac).into();
    if ours { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_opens_and_only_for_its_purpose() {
        let text = seal(&[1; 32], "a_", &[7, 8, 9]);
        assert_eq!(open(&[1; 32], "a_", &text), Some([7, 8, 9]));
        assert_eq!(open::<3>(&[2; 32], "a_", &text), None, "another key");
        assert_eq!(open::<3>(&[1; 32], "b_", &text.replace("a_", "b_")), None, "another purpose");
        assert_eq!(open::<4>(&[1; 32], "a_", &text), None, "another length");
        for at in 2..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(open::<3>(&[1; 32], "a_", &forged), None, "character {at} changed");
        }
    }
}
