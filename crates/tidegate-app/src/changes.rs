//! Serialises operators' changes and makes each of them idempotent by its key.

use tidegate_ledger::{IdempotencyRecord, IdempotentRequest};
use tokio::sync::{Mutex, MutexGuard};

use crate::Refusal;
use crate::tables::ChangeTables;

#[derive(Debug)]
pub struct Changes {
    ledger: ChangeTables,
    lock: Mutex<()>,
}

impl Changes {
    pub(crate) fn new(ledger: ChangeTables) -> Self {
        Self { ledger, lock: Mutex::default() }
    }

    /// Held while a change is made, so that this process makes one change at a time.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().await
    }

    /// The record of an earlier request with the same idempotency key, if there is one.
    pub async fn find_earlier(
        &self,
        key: Option<&IdempotentRequest>,
    ) -> Result<Option<IdempotencyRecord>, Refusal> {
        let Some(key) = key else { return Ok(None) };
        match self.ledger.idempotency_keys.get(key.scope, key.key).await? {
            Some(before) if before.fingerprint != key.fingerprint => Err(Refusal::KeyReused),
            before => Ok(before),
        }
    }
}
