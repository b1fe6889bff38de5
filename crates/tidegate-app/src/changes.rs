//! Operators' changes: one after the other, and each once for its idempotency key.

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

    /// Held while a change is made: no other change of this process happens meanwhile.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().await
    }

    /// What an operator's idempotency key has made before, if anything.
    pub async fn done_before(
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
