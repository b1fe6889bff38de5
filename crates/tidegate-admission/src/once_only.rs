//! Values that may be used once: in memory for one process, on Redis for many nodes.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate_core::Moment;

use crate::cluster::Cluster;
use crate::gate::GateError;

/// Values remembered in memory at most; each is forgotten when it expires.
const MAX_USED: usize = 2_000_000;

pub type Nonce = [u8; 16];

/// Why it is not known whether a value was used before.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OnceError {
    #[error("too many values are remembered")]
    Full,
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// Remembers which values of one kind were used.
#[derive(Clone, Debug)]
pub struct OnceOnly {
    /// What the values are, in the names of the keys on Redis.
    kind: &'static str,
    engine: Engine,
}

#[derive(Clone, Debug)]
enum Engine {
    Memory(Arc<Mutex<HashMap<Nonce, Moment>>>),
    Shared(Cluster),
}

impl OnceOnly {
    /// For one process, or for tests.
    pub fn memory(kind: &'static str) -> Self {
        Self { kind, engine: Engine::Memory(Arc::default()) }
    }

    pub(crate) fn shared(kind: &'static str, cluster: Cluster) -> Self {
        Self { kind, engine: Engine::Shared(cluster) }
    }

    /// Uses the value; `false` if it was used before. It is remembered until it expires.
    pub async fn take(&self, nonce: Nonce, expires_at: Moment, now: Moment) -> Result<bool, OnceError> {
        match &self.engine {
            Engine::Shared(cluster) => Ok(cluster.set_once(&self.name(nonce), now.until(expires_at)).await?),
            Engine::Memory(used) => {
                let mut used = used.lock();
                if used.len() >= MAX_USED {
                    used.retain(|_, expires_at| *expires_at > now);
                    if used.len() >= MAX_USED {
                        return Err(OnceError::Full);
                    }
                }
                Ok(used.insert(nonce, expires_at).is_none())
            }
        }
    }

    /// The value may be used again.
    pub async fn give_back(&self, nonce: Nonce) {
        match &self.engine {
            Engine::Shared(cluster) => {
                if let Err(error) = cluster.clear_once(&self.name(nonce)).await {
                    tracing::debug!(%error, kind = self.kind, "a one-time value could not be given back");
                }
            }
            Engine::Memory(used) => {
                used.lock().remove(&nonce);
            }
        }
    }

    /// Forgets values that have expired; Redis does so by itself.
    pub fn forget_expired(&self, now: Moment) {
        if let Engine::Memory(used) = &self.engine {
            used.lock().retain(|_, expires_at| *expires_at > now);
        }
    }

    fn name(&self, nonce: Nonce) -> String {
        use std::fmt::Write;
        nonce.iter().fold(format!("{}:", self.kind), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
