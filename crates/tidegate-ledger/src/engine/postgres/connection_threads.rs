//! A pool of threads with one connection each, which run queued work in order.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use super::explain;
use super::session::{Calls, Session};
use crate::LedgerError;
use crate::Observer;
use crate::engine;
use crate::engine::{Connection, params};

/// Capacity of a pool's queue; callers beyond it wait for a permit.
const MAX_WAITING: usize = 4096;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);
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
pub(crate) struct Target(tokio_postgres::Config);

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, LedgerError> {
        let mut config = tokio_postgres::Config::from_str(url)
            .map_err(|error| LedgerError::Unexpected(format!("database_url cannot be used: {error}")))?;
        config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(TCP_USER_TIMEOUT).options(OPTIONS);
        // Both sides notice a host that disappears without closing its connections.
        config
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(2))
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        Ok(Self(config))
    }

    pub(super) fn config(&self) -> &tokio_postgres::Config {
        &self.0
    }

    fn connect(&self, pool: Pool, calls: &Arc<Calls>) -> engine::Result<Connection> {
        let session = Session::connect(&self.0, calls.clone())?;
        let connection = Connection::postgres(session);
        let about = "SELECT CAST(current_setting('server_version_num') AS BIGINT) AS version,
                     CAST(pg_backend_pid() AS BIGINT) AS process, current_setting('synchronous_commit') AS durable";
        let (version, process, durable): (i64, i64, String) =
            connection.query_row(about, params![], |row| {
                Ok((row.get("version")?, row.get("process")?, row.get("durable")?))
            })?;
        if version < OLDEST {
            let what = format!("PostgreSQL {} is too old: 13 is the first that will do", version / 10_000);
            return Err(engine::Error::Broken(what));
        }
        if durable == "off" {
            // A `201 Created` promises that the order is on disk.
            connection.execute_batch("SET synchronous_commit = on")?;
        }
        connection.execute_batch(pool.settings)?;
        connection.opened(process, pool.timeout);
        Ok(connection)
    }
}

/// What the threads of a pool have in common.
#[derive(Clone, Copy)]
pub(super) struct Pool {
    pub(super) name: &'static str,
    pub(super) size: usize,
    /// SQL that runs on each new connection.
    pub(super) settings: &'static str,
    /// Deadline of a call.
    pub(super) timeout: Duration,
    /// Whether a call may take minutes.
    pub(super) are_long: bool,
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
    /// Adds the calls of its threads to `all_calls`.
    pub(super) fn start(
        pool: Pool,
        target: &Arc<Target>,
        observer: &Arc<dyn Observer>,
        is_silent: &Arc<AtomicBool>,
        all_calls: &mut Vec<Arc<Calls>>,
    ) -> Result<Self, LedgerError> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), work: Condvar::new() });
        for _ in 0..pool.size {
            let calls = Calls::new(pool.are_long);
            all_calls.push(calls.clone());
            let mut connection = ThreadConnection {
                target: target.clone(),
                pool,
                calls,
                is_silent: is_silent.clone(),
                observer: observer.clone(),
                connection: None,
                used: Instant::now(),
                failed: None,
            };
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("ledger {}", pool.name))
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
    pool: Pool,
    calls: Arc<Calls>,
    /// The server cannot be reached: calls fail without trying.
    is_silent: Arc<AtomicBool>,
    observer: Arc<dyn Observer>,
    connection: Option<Connection>,
    used: Instant,
    /// Time and error of the last failed attempt to connect.
    failed: Option<(Instant, LedgerError)>,
}

impl ThreadConnection {
    /// An error while the server is known to be silent.
    fn is_worth_trying(&self) -> Result<(), LedgerError> {
        if self.is_silent.load(Ordering::Acquire) {
            return Err(LedgerError::Unavailable("PostgreSQL does not answer".into()));
        }
        Ok(())
    }

    /// Opens the connection if it is closed or broken.
    fn connected(&mut self) -> Result<(), LedgerError> {
        self.is_worth_trying()?;
        let asks = self.used.elapsed() >= ASK_AFTER;
        self.used = Instant::now();
        let works = |connection: &Connection| {
            !connection.is_closed() && (!asks || connection.execute_batch("").is_ok())
        };
        if self.connection.as_ref().is_some_and(works) {
            return Ok(());
        }
        self.connection = None;
        // Asking may have taken until the watch found the server silent.
        self.is_worth_trying()?;
        if let Some((at, error)) = &self.failed
            && at.elapsed() < RECONNECT_AFTER
        {
            return Err(error.clone());
        }
        match self.target.connect(self.pool, &self.calls) {
            Ok(connection) => {
                (self.connection, self.failed) = (Some(connection), None);
                Ok(())
            }
            Err(error) => {
                let error = match explain(&error) {
                    LedgerError::Refused(why) | LedgerError::Unexpected(why) => LedgerError::Unavailable(why),
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
