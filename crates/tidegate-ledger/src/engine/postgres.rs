//! PostgreSQL: threads with one connection each, in four pools: reads, scans, writes and recording.
//!
//! Invariants: every call has a timeout here, because a silent server does not keep its own; a connection that broke or
//! fell silent is reopened when it is next needed; while the server is silent every call fails at once; a failed change
//! is never retried here, since only its caller knows whether a retry is safe; pending claims of all streams are
//! recorded in one transaction.

mod connection_threads;
mod server_watch;
mod session;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::{Claim, Moment};
use tokio::sync::oneshot;

use self::connection_threads::{ConnectionThreads, Pool, ThreadConnection};
use self::server_watch::ServerWatch;
pub(crate) use self::session::Session;
use super::{Connection, params};
use crate::engine;
use crate::{LedgerError, RecordOutcome};
use crate::{Observer, recording};

/// Each migration runs once, in order.
const MIGRATIONS: &[&str] = &[
    include_str!("../schema/postgres/1_sales_and_draws.sql"),
    include_str!("../schema/postgres/2_operators.sql"),
    include_str!("../schema/postgres/3_late_claims.sql"),
];
/// Advisory lock that serializes migrations.
const MIGRATION_LOCK: i64 = 0x7469_6465_6d69_6772;
/// Advisory lock that every writer of events holds in shared mode until its commit.
pub(crate) const EVENT_WRITERS_LOCK: i64 = 0x7469_6465_6576_6e74;
/// Most claims recorded in one transaction.
const MAX_RECORDED: usize = 4096;
/// Recording reads a few rows of large tables by their keys. Without this, a statement that was planned while the
/// tables were small keeps scanning them. Measured only together with `record_new`: 27 instead of 164 microseconds of
/// PostgreSQL's time per order.
const BY_INDEX: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
/// Timeouts of a query and of a change, including the time in the queue.
const READ_WITHIN: Duration = Duration::from_secs(8);
const WRITE_WITHIN: Duration = Duration::from_secs(15);
const SCAN_WITHIN: Duration = Duration::from_secs(600);
/// Deadline of one call of a scan, and of one of any other kind: beyond the server's own time-outs.
const SCAN_CALL_WITHIN: Duration = Duration::from_secs(605);
const CALL_WITHIN: Duration = Duration::from_secs(12);
/// Scans, long changes and migrations have time.
const SCAN_SETTINGS: &str = "SET statement_timeout = '10min'";

