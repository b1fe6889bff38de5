//! Webhooks: receivers of events, signed according to Standard Webhooks. Coupons are requested from the merchant
//! the same way.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::ProblemCode;
use tidegate_core::{Rejection, WebhookId};
use tidegate_ledger::{Actor, DueDelivery, IdempotentRequest, Webhook};

use crate::Refusal;
use crate::changes::Changes;
use crate::context::Context;
use crate::deliveries::{Deliveries, SendOutcome};
use crate::outbound_http::{Answer, OutboundError, OutboundHttp, Reach};
use crate::random;
use crate::signature::signed;
use crate::tables::WebhookTables;

pub const WEBHOOKS_SCOPE: &str = "webhooks";
pub const MAX_WEBHOOKS: usize = 100;
/// Maximum number of events that one replay covers.
const REPLAY_MOST: u32 = 10_000;
/// How long the previous secret still signs after a rotation.
const OLD_SECRET_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Maximum length of a coupon code in characters; the rest is cut off.
const MAX_COUPON: usize = 500;

/// The merchant's endpoint for coupons.
#[derive(Clone)]
pub struct Coupons {
    pub url: String,
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for Coupons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coupons").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Classifies the receiver's answer.
fn judged(answer: Result<Answer, OutboundError>) -> Result<Answer, SendOutcome> {
    let answer = answer.map_err(|error| SendOutcome::Down { why: error.to_string(), retry_after: None })?;
    let why = format!("the receiver answered {}", answer.status);
    match answer.status {
        200..=299 => Ok(answer),
        410 => Err(SendOutcome::Gone),
        300..=399 => Err(SendOutcome::Refused { why: format!("{why}, and redirects are not followed") }),
        408 | 425 | 429 | 500.. => Err(SendOutcome::Down { why, retry_after: answer.retry_after }),
        _ => Err(SendOutcome::Refused { why }),
    }
}

#[derive(Debug)]
pub struct Webhooks {
    pub(crate) context: Arc<Context>,
    pub(crate) ledger: WebhookTables,
    pub(crate) changes: Arc<Changes>,
    pub(crate) outbound: OutboundHttp,
}

impl Webhooks {
    pub async fn create(
        &self,
        url: String,
        events: Vec<String>,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Webhook, Refusal> {
        let _one_at_a_time = self.changes.lock().await;
        if let Some(before) = self.changes.find_earlier(key.as_ref()).await? {
            return self.find(WebhookId::from_raw(before.subject)).await;
        }
        if self.ledger.webhooks.list().await?.len() >= MAX_WEBHOOKS {
            let detail = format!("There are {MAX_WEBHOOKS} webhooks already; delete one first.");
            return Err(Refusal::Conflict { code: ProblemCode::TooMany, detail });
        }
        let now = self.context.now();
        let webhook = Webhook {
            id: WebhookId::from_raw(self.context.next_id(now)),
            url,
            events,
            secret: new_secret()?,
            old_secret: None,
            disabled: None,
            created_at: now,
            updated_at: now,
        };
        self.ledger.webhooks.create(webhook.clone(), by, key).await?;
        Ok(webhook)
    }

    pub async fn list(&self) -> Result<Vec<Webhook>, Refusal> {
        Ok(self.ledger.webhooks.list().await?)
    }

    pub async fn find(&self, id: WebhookId) -> Result<Webhook, Refusal> {
        self.ledger.webhooks.get(id).await?.ok_or_else(|| Rejection::NotFound.into())
    }

    pub async fn delete(&self, id: WebhookId, by: Actor) -> Result<(), Refusal> {
        if !self.ledger.webhooks.delete(id, by, self.context.now()).await? {
            return Err(Rejection::NotFound.into());
        }
        // Nothing is sent there any more; its deliveries are deleted in batches.
        while self.ledger.webhooks.delete_deliveries(id).await? > 0 {}
        Ok(())
    }

    /// Signs with a new secret; for a day, the old one signs as well.
    pub async fn rotate(&self, id: WebhookId, by: Actor) -> Result<Webhook, Refusal> {
        let now = self.context.now();
        self.ledger.webhooks.rotate_secret(id, new_secret()?, now + OLD_SECRET_LIFE, by, now).await?;
        self.find(id).await
    }

    /// Enables a webhook again that was disabled after its receiver answered 410.
    pub async fn enable(&self, id: WebhookId, by: Actor) -> Result<Webhook, Refusal> {
        self.ledger.webhooks.set_disabled(id, None, by, self.context.now()).await?;
        self.find(id).await
    }

    /// Sends the events after number `after` again; returns how many, and the number of the last event covered.
    pub async fn replay_events(&self, id: WebhookId, after: u64, by: Actor) -> Result<(usize, u64), Refusal> {
        if self.find(id).await?.disabled.is_some() {
            let detail = "This webhook is disabled; enable it first.".into();
            return Err(Refusal::Conflict { code: ProblemCode::Disabled, detail });
        }
        Ok(self.ledger.webhooks.replay_events(id, after, by, self.context.now(), REPLAY_MOST).await?)
    }

    /// Checks whether deliveries may be sent to the address; the error is the reason if not.
    pub fn check_address(&self, url: &str) -> Result<(), String> {
        let uri = url.parse().map_err(|_| "must be an address such as https://shop.example/hooks")?;
        self.outbound.check(&uri)
    }
}

impl Deliveries {
    pub(crate) async fn send_event(&self, webhook: &Webhook, due: &DueDelivery) -> SendOutcome {
        let Some(event) = &due.event else {
            return SendOutcome::Unsendable { why: "the event is gone".into() };
        };
        let body = match self.envelope(event, due).await {
            Ok(envelope) => envelope.to_string(),
            Err(refusal) => return unsendable(&refusal),
        };
        let now = self.context.now();
        let mut secrets: Vec<&[u8]> = vec![&webhook.secret];
        if let Some((old, until)) = &webhook.old_secret
            && now < *until
        {
            secrets.push(old);
        }
        let headers = signed(&format!("evt_{}", event.id), now, &body, &secrets);
        match judged(self.outbound.post(Reach::Public, &webhook.url, &headers, body).await) {
            Ok(_) => SendOutcome::Arrived { content: None },
            Err(sent) => sent,
        }
    }

