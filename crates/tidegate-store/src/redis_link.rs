//! The link to Redis or Valkey: one server, or a cluster of them, behind the same calls.

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use std::time::Duration;

/// How long a call may take before it is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Opened again by itself when it breaks.
#[derive(Clone)]
pub enum Link {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Link {
    /// `redis://host:port` for one server; several, with commas, for a cluster.
    pub async fn open(urls: &str) -> RedisResult<Self> {
        let nodes: Vec<&str> = urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
        if let [one] = nodes[..] {
            let config = ConnectionManagerConfig::new()
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

    /// Whether the servers answer.
    pub async fn check(&self) -> RedisResult<()> {
        redis::cmd("PING").query_async(&mut self.clone()).await
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
        match self {
            Self::One(one) => one.req_packed_command(command),
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
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(one) => one.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}
