//! Crews: threads that each hold a connection and do what waits, one after the other.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use super::explain;
use crate::ledger::LedgerError;
use crate::ledger::sql::Observer;
use crate::ledger::sql::engine::{self, Connection, params};

/// What may wait for a crew; more callers than this wait for a place.
const MAX_WAITING: usize = 4096;
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Nobody tries to connect again sooner than this after it failed.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// A connection that was idle for so long is asked whether it still is one.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// The oldest server that is known to do.
const OLDEST: i64 = 130_000;
/// A node that is frozen in the middle of a transaction must not stop the others for long.
const OPTIONS: &str = "-c statement_timeout=10s -c lock_timeout=5s -c idle_in_transaction_session_timeout=2s \
                       -c client_min_messages=warning -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 \
                       -c tcp_keepalives_count=3";

/// Where the database is.
pub(super) struct Target(postgres::Config);

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, LedgerError> {
        let mut config = postgres::Config::from_str(url)
            .map_err(|error| LedgerError::Unexpected(format!("database_url cannot be used: {error}")))?;
        config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(CONNECT_WITHIN * 3).options(OPTIONS);
        // A host that is gone without a word is noticed, here and there.
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
            // 201 means on disk.
            connection.execute_batch("SET synchronous_commit = on")?;
        }
        connection.execute_batch(settings)?;
        Ok(connection)
    }
}

type Work = Box<dyn FnOnce(&mut Seat) + Send>;

struct Shared {
    waiting: Mutex<Waiting>,
    work: Condvar,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    closed: bool,
}

pub(super) struct Crew {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

impl Crew {
    pub(super) fn start(
        name: &'static str,
        size: usize,
        settings: &'static str,
        target: &Arc<Target>,
        observer: &Arc<dyn Observer>,
    ) -> Result<Self, LedgerError> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), work: Condvar::new() });
        for _ in 0..size {
            let mut seat = Seat {
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
                        work(&mut seat);
                    }
                })
                .map_err(|error| LedgerError::Unavailable(error.to_string()))?;
        }
        Ok(Self { shared, places: Arc::new(Semaphore::new(MAX_WAITING)) })
    }

    /// Has somebody do it; `late` is what the caller hears when it takes too long.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        late: impl Fn() -> LedgerError,
        work: impl FnOnce(&mut Seat) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let closed = || LedgerError::Unavailable("the ledger is closed".into());
        let waited = tokio::time::timeout(within, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = waited else {
            return Err(LedgerError::Unavailable("too much waits for PostgreSQL".into()));
        };
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting.lock();
            if waiting.closed {
                return Err(closed());
            }
            waiting.work.push_back(Box::new(move |seat| {
                // A thread that panics would be missed for ever; its connection may be in the middle of anything.
                let done = std::panic::catch_unwind(AssertUnwindSafe(|| work(seat))).unwrap_or_else(|_| {
                    seat.connection = None;
                    Err(LedgerError::Unexpected("a query panicked".into()))
                });
                // Whoever asked may be gone; what was done stands.
                let _ = sender.send(done);
                drop(place);
            }));
        }
        self.shared.work.notify_one();
        match tokio::time::timeout(within, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(closed())),
            Err(_) => Err(late()),
        }
    }

    /// What waits is done; nothing more is taken.
    pub(super) fn close(&self) {
        self.shared.waiting.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The next thing to do; `None` when there will be nothing more.
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

/// One thread's connection.
pub(super) struct Seat {
    target: Arc<Target>,
    /// What each of its connections begins with.
    settings: &'static str,
    observer: Arc<dyn Observer>,
    connection: Option<Connection>,
    used: Instant,
    /// When connecting failed last, and why.
    failed: Option<(Instant, LedgerError)>,
}

impl Seat {
    /// The connection, opened if need be.
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

    /// Runs it on the connection; one that broke is given up.
    pub(super) fn query<T>(
        &mut self,
        query: impl FnOnce(&Connection) -> engine::Result<T>,
    ) -> Result<T, LedgerError> {
        let answer = self.connected().and_then(|()| match &self.connection {
            Some(connection) => query(connection).map_err(|error| super::super::explain(&error)),
            None => Err(LedgerError::Unavailable("there is no connection".into())),
        });
        if let Err(error @ LedgerError::Unavailable(_)) = &answer {
            self.connection = None;
            self.observer.trouble(Some(error));
        }
        answer
    }

    /// Commits. A connection that breaks meanwhile leaves it open whether that was done.
    pub(super) fn commit(&mut self) -> Result<(), LedgerError> {
        let Some(connection) = &self.connection else {
            return Err(LedgerError::Unavailable("there is no connection".into()));
        };
        let Err(error) = connection.execute_batch("COMMIT") else { return Ok(()) };
        let said_no = matches!(&error, engine::Error::Postgres(failure) if failure.as_db_error().is_some());
        let (why, error) = (error.to_string(), super::super::explain(&error));
        self.connection = None;
        self.observer.trouble(Some(&error));
        Err(if said_no { error } else { LedgerError::Unclear(why) })
    }

    pub(super) fn committed(&self, changes: usize, took: Duration) {
        self.observer.committed(changes, took);
        self.observer.trouble(None);
    }
}
