//! The primary that sentinels name: found again whenever the one in use breaks or is primary no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult,
    Value,
};

use super::{ANSWER_WITHIN, CONNECT_WITHIN};

/// Shared by all who use the link.
#[derive(Clone)]
pub struct Followed(Arc<Inner>);

struct Inner {
    sentinels: tokio::sync::Mutex<SentinelClient>,
    /// The connection in use, with its number.
    current: Mutex<Option<(u64, MultiplexedConnection)>>,
    numbers: AtomicU64,
}

impl std::fmt::Debug for Followed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Followed(..)")
    }
}

impl Followed {
    /// `redis+sentinel://host:26379,host:26379/name`, without its scheme; with `user:password@` in front for the primary.
    pub(super) fn parse(rest: &str) -> RedisResult<Self> {
        let wrong = || {
            RedisError::from((
                ErrorKind::InvalidClientConfig,
                "sentinels are named as host:port,host:port/name",
            ))
        };
        let (hosts, name) = rest.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(wrong)?;
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
            numbers: AtomicU64::new(0),
        })))
    }

    /// The primary, as a client of its own.
    pub(super) async fn client(&self) -> RedisResult<Client> {
        self.0.sentinels.lock().await.async_get_client().await
    }

    async fn connection(&self) -> RedisResult<(u64, MultiplexedConnection)> {
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        let mut sentinels = self.0.sentinels.lock().await;
        // Whoever waited for the sentinels finds what the first one found.
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let connection = sentinels.get_async_connection_with_config(&config).await?;
        let current = (self.0.numbers.fetch_add(1, Ordering::Relaxed), connection);
        *self.0.current.lock() = Some(current.clone());
        Ok(current)
    }

    /// After an answer that only a broken connection or a server that is no primary gives, the next call asks the sentinels.
    fn heard<T>(&self, number: u64, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer {
            let deposed = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "NOREPLICAS"));
            let mut current = self.0.current.lock();
            if (deposed || error.is_io_error() || error.is_timeout() || error.is_connection_dropped())
                && current.as_ref().is_some_and(|(used, _)| *used == number)
            {
                *current = None;
            }
        }
        answer
    }

    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let (number, mut connection) = self.connection().await?;
        let answer = connection.req_packed_command(command).await;
        self.heard(number, answer)
    }

    pub(super) async fn ask_many(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (number, mut connection) = self.connection().await?;
        let answer = connection.req_packed_commands(pipeline, offset, count).await;
        self.heard(number, answer)
    }
}
