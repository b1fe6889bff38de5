//! The connection to Redis or Valkey: a single server, a primary found through sentinels, or a cluster.

mod reconnecting;
mod sentinel;

use std::time::Duration;

use redis::aio::{ConnectionLike, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, Cmd, ConnectionInfo, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    RedisFuture, RedisResult, Value,
};

pub use self::reconnecting::Reconnecting;
use self::reconnecting::{CONNECT_TIMEOUT, RESPONSE_TIMEOUT, Server};
use self::sentinel::Sentinels;

/// The oldest supported major version. Valkey reports the Redis version it is compatible with.
const MIN_VERSION: u32 = 7;
/// How long TCP waits for acknowledgements; and, on an idle connection, how soon and how often it asks for one.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_AFTER: Duration = Duration::from_secs(2);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;

/// Reconnects by itself.
#[derive(Clone)]
pub enum Link {
    /// A single server, or the primary that sentinels name.
    One(Reconnecting),
    Cluster(Reconnecting),
}

const SENTINEL_SCHEME: &str = "redis+sentinel://";

fn split_urls(urls: &str) -> Vec<&str> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect()
}

/// Both ends of a connection may vanish without a word.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_PROBES);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(TCP_USER_TIMEOUT)
}

fn with_tcp_settings(url: &str) -> RedisResult<ConnectionInfo> {
    Ok(url.into_connection_info()?.set_tcp_settings(tcp_settings()))
}

impl Link {
    /// `redis://host:port` for a single server, several of these separated by commas for a cluster, or
    /// `redis+sentinel://host:port,host:port/name` for the primary that the sentinels know by this name.
    pub async fn open(urls: &str) -> RedisResult<Self> {
        if let Some(sentinels) = urls.strip_prefix(SENTINEL_SCHEME) {
            let sentinels = Sentinels::parse(sentinels, tcp_settings())?;
            return Ok(Self::One(Reconnecting::open(Server::Sentinels(sentinels)).await?));
        }
        let nodes = split_urls(urls);
        if let [one] = nodes[..] {
            let client = Client::open(with_tcp_settings(one)?)?;
            return Ok(Self::One(Reconnecting::open(Server::One(client)).await?));
        }
        let client = ClusterClientBuilder::new(nodes)
            .response_timeout(RESPONSE_TIMEOUT)
            .connection_timeout(CONNECT_TIMEOUT)
            .tcp_settings(tcp_settings())
            .build()?;
        Ok(Self::Cluster(Reconnecting::open(Server::Cluster(client)).await?))
    }

    fn connection(&self) -> &Reconnecting {
        match self {
            Self::One(connection) | Self::Cluster(connection) => connection,
        }
    }

    /// A connection for publish/subscribe. With several servers, `attempt` chooses one in turn.
    pub async fn pubsub(&self, urls: &str, attempt: usize) -> RedisResult<PubSub> {
        let open = async {
            let client = match self.connection().server() {
                Server::Sentinels(sentinels) => sentinels.find_primary().await?,
                Server::One(client) => client.clone(),
                Server::Cluster(_) => {
                    let urls = split_urls(urls);
                    Client::open(with_tcp_settings(urls[attempt % urls.len().max(1)])?)?
                }
            };
            client.get_async_pubsub().await
        };
        let late = |_| Err(RedisError::from((ErrorKind::Io, "no connection for messages in time")));
        tokio::time::timeout(RESPONSE_TIMEOUT, open).await.unwrap_or_else(late)
    }

    /// Whether the server answers within a second. While it is silent, all other commands fail at once.
    pub async fn ping(&self) -> RedisResult<()> {
        self.connection().ping().await
    }

    /// An error if a server is older than the minimum version.
    pub async fn check_version(&self) -> RedisResult<()> {
        let reply: Value = redis::cmd("INFO").arg("server").query_async(&mut self.clone()).await?;
        let old = versions(&reply).into_iter().find(|version| version.0 < MIN_VERSION);
        old.map_or(Ok(()), |(_, version)| {
            Err((ErrorKind::Client, "the server is too old: version 7.0 or newer is required", version)
                .into())
        })
    }
}

/// The versions in a reply to INFO. A cluster replies with one INFO per server.
fn versions(reply: &Value) -> Vec<(u32, String)> {
    match reply {
        Value::Map(pairs) => pairs.iter().flat_map(|(_, value)| versions(value)).collect(),
        Value::Array(values) => values.iter().flat_map(versions).collect(),
        other => {
            let text = String::from_redis_value_ref(other).unwrap_or_default();
            let version = text.lines().find_map(|line| line.strip_prefix("redis_version:"));
            let version = version.map(|version| version.trim().to_owned());
            let major = |version: &String| version.split('.').next().and_then(|major| major.parse().ok());
            version.and_then(|version| Some((major(&version)?, version))).into_iter().collect()
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "Link::One",
            Self::Cluster(_) => "Link::Cluster",
        })
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.connection().send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.connection().send_pipeline(pipeline, offset, count))
    }

    fn get_db(&self) -> i64 {
        self.connection().get_db()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_the_answers_of_one_server_and_of_many() {
        let info =
            |version: &str| Value::BulkString(format!("# Server\r\nredis_version:{version}\r\n").into());
        assert_eq!(versions(&info("7.0.15")), [(7, "7.0.15".to_owned())]);
        let many = Value::Map(vec![(Value::Nil, info("7.2.4")), (Value::Nil, info("6.2.1"))]);
        assert_eq!(versions(&many).iter().map(|(major, _)| *major).collect::<Vec<_>>(), [7, 6]);
        assert_eq!(versions(&Value::Nil), []);
    }
}
