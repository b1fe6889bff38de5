//! API keys: with one a machine acts as an operator, in the key's name and role.
//!
//! What always holds: a key's secret is shown once, when it is made, and follows from nothing that is kept. One that
//! is revoked works here no more from that moment on, and on other nodes for at most `LOOK_AGAIN`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_core::{ApiKeyId, Moment, Rejection, Role};
use tidegate_ledger::IdempotentRequest;
use tidegate_ledger::{ApiKey, CreateOutcome};

use super::accounts::{check_name, made};
use super::{OperatorIdentity, Operators};
use crate::Refusal;
use crate::digest::{self, Secret, digest};
use crate::random;

pub const KEYS_SCOPE: &str = "api_keys";
/// Keys that work at a time.
pub const MAX_KEYS: u32 = 500;
/// Keys in a list; those that work all fit.
pub const MAX_LISTED: u32 = 1000;
/// What API keys begin with.
pub(super) const PREFIX: &str = "tk_";
/// How long a revoked key can be looked at.
pub(super) const KEEP_REVOKED: Duration = Duration::from_secs(90 * 24 * 3600);
/// A key that is at hand is looked up again after this: another node may have revoked it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Using a key is noted no more often than this.
const NOTE_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Known {
    key: ApiKey,
    looked: Instant,
}

/// Keys at hand.
#[derive(Debug)]
pub(super) struct KnownKeys {
    known: Cache<Secret, Known>,
    /// How many were revoked here.
    revoked: AtomicU64,
}

impl Default for KnownKeys {
    fn default() -> Self {
        Self { known: Cache::new(MAX_KEYS as usize), revoked: AtomicU64::new(0) }
    }
}

impl KnownKeys {
    fn find(&self, digest: &Secret) -> Option<ApiKey> {
        self.known.get(digest).filter(|known| known.looked.elapsed() < LOOK_AGAIN).map(|known| known.key)
    }

    /// Takes note of a key that was looked up when so many were revoked.
    fn learn(&self, digest: Secret, key: ApiKey, revoked: u64) {
        self.known.insert(digest, Known { key, looked: Instant::now() });
        // This key may be among those revoked since.
        if self.revoked.load(Ordering::SeqCst) != revoked {
            self.known.remove(&digest);
        }
    }

    fn forget(&self, digest: &Secret) {
        self.revoked.fetch_add(1, Ordering::SeqCst);
        self.known.remove(digest);
    }

    /// Notes a use; says whether the last one noted was long enough ago to write this one down.
    fn used(&self, digest: &Secret, key: &ApiKey, now: Moment) -> bool {
        if key.last_used_at.is_some_and(|last| now < last + NOTE_EVERY) {
            return false;
        }
        if let Some(known) = self.known.get(digest) {
            let key = ApiKey { last_used_at: Some(now), ..known.key };
            // Only if it is still there: one that was revoked meanwhile stays forgotten.
            let _ = self.known.replace(*digest, Known { key, looked: known.looked }, false);
        }
        true
    }
}

impl Operators {
    pub(super) async fn by_api_key(&self, key: &str) -> Result<OperatorIdentity, Refusal> {
        let digest = digest(&[key.as_bytes()]);
        let keys = &self.keys;
        let key = match keys.find(&digest) {
            Some(key) => key,
            None => {
                let revoked = keys.revoked.load(Ordering::SeqCst);
                let found =
                    self.ledger.api_keys.active_by_digest(digest).await?.ok_or(Rejection::Unauthenticated)?;
                keys.learn(digest, found.clone(), revoked);
                found
            }
        };
        let now = self.context.now();
        if keys.used(&digest, &key, now) {
            let (ledger, id) = (self.ledger.clone(), key.id);
            tokio::spawn(async move {
                if let Err(error) = ledger.api_keys.set_last_used(id, now).await {
                    tracing::warn!(%error, "the use of an API key could not be noted");
                }
            });
        }
        Ok(OperatorIdentity { name: Some(format!("key:{}", key.name)), role: key.role })
    }

