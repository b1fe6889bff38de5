//! Signatures of outbound messages according to Standard Webhooks, whose libraries receivers can verify them with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_core::Moment;

use crate::digest::keyed;

const PREFIX: &str = "whsec_";

/// A signing secret in the text form that Standard Webhooks libraries accept.
pub fn print_secret(secret: &[u8]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret))
}

/// The bytes of a signing secret; `None` unless it is `whsec_` and base64 of 24 to 64 bytes.
pub fn parse_secret(text: &str) -> Option<Vec<u8>> {
    let secret = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    (24..=64).contains(&secret.len()).then_some(secret)
}

/// The headers of a signed message: one signature for every secret in force.
pub fn signed(id: &str, now: Moment, body: &str, secrets: &[&[u8]]) -> Vec<(&'static str, String)> {
    let seconds = (now.millis() / 1000).to_string();
    let signatures: Vec<String> = secrets
        .iter()
        .map(|secret| {
            let parts: [&[u8]; 5] = [id.as_bytes(), b".", seconds.as_bytes(), b".", body.as_bytes()];
            format!("v1,{}", STANDARD.encode(keyed(secret, &parts)))
        })
        .collect();
    vec![
        ("content-type", "application/cloudevents+json".into()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", seconds),
        ("webhook-signature", signatures.join(" ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_verify_with_the_public_library_and_with_either_secret() {
        let (new, old) = ([1; 32], [2; 24]);
        let body = r#"{"type":"order.paid"}"#;
        let now = crate::clock::Clock::System.now();
        let headers = signed("evt_1", now, body, &[&new, &old]);
        let map: hyper::HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse::<hyper::header::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        for secret in [print_secret(&new), print_secret(&old)] {
            standardwebhooks::Webhook::new(&secret).unwrap().verify(body.as_bytes(), &map).unwrap();
        }
        let other = standardwebhooks::Webhook::new(&print_secret(&[3; 32])).unwrap();
        assert!(other.verify(body.as_bytes(), &map).is_err());
    }

    #[test]
    fn a_secret_reads_back_and_others_do_not() {
        assert_eq!(parse_secret(&print_secret(&[7; 32])), Some(vec![7; 32]));
        for text in ["", "whsec_", "whsec_AAAA", "secret", "whsec_%%%"] {
            assert_eq!(parse_secret(text), None, "{text}");
        }
    }
}
