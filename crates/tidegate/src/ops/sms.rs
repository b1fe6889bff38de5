//! How a one-time code reaches its owner. Codes are never logged.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::chance::{self, digest, keyed};
use crate::client::Client;
use crate::clock::Clock;
use crate::config::{self, SmsKind};

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
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Sms {
    pub fn new(settings: &config::Sms) -> Self {
        match settings.kind {
            SmsKind::Log => Self::Log,
            SmsKind::Webhook => Self::Webhook(Arc::new(Webhook {
                url: settings.webhook_url.clone(),
                secret: settings.webhook_secret.clone(),
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
        let (host, path) = split(&self.url);
        let request = hyper::Request::post(path)
            .header("host", host)
            .header("content-type", "application/json")
            .header("tidegate-signature", signature)
            .body(http_body_util::Full::new(body.into()))?;
        let answer = Client::new(&format!("http://{host}"), None)?.exchange(request).await?;
        anyhow::ensure!((200..300).contains(&answer.status), "the sender answered {}", answer.status);
        Ok(())
    }
}

/// Host and path of an http address.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.find('/').map_or((rest, "/"), |at| (&rest[..at], &rest[at..]))
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
        assert_eq!(split("http://a:1/b/c"), ("a:1", "/b/c"));
        assert_eq!(split("http://a:1"), ("a:1", "/"));
    }
}
