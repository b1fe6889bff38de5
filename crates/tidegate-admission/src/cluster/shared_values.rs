//! Values that all nodes share: once-only names and counters, each with an expiry. One Redis string per name.

use std::time::Duration;

use super::Cluster;
use crate::gate::GateError;

impl Cluster {
    /// Sets a name for `ttl`; `false` if it was set already.
    pub async fn set_once(&self, name: &str, ttl: Duration) -> Result<bool, GateError> {
        let mut command = redis::cmd("SET");
        command.arg(self.key(name)).arg(1).arg("NX").arg("PX").arg(millis(ttl));
        let set: Option<String> = command.query_async(&mut self.link()).await.map_err(GateError::from)?;
        Ok(set.is_some())
    }

    pub async fn clear_once(&self, name: &str) -> Result<(), GateError> {
        Ok(redis::cmd("DEL").arg(self.key(name)).query_async(&mut self.link()).await?)
    }

    /// Increments a counter that expires `ttl` after its first increment.
    pub async fn increment(&self, name: &str, ttl: Duration) -> Result<u64, GateError> {
        let key = self.key(name);
        let (count, _): (u64, i64) = redis::pipe()
            .incr(&key, 1)
            .cmd("PEXPIRE")
            .arg(&key)
            .arg(millis(ttl))
            .arg("NX")
            .query_async(&mut self.link())
            .await
            .map_err(GateError::from)?;
        Ok(count)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.0.options.prefix)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}
