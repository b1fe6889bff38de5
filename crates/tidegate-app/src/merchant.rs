//! The merchant's own users as buyers, authenticated by JWTs that the merchant signs.
//!
//! Invariants: the algorithm comes from the configuration, never from the token, so that neither `none` nor a
//! public key used as an HMAC secret is accepted. The buyer's id is a keyed digest of issuer and subject: stable
//! without being stored.

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use tidegate_core::{Moment, UserId};
use tidegate_ledger::Session;

use crate::digest::{Secret, keyed};

/// The `jwt` section of the configuration.
#[derive(Clone, Debug, Deserialize)]
pub struct JwtSettings {
    /// `HS256`, `RS256` or `EdDSA`; empty if no JWTs are accepted.
    pub algorithm: String,
    pub key: String,
    pub jwks: String,
    pub issuer: String,
    pub audience: String,
}

/// Errors in the `jwt` section of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum JwtSettingsError {
    #[error("jwt.algorithm {0:?} is not HS256, RS256 or EdDSA")]
    Algorithm(String),
    #[error("jwt.key does not fit jwt.algorithm: {0}")]
    Key(jsonwebtoken::errors::Error),
    #[error("jwt.key does not fit jwt.algorithm: a secret needs 32 characters or more")]
    ShortSecret,
    #[error("jwt.jwks is not a JWKS document: {0}")]
    Document(#[from] serde_json::Error),
    #[error("jwt.jwks holds a key that cannot be used: {0}")]
    KeyOfSet(jsonwebtoken::errors::Error),
    #[error("jwt.jwks holds no key")]
    NoKey,
}

pub struct Merchant {
    /// Each with its key id; a key without an id is tried for every token.
    keys: Vec<(Option<String>, DecodingKey)>,
    validation: Validation,
    secret: Secret,
}

impl std::fmt::Debug for Merchant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merchant").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    #[serde(default)]
    iss: String,
}

/// Set in the ids of merchants' users. Generated ids do not reach this bit before the year 2058.
const MERCHANT_BIT: u64 = 1 << 62;

impl Merchant {
    /// `None` where no algorithm is configured.
    pub fn new(settings: &JwtSettings, secret: &Secret) -> Result<Option<Self>, JwtSettingsError> {
        if settings.algorithm.is_empty() {
            return Ok(None);
        }
        let algorithm = match settings.algorithm.as_str() {
            "HS256" => Algorithm::HS256,
            "RS256" => Algorithm::RS256,
            "EdDSA" => Algorithm::EdDSA,
            other => return Err(JwtSettingsError::Algorithm(other.to_owned())),
        };
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "sub"]);
        // Expiry is checked by the caller, with the program's own clock.
        validation.validate_exp = false;
        validation.validate_aud = !settings.audience.is_empty();
        if !settings.audience.is_empty() {
            validation.set_audience(&[&settings.audience]);
            validation.required_spec_claims.insert("aud".into());
        }
        if !settings.issuer.is_empty() {
            validation.set_issuer(&[&settings.issuer]);
            validation.required_spec_claims.insert("iss".into());
        }
        let keys = if settings.jwks.is_empty() {
            vec![(None, key(algorithm, &settings.key)?)]
        } else {
            let set: JwkSet = serde_json::from_str(&settings.jwks)?;
            set.keys
                .iter()
                .map(|jwk| Ok((jwk.common.key_id.clone(), DecodingKey::from_jwk(jwk)?)))
                .collect::<Result<Vec<_>, _>>()
                .map_err(JwtSettingsError::KeyOfSet)?
        };
        if keys.is_empty() {
            return Err(JwtSettingsError::NoKey);
        }
        Ok(Some(Self { keys, validation, secret: *secret }))
    }

    /// The buyer that a token authenticates, and until when.
    pub(super) fn session(&self, token: &str) -> Option<Session> {
        let wanted = decode_header(token).ok()?.kid;
        let candidates = self.keys.iter().filter(|(id, _)| id.is_none() || wanted.is_none() || *id == wanted);
        let claims = candidates
            .filter_map(|(_, key)| decode::<Claims>(token, key, &self.validation).ok())
            .map(|token| token.claims)
            .next()?;
        let expires_at = Moment::from_millis(claims.exp.checked_mul(1000)?);
        Some(Session { user: self.buyer(&claims), expires_at, slides: false })
    }

    fn buyer(&self, claims: &Claims) -> UserId {
        let length = (claims.iss.len() as u64).to_be_bytes();
        let parts: [&[u8]; 4] = [b"merchant", &length, claims.iss.as_bytes(), claims.sub.as_bytes()];
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&keyed(&self.secret, &parts)[..8]);
        UserId::from_raw(u64::from_be_bytes(bytes) >> 2 | MERCHANT_BIT)
    }
}

fn key(algorithm: Algorithm, text: &str) -> Result<DecodingKey, JwtSettingsError> {
    match algorithm {
        Algorithm::RS256 => DecodingKey::from_rsa_pem(text.as_bytes()).map_err(JwtSettingsError::Key),
        Algorithm::EdDSA => DecodingKey::from_ed_pem(text.as_bytes()).map_err(JwtSettingsError::Key),
        _ if text.len() < 32 => Err(JwtSettingsError::ShortSecret),
        _ => Ok(DecodingKey::from_secret(text.as_bytes())),
    }
}
