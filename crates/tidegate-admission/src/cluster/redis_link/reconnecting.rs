//! A connection that is replaced when it breaks or falls silent. All clones share it.
//!
//! Invariants: every command has a deadline; a connection on which one was missed is not used again, and whatever
//! waits for it fails at once. While the server is known to be silent, commands fail without being sent: only `ping`
//! tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value, make_extension_error,
};
use tokio::sync::watch;

use super::sentinel::Sentinels;

/// Deadline of a command.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Deadline of opening a connection, with the exchange that introduces the client.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The same, when a server has to be found among several first.
const FIND_TIMEOUT: Duration = Duration::from_secs(3);
/// Deadline of a ping. It decides how soon silence is noticed.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a failed attempt to connect answers for further ones.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
/// The code of errors of commands that were not sent. It is one of the server's codes for commands that it refuses
/// unexecuted, because callers treat both alike.
const NOT_SENT: &str = "MASTERDOWN";

/// How a connection is opened.
pub(super) enum Server {
    One(Client),
    Sentinels(Sentinels),
    Cluster(ClusterClient),
}

#[derive(Clone)]
pub struct Reconnecting(Arc<Inner>);

impl std::fmt::Debug for Reconnecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reconnecting(..)")
    }
}

struct Inner {
    server: Server,
    current: Mutex<Option<Arc<Opened>>>,
    /// Held while a connection is opened: the last failure.
    opening: tokio::sync::Mutex<Option<(Instant, RedisError)>>,
    is_silent: AtomicBool,
}

struct Opened {
    connection: Connection,
    has_answered: AtomicBool,
    is_given_up: watch::Sender<bool>,
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    fn as_connection(&mut self) -> &mut (dyn ConnectionLike + Send) {
        match self {
            Self::One(one) => one,
            Self::Cluster(cluster) => cluster,
        }
    }
}

impl Server {
    async fn open(&self) -> RedisResult<Connection> {
        let config = || {
            AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_TIMEOUT))
                .set_response_timeout(Some(RESPONSE_TIMEOUT))
        };
        Ok(match self {
            Self::One(client) => {
                Connection::One(client.get_multiplexed_async_connection_with_config(&config()).await?)
            }
            Self::Sentinels(sentinels) => {
                let client = sentinels.find_primary().await?;
                Connection::One(client.get_multiplexed_async_connection_with_config(&config()).await?)
            }
            Self::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        })
    }

    fn open_timeout(&self) -> Duration {
        match self {
            Self::One(_) => CONNECT_TIMEOUT,
            Self::Sentinels(_) | Self::Cluster(_) => FIND_TIMEOUT,
        }
    }
}

impl Reconnecting {
    /// Opens the first connection.
    pub(super) async fn open(server: Server) -> RedisResult<Self> {
        let inner = Inner {
            server,
            current: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            is_silent: AtomicBool::new(false),
        };
        let link = Self(Arc::new(inner));
        link.opened().await?;
        Ok(link)
    }

    pub(super) fn server(&self) -> &Server {
        &self.0.server
    }

    async fn opened(&self) -> RedisResult<Arc<Opened>> {
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        let mut failed = self.0.opening.lock().await;
        // Another task may have connected, or failed to, while this one waited.
        if let Some(current) = &*self.0.current.lock() {
            return Ok(current.clone());
        }
        if let Some((at, error)) = &*failed
            && at.elapsed() < RECONNECT_AFTER
        {
            return Err(error.clone());
        }
        let opened = tokio::time::timeout(self.0.server.open_timeout(), self.0.server.open()).await;
        match opened.unwrap_or_else(|_| Err(late("no connection in time"))) {
            Ok(connection) => {
                let opened = Arc::new(Opened {
                    connection,
                    has_answered: AtomicBool::new(false),
                    is_given_up: watch::Sender::new(false),
                });
                *self.0.current.lock() = Some(opened.clone());
                *failed = None;
                Ok(opened)
            }
            Err(error) => {
                let error = not_sent(error.to_string());
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// The next command opens a new connection. A late error does not drop a newer one.
    fn give_up(&self, opened: &Arc<Opened>) {
        let mut current = self.0.current.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, opened)) {
            *current = None;
        }
        opened.is_given_up.send_replace(true);
    }

    /// Waits for a reply on this connection, or for its end.
    async fn exchange<T>(
        &self,
        opened: &Arc<Opened>,
        timeout: Duration,
        reply: impl Future<Output = RedisResult<T>> + Send,
    ) -> RedisResult<T> {
        let mut given_up = opened.is_given_up.subscribe();
        let reply = tokio::select! {
            reply = tokio::time::timeout(timeout, reply) => {
                reply.unwrap_or_else(|_| Err(late("no answer in time")))
            }
            _ = given_up.wait_for(|is_given_up| *is_given_up) => Err(late("the connection fell silent")),
        };
        match &reply {
            Err(error) if opened.connection.is_unusable_after(error) => self.give_up(opened),
            Ok(_) if !opened.has_answered.load(Ordering::Relaxed) => {
                opened.has_answered.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        reply
    }

    /// The connection, unless the server is known to be silent.
    async fn usable(&self) -> RedisResult<Arc<Opened>> {
        if self.0.is_silent.load(Ordering::Acquire) {
            return Err(not_sent("the server is silent".to_owned()));
        }
        self.opened().await
    }

    pub(super) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let opened = self.usable().await?;
        let mut connection = opened.connection.clone();
        let reply = connection.as_connection().req_packed_command(command);
        self.exchange(&opened, RESPONSE_TIMEOUT, reply).await
    }

    pub(super) async fn send_pipeline(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let opened = self.usable().await?;
        let mut connection = opened.connection.clone();
        let reply = connection.as_connection().req_packed_commands(pipeline, offset, count);
        self.exchange(&opened, RESPONSE_TIMEOUT, reply).await
    }

    /// Whether the server answers, over a new connection if there is none. Where new connections are silent, too, no
    /// other command is sent until one is not.
    pub(super) async fn ping(&self) -> RedisResult<()> {
        let opened = match self.opened().await {
            Ok(opened) => opened,
            Err(error) => {
                self.0.is_silent.store(true, Ordering::Release);
                return Err(error);
            }
        };
        let (ping, mut connection) = (redis::cmd("PING"), opened.connection.clone());
        let reply = connection.as_connection().req_packed_command(&ping);
        let reply = self.exchange(&opened, PING_TIMEOUT, reply).await.and_then(Value::extract_error);
        let is_silent = reply.as_ref().is_err_and(is_broken) && !opened.has_answered.load(Ordering::Relaxed);
        self.0.is_silent.store(is_silent, Ordering::Release);
        reply.map(|_| ())
    }

    pub(super) fn get_db(&self) -> i64 {
        match &self.0.server {
            Server::One(client) => client.get_connection_info().redis_settings().db(),
            Server::Sentinels(_) | Server::Cluster(_) => 0,
        }
    }
}

impl Connection {
    fn is_unusable_after(&self, error: &RedisError) -> bool {
        match self {
            // A demoted primary must be looked up again.
            Self::One(_) => {
                is_broken(error)
                    || matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING" | "NOREPLICAS"))
            }
            // It replaces broken connections by itself, but keeps silent ones.
            Self::Cluster(_) => error.is_timeout(),
        }
    }
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_connection_dropped()
}

fn late(what: &'static str) -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, what).into()
}

fn not_sent(reason: String) -> RedisError {
    make_extension_error(NOT_SENT.to_owned(), Some(reason))
}
