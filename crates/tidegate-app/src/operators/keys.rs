//! API keys: a program acts as an operator, with the key's name and role.
//!
//! Invariants: a key's secret is shown once, on creation, and cannot be derived from what is stored. A revoked key
//! stops working at once on this node, and within `RECHECK_AFTER` on other nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_core::{ApiKeyId, Moment, Rejection, Role};
use tidegate_ledger::IdempotentRequest;
use tidegate_ledger::{ApiKey, CreateOutcome};

use super::accounts::{check_name, refuse_unless_created};
use super::{OperatorIdentity, Operators};
use crate::Refusal;
use crate::digest::{self, Secret, digest};
use crate::random;

pub const KEYS_SCOPE: &str = "api_keys";
/// Maximum number of active keys.
pub const MAX_KEYS: u32 = 500;
/// Maximum number of listed keys; all active ones fit.
pub const MAX_LISTED: u32 = 1000;
/// Prefix of API keys.
pub(super) const PREFIX: &str = "tk_";
/// How long a revoked key is kept.
pub(super) const KEEP_REVOKED: Duration = Duration::from_secs(90 * 24 * 3600);
/// A cached key is looked up again after this, because another node may have revoked it.
const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// Minimum interval between updates of a key's last use.
const NOTE_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct CachedKey {
    key: ApiKey,
    looked: Instant,
}

/// Cache of active keys.
#[derive(Debug)]
pub(super) struct ApiKeyCache {
    known: Cache<Secret, CachedKey>,
    /// Number of keys revoked by this process.
    revoked: AtomicU64,
}

impl Default for ApiKeyCache {
    fn default() -> Self {
        Self { known: Cache::new(MAX_KEYS as usize), revoked: AtomicU64::new(0) }
    }
}

impl ApiKeyCache {
    fn find(&self, digest: &Secret) -> Option<ApiKey> {
        self.known.get(digest).filter(|known| known.looked.elapsed() < RECHECK_AFTER).map(|known| known.key)
    }

    /// Caches a key. `revoked` is the number of revoked keys before the key was looked up.
    fn insert(&self, digest: Secret, key: ApiKey, revoked: u64) {
        self.known.insert(digest, CachedKey { key, looked: Instant::now() });
        // This key may be among those revoked since.
        if self.revoked.load(Ordering::SeqCst) != revoked {
            self.known.remove(&digest);
        }
    }

    fn forget(&self, digest: &Secret) {
        self.revoked.fetch_add(1, Ordering::SeqCst);
        self.known.remove(digest);
    }

    /// Notes a use; returns whether it must be written to the ledger, at most once per `NOTE_EVERY`.
    fn used(&self, digest: &Secret, key: &ApiKey, now: Moment) -> bool {
        if key.last_used_at.is_some_and(|last| now < last + NOTE_EVERY) {
            return false;
        }
        if let Some(known) = self.known.get(digest) {
            let key = ApiKey { last_used_at: Some(now), ..known.key };
            // `replace` does not insert: a key that was revoked meanwhile stays out of the cache.
            let _ = self.known.replace(*digest, CachedKey { key, looked: known.looked }, false);
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
                keys.insert(digest, found.clone(), revoked);
                found
            }
        };
        let now = self.context.now();
        if keys.used(&digest, &key, now) {
            let (ledger, id) = (self.ledger.clone(), key.id);
            tokio::spawn(async move {
                if let Err(error) = ledger.api_keys.set_last_used(id, now).await {
                    tracing::warn!(%error, "could not record the use of an API key");
                }
            });
        }
        Ok(OperatorIdentity { name: Some(format!("key:{}", key.name)), role: key.role })
    }

    /// Creates a key and returns it with its secret, which is never shown again. A repeated request returns the key
    /// without its secret.
    pub async fn create_api_key(
        &self,
        by: &OperatorIdentity,
        name: String,
        role: Role,
        request: Option<IdempotentRequest>,
    ) -> Result<(ApiKey, Option<String>), Refusal> {
        by.may(Role::Admin)?;
        check_name(&name)?;
        if let Some(before) = self.created_earlier(request.as_ref()).await? {
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
        // A concurrent request with the same idempotency key may have created it.
        if done != CreateOutcome::Created
            && let Some(before) = self.created_earlier(request.as_ref()).await?
        {
            return Ok((before, None));
        }
        refuse_unless_created(done, "API key", MAX_KEYS)?;
        Ok((key, Some(secret)))
    }

    /// The API key that an earlier request with the same idempotency key created, if any.
    async fn created_earlier(&self, request: Option<&IdempotentRequest>) -> Result<Option<ApiKey>, Refusal> {
        let Some(before) = self.changes.find_earlier(request).await? else { return Ok(None) };
        let key = self.ledger.api_keys.get(ApiKeyId::from_raw(before.subject)).await?;
        Ok(Some(key.ok_or(Rejection::NotFound)?))
    }

    /// Active keys first, then revoked ones; newest first.
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
        let keys = ApiKeyCache::default();
        keys.insert([1; 32], key(None), 0);
        assert!(keys.find(&[1; 32]).is_some());
        keys.forget(&[1; 32]);
        assert!(keys.find(&[1; 32]).is_none());
        keys.insert([1; 32], key(None), 0);
        assert!(keys.find(&[1; 32]).is_none(), "it was read before it was revoked");
        keys.insert([1; 32], key(None), 1);
        assert!(keys.find(&[1; 32]).is_some());
    }

    #[test]
    fn uses_are_noted_once_a_minute() {
        let keys = ApiKeyCache::default();
        keys.insert([1; 32], key(None), 0);
        let used = |seconds| {
            let known = keys.find(&[1; 32]).unwrap();
            keys.used(&[1; 32], &known, NOW + Duration::from_secs(seconds))
        };
        assert_eq!([0, 1, 59, 60, 61].map(used), [true, false, false, true, false]);
    }
}