    /// Requests a coupon from the merchant; the `code` in the answer is shown to the winner.
    pub(crate) async fn send_coupon(&self, due: &DueDelivery) -> SendOutcome {
        let Some(coupons) = &self.coupons else {
            return SendOutcome::Down { why: "deliveries.coupon_url is not set".into(), retry_after: None };
        };
        let body = match self.coupon_request(due).await {
            Ok(body) => body.to_string(),
            Err(refusal) => return unsendable(&refusal),
        };
        let id = format!("dlv_{}", self.context.print(due.delivery.id));
        let mut headers = signed(&id, self.context.now(), &body, &[&coupons.secret]);
        headers.push(("idempotency-key", id));
        match judged(self.outbound.post(Reach::Any, &coupons.url, &headers, body).await) {
            Ok(Answer { body: Some(body), .. }) => SendOutcome::Arrived { content: coupon_code(&body) },
            Ok(_) => SendOutcome::Down { why: "the merchant's answer broke off".into(), retry_after: None },
            // The coupon URL comes from our own configuration: a 410 is retried, since the setting can be corrected.
            Err(SendOutcome::Gone) => SendOutcome::Refused { why: "the merchant answered 410".into() },
            Err(sent) => sent,
        }
    }
}

/// The outcome if a message cannot be built: never sent if its subject does not exist, retried if the ledger failed.
fn unsendable(refusal: &Refusal) -> SendOutcome {
    let why = refusal.to_string();
    match refusal {
        Refusal::Rejected(_) => SendOutcome::Unsendable { why },
        _ => SendOutcome::Down { why, retry_after: None },
    }
}

fn coupon_code(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = body["code"].as_str()?;
    Some(code.chars().filter(|letter| !letter.is_control()).take(MAX_COUPON).collect())
}

fn new_secret() -> Result<Vec<u8>, Refusal> {
    Ok(random::secret()?.to_vec())
}
