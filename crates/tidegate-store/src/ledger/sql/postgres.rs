//! PostgreSQL: a few connections, each with a thread of its own, for reading, for changes and for recording.
//!
//! What always holds: nobody waits longer than a bound; a connection that broke is opened again when it is next needed; a
//! change that failed is not tried again here, since only its caller knows whether that is safe; the claims of all streams
//! that wait to be recorded are recorded together.

mod crew;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::{Claim, Moment};
use tokio::sync::oneshot;

use self::crew::{Crew, Seat};
use super::engine::{self, Connection, params};
use super::{Observer, record};
use crate::ledger::{LedgerError, Recorded};

/// Each runs once, in order.
const MIGRATIONS: &[&str] = &[include_str!("postgres.sql"), include_str!("postgres_operators.sql")];
/// Names the lock under which the schema is changed.
const MIGRATES: i64 = 0x7469_6465_6d69_6772;
/// Names the lock that whoever writes events holds until the commit.
pub(super) const WRITES_EVENTS: i64 = 0x7469_6465_6576_6e74;
/// Claims recorded in one transaction.
const MAX_RECORDED: usize = 4096;
/// Recording asks for a few rows of large tables, by their keys. A statement that was planned while they were small would read
/// them whole for ever after. With `record_new`, not measured apart: 164 to 27 microseconds of PostgreSQL's time an order.
const BY_INDEX: &str =
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
/// How long a query and a change may take, waiting for their turn included.
const READ_WITHIN: Duration = Duration::from_secs(8);
const WRITE_WITHIN: Duration = Duration::from_secs(15);
const SCAN_WITHIN: Duration = Duration::from_secs(600);

