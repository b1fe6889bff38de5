//! The newest event of the ledger that any node has seen, kept on Redis: a ledger that ends before it has lost changes.

use super::Cluster;
use super::redis_link::Link;
use crate::gate::GateError;

/// A sorted set with one member, because Redis raises a score atomically.
const NAME: &str = "newest_event";

#[derive(Clone, Debug)]
pub struct NewestEvent {
    link: Link,
    key: String,
}

impl NewestEvent {
    pub fn new(link: Link, prefix: &str) -> Self {
        Self { link, key: format!("{prefix}{NAME}") }
    }

    /// Its number; 0 if Redis does not know it.
    pub async fn get(&self) -> Result<u64, GateError> {
        let mut command = redis::cmd("ZSCORE");
        command.arg(&self.key).arg(NAME);
        let score: Option<f64> = command.query_async(&mut self.link.clone()).await?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of events, exact up to 2^53"
        )]
        Ok(score.unwrap_or(0.0) as u64)
    }

    /// Raises the number; never lowers it.
    pub async fn raise_to(&self, number: u64) -> Result<(), GateError> {
        let mut command = redis::cmd("ZADD");
        command.arg(&self.key).arg("GT").arg(number).arg(NAME);
        Ok(command.query_async(&mut self.link.clone()).await?)
    }

    /// Sets the number back to where the ledger ends, once an operator has accepted the loss.
    pub async fn reset_to(&self, number: u64) -> Result<(), GateError> {
        let mut command = redis::cmd("ZADD");
        command.arg(&self.key).arg(number).arg(NAME);
        Ok(command.query_async(&mut self.link.clone()).await?)
    }
}

impl Cluster {
    pub fn newest_event(&self) -> NewestEvent {
        NewestEvent::new(self.link(), &self.0.options.prefix)
    }
}
