//! Password hashing with Argon2, a few at a time, so that logins cannot starve orders.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tidegate_core::Rejection;
use tokio::sync::Semaphore;

use crate::Refusal;

/// How long a login waits for a hashing slot.
const HASH_WAIT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Passwords {
    slots: Arc<Semaphore>,
    /// Dummy hash that passwords for unknown numbers and names are checked against, so that the answer takes as long.
    dummy_hash: String,
}

impl Passwords {
    pub(crate) fn new(at_once: usize) -> Self {
        let dummy_hash =
            Argon2::default().hash_password(b"nobody").map(|hash| hash.to_string()).unwrap_or_default();
        Self { slots: Arc::new(Semaphore::new(at_once)), dummy_hash }
    }

    /// A second instance with its own slots.
    pub(crate) fn with_own_slots(&self, at_once: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(at_once)), dummy_hash: self.dummy_hash.clone() }
    }

    async fn with_slot<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let waiting = tokio::time::timeout(HASH_WAIT, self.slots.clone().acquire_owned());
        let Ok(Ok(slot)) = waiting.await else { return Err(Rejection::Busy.into()) };
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            work()
        });
        done.await.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    pub(crate) async fn hash(&self, password: String) -> Result<String, Refusal> {
        let hash = self.with_slot(move || {
            Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string())
        });
        hash.await?.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    pub(crate) async fn matches(&self, password: String, hash: Option<&str>) -> Result<bool, Refusal> {
        let (known, hash) = (hash.is_some(), hash.unwrap_or(&self.dummy_hash).to_owned());
        let right = self.with_slot(move || {
            PasswordHash::new(&hash)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
        });
        Ok(right.await? && known)
    }
}