/// The version of the schema this program writes.
pub fn schema_version() -> u32 {
    // A handful.
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host/database`
    pub url: String,
    /// Connections for reading, and for changes. One more records.
    pub readers: usize,
    pub writers: usize,
}

type Answer = oneshot::Sender<Result<Vec<Recorded>, LedgerError>>;

struct Recording {
    claims: Vec<Arc<Claim>>,
    now: Moment,
    answer: Answer,
}

pub(super) struct Postgres {
    readers: Crew,
    scanners: Crew,
    writers: Crew,
    recorder: Crew,
    recordings: Arc<Mutex<VecDeque<Recording>>>,
}

impl Postgres {
    pub(super) fn start(options: PostgresOptions, observer: Arc<dyn Observer>) -> Result<Self, LedgerError> {
        let (readers, writers) = (options.readers.max(1), options.writers.max(1));
        let options = Arc::new(crew::Target::parse(&options.url)?);
        let crew = |name, size, settings| Crew::start(name, size, settings, &options, &observer);
        Ok(Self {
            readers: crew("read", readers, "")?,
            scanners: crew("scan", 1, "")?,
            writers: crew("write", writers, "")?,
            recorder: crew("record", 1, BY_INDEX)?,
            recordings: Arc::default(),
        })
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        self.readers.ask(READ_WITHIN, late, move |seat| seat.query(query)).await
    }

    pub(super) async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        let patient = move |connection: &Connection| {
            connection.execute_batch("SET statement_timeout = '10min'")?;
            query(connection)
        };
        self.scanners.ask(SCAN_WITHIN, late, move |seat| seat.query(patient)).await
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        self.writers.ask(WRITE_WITHIN, late, move |seat| transaction(seat, 1, change)).await
    }

    /// A change that may read a great deal.
    pub(super) async fn write_long<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        let patient = move |connection: &Connection| {
            connection.execute_batch("SET LOCAL statement_timeout = '5min'")?;
            change(connection)
        };
        self.scanners.ask(SCAN_WITHIN, late, move |seat| transaction(seat, 1, patient)).await
    }

    /// Records these together with whatever else waits to be recorded.
    pub(super) async fn record(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        let (answer, recorded) = oneshot::channel();
        self.recordings.lock().push_back(Recording { claims, now, answer });
        let waiting = self.recordings.clone();
        let late = || LedgerError::Unclear("PostgreSQL did not answer in time".into());
        let work = move |seat: &mut Seat| {
            record_waiting(seat, &waiting);
            Ok(())
        };
        self.recorder.ask(WRITE_WITHIN, late, work).await?;
        recorded.await.unwrap_or_else(|_| Err(LedgerError::Unavailable("the ledger is closed".into())))
    }

    /// One node at a time; those that come later find it done.
    pub(super) async fn migrate(&self) -> Result<(), LedgerError> {
        let late = || LedgerError::Unavailable("PostgreSQL did not answer in time".into());
        self.scanners.ask(SCAN_WITHIN, late, |seat| seat.query(migrate)).await
    }

    pub(super) fn close(&self) {
        for crew in [&self.recorder, &self.writers, &self.readers, &self.scanners] {
            crew.close();
        }
    }
}

fn migrate(connection: &Connection) -> engine::Result<()> {
    connection.query_row("SELECT 1 FROM pg_advisory_lock(?)", [MIGRATES], |_| Ok(()))?;
    let done = run_migrations(connection);
    connection.query_row("SELECT 1 FROM pg_advisory_unlock(?)", [MIGRATES], |_| Ok(()))?;
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
            // What is wrong is known; that the rest was undone is what remains to be made sure of.
            let _ = connection.execute_batch("ROLLBACK");
            return Err(error);
        }
    }
    Ok(())
}

/// Makes a change and commits it.
fn transaction<T>(
    seat: &mut Seat,
    changes: usize,
    change: impl FnOnce(&Connection) -> engine::Result<T>,
) -> Result<T, LedgerError> {
    let started = Instant::now();
    let done = seat.query(|connection| {
        connection.execute_batch(&format!("BEGIN; SELECT pg_advisory_xact_lock_shared({WRITES_EVENTS})"))?;
        let changed = change(connection);
        if changed.is_err() {
            // The error that matters is the first; a connection that is gone has undone everything.
            let _ = connection.execute_batch("ROLLBACK");
        }
        changed
    })?;
    seat.commit()?;
    seat.committed(changes, started.elapsed());
    Ok(done)
}

/// Records these as what they nearly always are: new. If a constraint knows better, everything is looked at.
fn record_batch(seat: &mut Seat, claims: &[Arc<Claim>], now: Moment) -> Result<Vec<Recorded>, LedgerError> {
    let all = |tx: &Connection| record::record(tx, None, claims, now);
    let new = |tx: &Connection| record::record_new(tx, claims, now)?.map_or_else(|| all(tx), Ok);
    match transaction(seat, claims.len(), new) {
        Err(LedgerError::Unexpected(_)) => transaction(seat, claims.len(), all),
        recorded => recorded,
    }
}

/// Records what waits, together; if that fails, one after the other, so that each hears of its own failure.
fn record_waiting(seat: &mut Seat, waiting: &Mutex<VecDeque<Recording>>) {
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
    match record_batch(seat, &all, now) {
        Ok(outcomes) => {
            let mut outcomes = outcomes.into_iter();
            for recording in taken {
                let theirs = outcomes.by_ref().take(recording.claims.len()).collect();
                // Whoever asked may be gone; it is recorded.
                let _ = recording.answer.send(Ok(theirs));
            }
        }
        Err(LedgerError::Unexpected(_)) if taken.len() > 1 => {
            for Recording { claims, now, answer } in taken {
                let _ = answer.send(record_batch(seat, &claims, now));
            }
        }
        Err(error) => {
            for recording in taken {
                let _ = recording.answer.send(Err(error.clone()));
            }
        }
    }
}

/// What an error of PostgreSQL means for whoever asked.
pub(super) fn explain(error: &engine::Error) -> LedgerError {
    let engine::Error::Postgres(failure) = error else { return LedgerError::Unexpected(error.to_string()) };
    let Some(state) = failure.code() else {
        // Without words of the server's own it is the connection.
        return LedgerError::Unavailable(error.to_string());
    };
    // Only what is wrong with the data itself is the caller's: a value that does not fit, a constraint that it breaks. The
    // rest passes: locks, timeouts, resources, an operator who stops it, a schema that is not there yet.
    if ["22", "23"].iter().any(|class| state.code().starts_with(class)) {
        return LedgerError::Unexpected(error.to_string());
    }
    LedgerError::Unavailable(error.to_string())
}
