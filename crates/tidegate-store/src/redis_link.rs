//! The link to Redis or Valkey: one server, a primary that sentinels name, or a cluster, behind the same calls.

mod followed;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisFuture, RedisResult, Value};
use std::time::Duration;

use self::followed::Followed;

/// The oldest major version that is known to do. Valkey says which Redis it is like.
const OLDEST: u32 = 7;
/// How long a call may take before it is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Opened again by itself when it breaks.
#[derive(Clone)]
pub enum Link {
    One(ConnectionManager),
    Followed(Followed),
    Cluster(ClusterConnection),
}

const SENTINELS: &str = "redis+sentinel://";

fn listed(urls: &str) -> Vec<&str> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect()
}

impl Link {
    /// `redis://host:port` for one server; several, with commas, for a cluster; `redis+sentinel://host:port,host:port/name`
    /// for the primary that sentinels call by this name.
    pub async fn open(urls: &str) -> RedisResult<Self> {
        if let Some(sentinels) = urls.strip_prefix(SENTINELS) {
            return Ok(Self::Followed(Followed::parse(sentinels)?));
        }
        let nodes = listed(urls);
        if let [one] = nodes[..] {
            let config = ConnectionManagerConfig::new()
                // Whoever calls asks again; a server that is back is found at once.
                .set_number_of_retries(1)
                .set_max_delay(Duration::from_millis(200))
                .set_response_timeout(Some(ANSWER_WITHIN))
                .set_connection_timeout(Some(CONNECT_WITHIN));
            return Ok(Self::One(ConnectionManager::new_with_config(Client::open(one)?, config).await?));
        }
        let client = ClusterClientBuilder::new(nodes)
            .response_timeout(ANSWER_WITHIN)
            .connection_timeout(CONNECT_WITHIN)
            .build()?;
        Ok(Self::Cluster(client.get_async_connection().await?))
    }

    /// Listens to messages, on the `at`-th of several servers.
    pub async fn listener(&self, urls: &str, at: usize) -> RedisResult<PubSub> {
        let client = match self {
            Self::Followed(followed) => followed.client().await?,
            Self::One(_) | Self::Cluster(_) => {
                let urls = listed(urls);
                Client::open(urls[at % urls.len().max(1)])?
            }
        };
        client.get_async_pubsub().await
    }

    /// Whether the servers answer.
    pub async fn check(&self) -> RedisResult<()> {
        redis::cmd("PING").query_async(&mut self.clone()).await
    }

    /// Whether they are new enough.
    pub async fn check_version(&self) -> RedisResult<()> {
        let said: Value = redis::cmd("INFO").arg("server").query_async(&mut self.clone()).await?;
        let old = versions(&said).into_iter().find(|version| version.0 < OLDEST);
        old.map_or(Ok(()), |(_, version)| {
            Err((ErrorKind::Client, "the server is too old: 7.0 is the first that will do", version).into())
        })
    }
}

/// The versions in an answer to INFO, which a cluster gives for each server.
fn versions(said: &Value) -> Vec<(u32, String)> {
    match said {
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
            Self::Followed(_) => "Link::Followed",
            Self::Cluster(_) => "Link::Cluster",
        })
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(one) => one.req_packed_command(command),
            Self::Followed(followed) => Box::pin(followed.ask(command)),
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
            Self::One(one) => one.req_packed_commands(pipeline, offset, count),
            Self::Followed(followed) => Box::pin(followed.ask_many(pipeline, offset, count)),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(one) => one.get_db(),
            Self::Followed(_) => 0,
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
