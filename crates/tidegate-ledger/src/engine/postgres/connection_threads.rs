//! A pool of threads with one connection each, which run queued work in order.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use super::explain;
use crate::LedgerError;
use crate::Observer;
use crate::engine;
use crate::engine::{Connection, params};

/// Capacity of a pool's queue; callers beyond it wait for a permit.
const MAX_WAITING: usize = 4096;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Pause after a failed attempt to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// A connection that was idle for this time is probed before use.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// The oldest supported server version.
const OLDEST: i64 = 130_000;
/// Short timeouts: a node that freezes in the middle of a transaction must not block the others for long.
const OPTIONS: &str = "-c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=2s \
                       -c client_min_messages=warning -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 \
                       -c tcp_keepalives_count=3";

/// The connection parameters.
pub(crate) struct Target(postgres::Config);

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, LedgerError> {
        let mut config = postgres::Config::from_str(url)
            .map_err(|error| LedgerError::Unexpected(format!("database_url cannot be used: {error}")))?;
        config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(CONNECT_WITHIN * 3).options(OPTIONS);
        // Both sides notice a host that disappears without closing its connections.
        config
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        Ok(Self(config))
    }

    fn connect(&self, settings: &str) -> engine::Result<Connection> {
        let connection = Connection::postgres(self.0.connect(postgres::NoTls)?);
        let version = "SELECT CAST(current_setting('server_version_num') AS BIGINT) AS version";
        let version: i64 = connection.query_row(version, params![], |row| row.get("version"))?;
        if version < OLDEST {
            let what = format!("PostgreSQL {} is too old: 13 is the first that will do", version / 10_000);
            return Err(engine::Error::Broken(what));
        }
        let durable = "SELECT current_setting('synchronous_commit') AS setting";
        let durable: String = connection.query_row(durable, params![], |row| row.get("setting"))?;
        if durable == "off" {
            // A `201 Created` promises that the order is on disk.
            connection.execute_batch("SET synchronous_commit = on")?;
        }
        connection.execute_batch(settings)?;
        Ok(connection)
    }
}

type Work = Box<dyn FnOnce(&mut ThreadConnection) + Send>;

struct Shared {
    waiting: Mutex<Waiting>,
    work: Condvar,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    closed: bool,
}

pub(crate) struct ConnectionThreads {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
}

impl ConnectionThreads {
    pub(crate) fn start(
        name: &'static str,
        size: usize,
        settings: &'static str,
        target: &Arc<Target>,
        observer: &Arc<dyn Observer>,
    ) -> Result<Self, LedgerError> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), work: Condvar::new() });
        for _ in 0..size {
            let mut connection = ThreadConnection {
                target: target.clone(),
                settings,
                observer: observer.clone(),
                connection: None,
                used: Instant::now(),
                failed: None,
            };
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("ledger {name}"))
                .spawn(move || {
                    while let Some(work) = shared.next() {
                        work(&mut connection);
                    }
                })
                .map_err(|error| LedgerError::Unavailable(error.to_string()))?;
        }
        Ok(Self { shared, permits: Arc::new(Semaphore::new(MAX_WAITING)) })
    }

    /// Runs the work on one of the threads; `late` is the error after the timeout.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        late: impl Fn() -> LedgerError,
        work: impl FnOnce(&mut ThreadConnection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let closed = || LedgerError::Unavailable("the ledger is closed".into());
        let waited = tokio::time::timeout(within, self.permits.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = waited else {
            return Err(LedgerError::Unavailable("too much waits for PostgreSQL".into()));
        };
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting.lock();
            if waiting.closed {
                return Err(closed());
            }
            waiting.work.push_back(Box::new(move |connection| {
                // The thread must survive a panic; its connection is in an unknown state and is dropped.
                let done =
                    std::panic::catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(|_| {
                        connection.connection = None;
                        Err(LedgerError::Unexpected("a query panicked".into()))
                    });
                // The caller may be gone; the change stands.
                let _ = sender.send(done);
                drop(permit);
            }));
        }
        self.shared.work.notify_one();
        match tokio::time::timeout(within, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(closed())),
            Err(_) => Err(late()),
        }
    }

    /// Runs queued work to its end, refuses new work.
    pub(crate) fn close(&self) {
        self.shared.waiting.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Drop for ConnectionThreads {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Waits for the next work; `None` once the pool is closed and its queue is empty.
    fn next(&self) -> Option<Work> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(work) = waiting.work.pop_front() {
                return Some(work);
            }
            if waiting.closed {
                return None;
            }
            self.work.wait(&mut waiting);
        }
    }
}

/// One thread's connection, opened lazily.
pub(crate) struct ThreadConnection {
    target: Arc<Target>,
    /// SQL that runs on each new connection.
    settings: &'static str,
    observer: Arc<dyn Observer>,
    connection: Option<Connection>,
    used: Instant,
    /// Time and error of the last failed attempt to connect.
    failed: Option<(Instant, LedgerError)>,
}

impl ThreadConnection {
    /// Opens the connection if it is closed or broken.
    fn connected(&mut self) -> Result<(), LedgerError> {
        let asks = self.used.elapsed() >= ASK_AFTER;
        self.used = Instant::now();
        let works = |connection: &Connection| {
            !connection.is_closed() && (!asks || connection.execute_batch("").is_ok())
        };
        if self.connection.as_ref().is_some_and(works) {
            return Ok(());
        }
        self.connection = None;
        if let Some((at, error)) = &self.failed
            && at.elapsed() < RECONNECT_AFTER
        {
            return Err(error.clone());
        }
        match self.target.connect(self.settings) {
            Ok(connection) => {
                (self.connection, self.failed) = (Some(connection), None);
                Ok(())
            }
            Err(error) => {
                let error = match explain(&error) {
                    LedgerError::Unexpected(why) => LedgerError::Unavailable(why),
                    error => error,
                };
                self.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Runs a query; a connection that breaks is dropped.
    pub(crate) fn query<T>(
        &mut self,
        query: impl FnOnce(&Connection) -> engine::Result<T>,
    ) -> Result<T, LedgerError> {
        let answer = self.connected().and_then(|()| match &self.connection {
            Some(connection) => query(connection).map_err(|error| engine::explain(&error)),
            None => Err(LedgerError::Unavailable("there is no connection".into())),
        });
        if let Err(error @ LedgerError::Unavailable(_)) = &answer {
            self.connection = None;
            self.observer.trouble(Some(error));
        }
        answer
    }

    /// Commits. If the connection breaks meanwhile the outcome is unknown: `LedgerError::Unclear`.
    pub(crate) fn commit(&mut self) -> Result<(), LedgerError> {
        let Some(connection) = &self.connection else {
            return Err(LedgerError::Unavailable("there is no connection".into()));
        };
        let Err(error) = connection.execute_batch("COMMIT") else { return Ok(()) };
        let said_no = matches!(&error, engine::Error::Postgres(failure) if failure.as_db_error().is_some());
        let (why, error) = (error.to_string(), engine::explain(&error));
        self.connection = None;
        self.observer.trouble(Some(&error));
        Err(if said_no { error } else { LedgerError::Unclear(why) })
    }

    pub(crate) fn committed(&self, changes: usize, took: Duration) {
        self.observer.committed(changes, took);
        self.observer.trouble(None);
    }
}
