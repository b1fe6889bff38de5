//! How a one-time code reaches its owner. Codes are never logged.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::chance::{self, digest, keyed};
use crate::clock::Clock;
use crate::config::{self, SmsKind};
use crate::courier::{Courier, Reach};

/// Calls to the webhook at a time; codes beyond that are not sent, and their owners ask again.
const MAX_SENDING: usize = 64;
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// A closed set: each variant is one way of sending.
#[derive(Clone, Debug)]
pub enum Sms {
    /// Notes that a code was sent, for development.
    Log,
    /// Hands number and code to the merchant's own sender, signed.
    Webhook(Arc<Webhook>),
}

pub struct Webhook {
    url: String,
    secret: String,
    courier: Courier,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Sms {
    pub fn new(settings: &config::Sms, courier: Courier) -> Self {
        match settings.kind {
            SmsKind::Log => Self::Log,
            SmsKind::Webhook => Self::Webhook(Arc::new(Webhook {
                url: settings.webhook_url.clone(),
                secret: settings.webhook_secret.clone(),
                courier,
                places: Arc::new(Semaphore::new(MAX_SENDING)),
            })),
        }
    }

    /// Sends in the background: an answer must not tell by its time whether anything was sent.
    pub(super) fn send(&self, phone: &str, code: &str) {
        match self {
            Self::Log => tracing::info!(phone = masked(phone), "a one-time code was sent"),
            Self::Webhook(webhook) => {
                let Ok(place) = webhook.places.clone().try_acquire_owned() else {
                    tracing::warn!("too many codes are being sent; one was not");
                    return;
                };
                let (webhook, phone, code) = (webhook.clone(), phone.to_owned(), code.to_owned());
                tokio::spawn(async move {
                    let _place = place;
                    let sent = tokio::time::timeout(SEND_WITHIN, webhook.call(&phone, &code)).await;
                    if let Err(error) = sent.unwrap_or_else(|_| Err(anyhow::anyhow!("it took too long"))) {
                        tracing::warn!(phone = masked(&phone), %error, "a one-time code could not be handed on");
                    }
                });
            }
        }
    }
}

impl Webhook {
    /// `Tidegate-Signature: t=seconds,v1=hex` over `seconds.body`, keyed with the digest of the shared secret.
    async fn call(&self, phone: &str, code: &str) -> anyhow::Result<()> {
        let body = json!({"phone": phone, "code": code}).to_string();
        let at = (Clock::System.now().millis() / 1000).to_string();
        let key = digest(&[self.secret.as_bytes()]);
        let mac = keyed(&key, &[at.as_bytes(), b".", body.as_bytes()]);
        let signature = format!("t={at},v1={}", chance::token("", &mac));
        let headers = [("content-type", "application/json".to_owned()), ("tidegate-signature", signature)];
        let answer = self.courier.post(Reach::Anybody, &self.url, &headers, body).await?;
        anyhow::ensure!((200..300).contains(&answer.status), "the sender answered {}", answer.status);
        Ok(())
    }
}

/// Enough to recognise one's own number, not to know another's.
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
