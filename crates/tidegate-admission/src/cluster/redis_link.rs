//! The connection to Redis or Valkey: a single server, a primary found through sentinels, or a cluster.

mod sentinel;

use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisFuture, RedisResult, Value};

use self::sentinel::SentinelLink;

/// The oldest supported major version. Valkey reports the Redis version it is compatible with.
const MIN_VERSION: u32 = 7;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reconnects by itself.
#[derive(Clone)]
pub enum Link {
    Single(ConnectionManager),
    Sentinel(SentinelLink),
    Cluster(ClusterConnection),
}

const SENTINEL_SCHEME: &str = "redis+sentinel://";

fn split_urls(urls: &str) -> Vec<&str> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect()
}

impl Link {
    /// `redis://host:port` for a single server, several of these separated by commas for a cluster, or
    /// `redis+sentinel://host:port,host:port/name` for the primary that the sentinels know by this name.
    pub async fn open(urls: &str) -> RedisResult<Self> {
        if let Some(sentinels) = urls.strip_prefix(SENTINEL_SCHEME) {
            return Ok(Self::Sentinel(SentinelLink::parse(sentinels)?));
        }
        let nodes = split_urls(urls);
        if let [one] = nodes[..] {
            let config = ConnectionManagerConfig::new()
                // The callers retry by themselves; short delays find a server soon after it is back.
                .set_number_of_retries(1)
                .set_max_delay(Duration::from_millis(200))
                .set_response_timeout(Some(RESPONSE_TIMEOUT))
                .set_connection_timeout(Some(CONNECT_TIMEOUT));
            return Ok(Self::Single(ConnectionManager::new_with_config(Client::open(one)?, config).await?));
        }
        let client = ClusterClientBuilder::new(nodes)
            .response_timeout(RESPONSE_TIMEOUT)
            .connection_timeout(CONNECT_TIMEOUT)
            .build()?;
        Ok(Self::Cluster(client.get_async_connection().await?))
    }

    /// A connection for publish/subscribe. With several servers, `attempt` chooses one in turn.
    pub async fn pubsub(&self, urls: &str, attempt: usize) -> RedisResult<PubSub> {
        let client = match self {
            Self::Sentinel(sentinel) => sentinel.client().await?,
            Self::Single(_) | Self::Cluster(_) => {
                let urls = split_urls(urls);
                Client::open(urls[attempt % urls.len().max(1)])?
            }
        };
        client.get_async_pubsub().await
    }

    pub async fn ping(&self) -> RedisResult<()> {
        redis::cmd("PING").query_async(&mut self.clone()).await
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
            Self::Single(_) => "Link::Single",
            Self::Sentinel(_) => "Link::Sentinel",
            Self::Cluster(_) => "Link::Cluster",
        })
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(single) => single.req_packed_command(command),
            Self::Sentinel(sentinel) => Box::pin(sentinel.send(command)),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(single) => single.req_packed_commands(pipeline, offset, count),
            Self::Sentinel(sentinel) => Box::pin(sentinel.send_pipeline(pipeline, offset, count)),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(single) => single.get_db(),
            Self::Sentinel(_) => 0,
            Self::Cluster(cluster) => cluster.get_db(),
        }
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