    /// Makes a key; gives it with its secret, which is shown here and never again. A repetition of the request gives
    /// the key without its secret.
    pub async fn create_api_key(
        &self,
        by: &OperatorIdentity,
        name: String,
        role: Role,
        request: Option<IdempotentRequest>,
    ) -> Result<(ApiKey, Option<String>), Refusal> {
        by.may(Role::Admin)?;
        check_name(&name)?;
        if let Some(before) = self.made_before(request.as_ref()).await? {
            return Ok((before, None));
        }
        let secret = random::secret()?;
        let secret = digest::token(PREFIX, &secret);
        let now = self.context.now();
        let key = ApiKey {
            id: ApiKeyId::from_raw(self.context.next_id(now)),
            name,
            role,
            created_at: now,
            created_by: by.actor().to_string(),
            revoked_at: None,
            last_used_at: None,
        };
        let kept = digest(&[secret.as_bytes()]);
        let asked = request.clone();
        let done = self.ledger.api_keys.create(key.clone(), kept, MAX_KEYS, by.actor(), asked).await?;
        // The same request may have been carried out meanwhile.
        if done != CreateOutcome::Created
            && let Some(before) = self.made_before(request.as_ref()).await?
        {
            return Ok((before, None));
        }
        made(done, "API key", MAX_KEYS)?;
        Ok((key, Some(secret)))
    }

    /// The key that this request has made, if it was carried out before.
    async fn made_before(&self, request: Option<&IdempotentRequest>) -> Result<Option<ApiKey>, Refusal> {
        let Some(before) = self.changes.done_before(request).await? else { return Ok(None) };
        let key = self.ledger.api_keys.get(ApiKeyId::from_raw(before.subject)).await?;
        Ok(Some(key.ok_or(Rejection::NotFound)?))
    }

    /// Those that work first, then those that were revoked; newest first.
    pub async fn api_keys(&self) -> Result<Vec<ApiKey>, Refusal> {
        Ok(self.ledger.api_keys.list(MAX_LISTED).await?)
    }

    pub async fn revoke_api_key(&self, by: &OperatorIdentity, id: ApiKeyId) -> Result<(), Refusal> {
        by.may(Role::Admin)?;
        let revoked = self.ledger.api_keys.revoke(id, by.actor(), self.context.now()).await?;
        self.keys.forget(&revoked.ok_or(Rejection::NotFound)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_millis(1_777_629_600_000);

    fn key(last_used_at: Option<Moment>) -> ApiKey {
        ApiKey {
            id: ApiKeyId::from_raw(1),
            name: "deploy".into(),
            role: Role::Viewer,
            created_at: NOW,
            created_by: "operator".into(),
            revoked_at: None,
            last_used_at,
        }
    }

    #[test]
    fn a_key_that_was_revoked_while_it_was_looked_up_is_not_learnt() {
        let keys = KnownKeys::default();
        keys.learn([1; 32], key(None), 0);
        assert!(keys.find(&[1; 32]).is_some());
        keys.forget(&[1; 32]);
        assert!(keys.find(&[1; 32]).is_none());
        keys.learn([1; 32], key(None), 0);
        assert!(keys.find(&[1; 32]).is_none(), "it was read before it was revoked");
        keys.learn([1; 32], key(None), 1);
        assert!(keys.find(&[1; 32]).is_some());
    }

    #[test]
    fn uses_are_noted_once_a_minute() {
        let keys = KnownKeys::default();
        keys.learn([1; 32], key(None), 0);
        let used = |seconds| {
            let known = keys.find(&[1; 32]).unwrap();
            keys.used(&[1; 32], &known, NOW + Duration::from_secs(seconds))
        };
        assert_eq!([0, 1, 59, 60, 61].map(used), [true, false, false, true, false]);
    }
}
