//! Sends one-time codes. Codes are never logged.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::digest::{self, digest, keyed};
use crate::outbound_http::{OutboundError, OutboundHttp, Reach};

/// Maximum number of concurrent webhook calls; codes beyond that are not sent, and users have to request another.
const MAX_SENDING: usize = 64;
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Configuration of the sender.
#[derive(Clone, Debug, Deserialize)]
pub struct SmsSettings {
    pub kind: SmsKind,
    pub webhook_url: String,
    pub webhook_secret: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SmsKind {
    Log,
    Webhook,
}

/// A closed set: each variant is one way of sending.
#[derive(Clone, Debug)]
pub enum Sms {
    /// Only logs that a code was sent; for development.
    Log,
    /// Posts number and code, signed, to the merchant's own sender.
    Webhook(Arc<Webhook>),
}

/// Why a code was not handed to the sender.
#[derive(Debug, thiserror::Error)]
enum NotSent {
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error("the sender answered {0}")]
    Refused(u16),
    #[error("the sender took too long")]
    Timeout,
}

pub struct Webhook {
    url: String,
    secret: String,
    outbound: OutboundHttp,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Sms {
    pub fn new(settings: &SmsSettings, outbound: OutboundHttp) -> Self {
        match settings.kind {
            SmsKind::Log => Self::Log,
            SmsKind::Webhook => Self::Webhook(Arc::new(Webhook {
                url: settings.webhook_url.clone(),
                secret: settings.webhook_secret.clone(),
                outbound,
                places: Arc::new(Semaphore::new(MAX_SENDING)),
            })),
        }
    }

    /// Sends in the background, so that the response time does not reveal whether anything was sent.
    pub(super) fn send(&self, phone: &str, code: &str) {
        match self {
            Self::Log => tracing::info!(phone = masked(phone), "a one-time code was sent"),
            Self::Webhook(webhook) => {
                let Ok(place) = webhook.places.clone().try_acquire_owned() else {
                    tracing::warn!("too many codes are being sent; one was dropped");
                    return;
                };
                let (webhook, phone, code) = (webhook.clone(), phone.to_owned(), code.to_owned());
                tokio::spawn(async move {
                    let _place = place;
                    let sent = tokio::time::timeout(SEND_WITHIN, webhook.call(&phone, &code)).await;
                    if let Err(error) = sent.unwrap_or(Err(NotSent::Timeout)) {
                        tracing::warn!(phone = masked(&phone), %error, "could not pass a one-time code to the sender");
                    }
                });
            }
        }
    }
}

impl Webhook {
    /// `Tidegate-Signature: t=seconds,v1=hex` over `seconds.body`, keyed with the digest of the shared secret.
    async fn call(&self, phone: &str, code: &str) -> Result<(), NotSent> {
        let body = json!({"phone": phone, "code": code}).to_string();
        let at = (Clock::System.now().millis() / 1000).to_string();
        let key = digest(&[self.secret.as_bytes()]);
        let mac = keyed(&key, &[at.as_bytes(), b".", body.as_bytes()]);
        let signature = format!("t={at},v1={}", digest::token("", &mac));
        let headers = [("content-type", "application/json".to_owned()), ("tidegate-signature", signature)];
        let answer = self.outbound.post(Reach::Any, &self.url, &headers, body).await?;
        if (200..300).contains(&answer.status) { Ok(()) } else { Err(NotSent::Refused(answer.status)) }
    }
}

/// The last two digits: enough to recognise one's own number, not to learn another's.
fn masked(phone: &str) -> String {
    let keep = phone.len().saturating_sub(2);
    format!("{}{}", "*".repeat(keep), phone.get(keep..).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_masked_but_for_its_end() {
        assert_eq!(masked("+8613800138000"), "************00");
    }
}
