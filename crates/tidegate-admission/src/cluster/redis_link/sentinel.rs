//! The primary found through sentinels; looked up again when the connection breaks or the server is no longer primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    Value,
};

use super::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT};

/// All clones share one connection.
#[derive(Clone)]
pub struct SentinelLink(Arc<Inner>);

struct Inner {
    sentinels: tokio::sync::Mutex<SentinelClient>,
    /// The connection in use with its number, so that a late error does not drop a newer connection.
    current: Mutex<Option<(u64, MultiplexedConnection)>>,
    next_number: AtomicU64,
}

impl std::fmt::Debug for SentinelLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SentinelLink(..)")
    }
}

impl SentinelLink {
    /// Parses `host:26379,host:26379/name`, optionally preceded by `user:password@` for the primary.
    pub(super) fn parse(rest: &str) -> RedisResult<Self> {
        let invalid = || {
            RedisError::from((
                ErrorKind::InvalidClientConfig,
                "a sentinel URL must have the form redis+sentinel://host:port,host:port/name",
            ))
        };
        let (hosts, name) = rest.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(invalid)?;
        let (login, hosts) =
            hosts.rsplit_once('@').map_or((None, hosts), |(login, hosts)| (Some(login), hosts));
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            let info = RedisConnectionInfo::default().set_password(password);
            let info = if user.is_empty() { info } else { info.set_username(user) };
            SentinelNodeConnectionInfo::default().set_redis_connection_info(info)
        });
        let hosts: Vec<String> = hosts.split(',').map(|host| format!("redis://{}", host.trim())).collect();
        let sentinels = SentinelClient::build(hosts, name.to_owned(), login, SentinelServerType::Master)?;
        Ok(Self(Arc::new(Inner {
            sentinels: tokio::sync::Mutex::new(sentinels),
            current: Mutex::new(None),
            next_number: AtomicU64::new(0),
        })))
    }

    /// A new client of the primary.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        self.0.sentinels.lock().await.async_get_client().await
    }

    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        let mut sentinels = self.0.sentinels.lock().await;
        // Another task may have connected while this one waited for the lock.
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = sentinels.get_async_connection_with_config(&config).await?;
        let current = (self.0.next_number.fetch_add(1, Ordering::Relaxed), connection);
        *self.0.current.lock() = Some(current.clone());
        Ok(current)
    }

    /// Drops the connection after an error that a broken connection or a demoted primary causes: the next command
    /// asks the sentinels again.
    fn check<T>(&self, number: u64, reply: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &reply {
            let is_demoted =
                matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "NOREPLICAS"));
            let mut current = self.0.current.lock();
            if (is_demoted || error.is_io_error() || error.is_timeout() || error.is_connection_dropped())
                && current.as_ref().is_some_and(|(used, _)| *used == number)
            {
                *current = None;
            }
        }
        reply
    }

    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let (number, mut connection) = self.connection().await?;
        let reply = connection.req_packed_command(command).await;
        self.check(number, reply)
    }

    pub(super) async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (number, mut connection) = self.connection().await?;
        let reply = connection.req_packed_commands(pipeline, offset, count).await;
        self.check(number, reply)
    }
}