/// The version of the schema this program writes.
pub fn schema_version() -> u32 {
    // There are only a few migrations.
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database`
    pub url: String,
    /// Numbers of connections for reads and for writes. One connection for scans and one for recording come on top.
    pub readers: usize,
    pub writers: usize,
    /// Whether batches of new orders are inserted by one statement.
    pub insert_new: bool,
}

type Answer = oneshot::Sender<Result<Vec<RecordOutcome>, LedgerError>>;

struct Recording {
    claims: Vec<Arc<Claim>>,
    now: Moment,
    answer: Answer,
}

pub(crate) struct Postgres {
    readers: ConnectionThreads,
    scanners: ConnectionThreads,
    writers: ConnectionThreads,
    recorder: ConnectionThreads,
    recordings: Arc<Mutex<VecDeque<Recording>>>,
    insert_new: bool,
    watch: ServerWatch,
}

impl Postgres {
    pub(crate) fn start(options: PostgresOptions, observer: Arc<dyn Observer>) -> Result<Self, LedgerError> {
        let (readers, writers) = (options.readers.max(1), options.writers.max(1));
        let insert_new = options.insert_new;
        let options = Arc::new(connection_threads::Target::parse(&options.url)?);
        let (is_silent, mut calls) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let mut threads = |name, size, settings, timeout, are_long| {
            let pool = Pool { name, size, settings, timeout, are_long };
            ConnectionThreads::start(pool, &options, &observer, &is_silent, &mut calls)
        };
        Ok(Self {
            readers: threads("read", readers, "", CALL_WITHIN, false)?,
            scanners: threads("scan", 1, SCAN_SETTINGS, SCAN_CALL_WITHIN, true)?,
            writers: threads("write", writers, "", CALL_WITHIN, false)?,
            recorder: threads("record", 1, BY_INDEX, CALL_WITHIN, false)?,
            recordings: Arc::default(),
            insert_new,
            watch: ServerWatch::new(options.clone(), calls, is_silent),
        })
    }

    /// Looks once whether the server answers, and replaces connections that fell silent.
    pub(crate) async fn watch(&self) -> Result<(), LedgerError> {
        self.watch.look().await
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        self.readers.ask(READ_WITHIN, late, move |connection| connection.query(query)).await
    }

    pub(crate) async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        self.scanners.ask(SCAN_WITHIN, late, move |connection| connection.query(query)).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        self.writers.ask(WRITE_WITHIN, late, move |connection| transaction(connection, 1, change)).await
    }

    /// Like `write`, for a change that may read millions of rows.
    pub(crate) async fn write_long<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        let patient = move |connection: &Connection| {
            connection.execute_batch("SET LOCAL statement_timeout = '5min'")?;
            change(connection)
        };
        self.scanners.ask(SCAN_WITHIN, late, move |connection| transaction(connection, 1, patient)).await
    }

    /// Records these claims in one transaction with all others that are pending.
    pub(crate) async fn record(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<RecordOutcome>, LedgerError> {
        let (answer, recorded) = oneshot::channel();
        self.recordings.lock().push_back(Recording { claims, now, answer });
        let (waiting, insert_new) = (self.recordings.clone(), self.insert_new);
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        let work = move |connection: &mut ThreadConnection| {
            record_waiting(connection, &waiting, insert_new);
            Ok(())
        };
        self.recorder.ask(WRITE_WITHIN, late, work).await?;
        recorded.await.unwrap_or_else(|_| Err(LedgerError::Unavailable("the ledger is closed".into())))
    }

    /// Runs on one node at a time; the others then find the schema up to date.
    pub(crate) async fn migrate(&self) -> Result<(), LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        self.scanners.ask(SCAN_WITHIN, late, |connection| connection.query(migrate)).await
    }

    pub(crate) fn close(&self) {
        for threads in [&self.recorder, &self.writers, &self.readers, &self.scanners] {
            threads.close();
        }
    }
}

fn migrate(connection: &Connection) -> engine::Result<()> {
    connection.query_row("SELECT 1 FROM pg_advisory_lock(?)", [MIGRATION_LOCK], |_| Ok(()))?;
    let done = run_migrations(connection);
    connection.query_row("SELECT 1 FROM pg_advisory_unlock(?)", [MIGRATION_LOCK], |_| Ok(()))?;
    done
}

fn run_migrations(connection: &Connection) -> engine::Result<()> {
    connection.execute_batch("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")?;
    let version = "SELECT coalesce(max(version), 0) AS version FROM schema_version";
    let version: u32 = connection.query_row(version, params![], |row| row.get("version"))?;
    if version > schema_version() {
        return Err(engine::Error::Broken(format!(
            "it was written by a newer version of this program (schema {version}, this one knows {})",
            schema_version()
        )));
    }
    for (migration, number) in MIGRATIONS.iter().zip(1_u32..).filter(|(_, number)| *number > version) {
        let done = format!("BEGIN; {migration}; INSERT INTO schema_version VALUES ({number}); COMMIT");
        if let Err(error) = connection.execute_batch(&done) {
            // The first error is the one to report; the rollback only ends the failed transaction.
            let _ = connection.execute_batch("ROLLBACK");
            return Err(error);
        }
    }
    Ok(())
}

/// Runs a change in a transaction and commits it.
fn transaction<T>(
    connection: &mut ThreadConnection,
    changes: usize,
    change: impl FnOnce(&Connection) -> engine::Result<T>,
) -> Result<T, LedgerError> {
    let started = Instant::now();
    let done = connection.query(|connection| {
        connection
            .execute_batch(&format!("BEGIN; SELECT pg_advisory_xact_lock_shared({EVENT_WRITERS_LOCK})"))?;
        let changed = change(connection);
        if changed.is_err() {
            // The first error is the one to report; a lost connection has rolled back by itself.
            let _ = connection.execute_batch("ROLLBACK");
        }
        changed
    })?;
    connection.commit()?;
    connection.committed(changes, started.elapsed());
    Ok(done)
}

/// Records the claims, with `insert_new` on the optimistic path first; if a constraint rejects one of them, on the
/// complete one.
fn record_batch(
    connection: &mut ThreadConnection,
    claims: &[Arc<Claim>],
    now: Moment,
    insert_new: bool,
) -> Result<Vec<RecordOutcome>, LedgerError> {
    let all = |tx: &Connection| recording::record(tx, None, claims, now);
    if !insert_new {
        return transaction(connection, claims.len(), all);
    }
    let new = |tx: &Connection| recording::record_new(tx, claims, now)?.map_or_else(|| all(tx), Ok);
    match transaction(connection, claims.len(), new) {
        Err(LedgerError::Refused(_) | LedgerError::Unexpected(_)) => {
            transaction(connection, claims.len(), all)
        }
        recorded => recorded,
    }
}

/// Records all pending batches together; if that fails, one by one, so that each caller gets its own error.
fn record_waiting(connection: &mut ThreadConnection, waiting: &Mutex<VecDeque<Recording>>, insert_new: bool) {
    let mut taken: Vec<Recording> = Vec::new();
    {
        let mut waiting = waiting.lock();
        let mut claims = 0;
        while let Some(next) = waiting.front() {
            claims += next.claims.len();
            if !taken.is_empty() && claims > MAX_RECORDED {
                break;
            }
            taken.extend(waiting.pop_front());
        }
    }
    let Some(now) = taken.iter().map(|recording| recording.now).max() else { return };
    let all: Vec<Arc<Claim>> = taken.iter().flat_map(|recording| recording.claims.iter().cloned()).collect();
    match record_batch(connection, &all, now, insert_new) {
        Ok(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for recording in taken {
                let theirs = outcomes.by_ref().take(recording.claims.len()).collect();
                // The caller may be gone; its claims are recorded.
                let _ = recording.answer.send(Ok(theirs));
            }
        }
        Err(LedgerError::Refused(_) | LedgerError::Unexpected(_)) if taken.len() > 1 => {
            for Recording { claims, now, answer } in taken {
                let _ = answer.send(record_batch(connection, &claims, now, insert_new));
            }
        }
        Err(error) => {
            for recording in taken {
                let _ = recording.answer.send(Err(error.clone()));
            }
        }
    }
}

/// Classifies an error of PostgreSQL by what the caller can do about it.
pub(crate) fn explain(error: &engine::Error) -> LedgerError {
    let failure = match error {
        engine::Error::Postgres(failure) => failure,
        engine::Error::Silent => return LedgerError::Unavailable(error.to_string()),
        _ => return LedgerError::Unexpected(error.to_string()),
    };
    let Some(state) = failure.code() else {
        // Without a message of the server the connection itself has failed.
        return LedgerError::Unavailable(error.to_string());
    };
    // Only invalid data (class 22) and violated constraints (class 23) are the caller's fault. Everything else may
    // pass: locks, timeouts, lack of resources, a shutdown, a schema that is not migrated yet.
    if ["22", "23"].iter().any(|class| state.code().starts_with(class)) {
        return LedgerError::Refused(error.to_string());
    }
    LedgerError::Unavailable(error.to_string())
}
