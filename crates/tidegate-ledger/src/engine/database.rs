//! The database behind every table: SQLite in this process, or PostgreSQL shared by any number of nodes.
//!
//! Invariants: a change is durable on disk before its caller gets an answer. SQLite has one writer; on PostgreSQL every
//! change to a campaign's stock first locks the campaign's row, so that such changes are serialized there, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Claim, Moment};

use super::postgres::{Postgres, PostgresOptions};
use super::sqlite::{Failure, Readers};
use super::writer::Writer;
use super::{Connection, Result, sqlite};
use crate::{LedgerError, RecordOutcome, Witness, recording};

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub readers: usize,
    pub cache_mb: u32,
    /// Maximum size of the file; beyond it writes fail as on a full disk.
    pub max_mb: Option<u32>,
}

/// Path of the SQLite file in a data directory.
pub fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("ledger.db")
}

/// Receives metrics and health changes. Called on the writer's thread: implementations must not block.
pub trait Observer: Send + Sync + 'static {
    fn committed(&self, changes: usize, took: Duration);
    /// `Some` while writes fail, `None` as soon as one has succeeded.
    fn trouble(&self, problem: Option<&LedgerError>);
}

/// Ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _: usize, _: Duration) {}
    fn trouble(&self, _: Option<&LedgerError>) {}
}

pub(crate) struct Database(Backend);

enum Backend {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    /// Limits concurrent scans, so that one reader is always free for short queries.
    scans: tokio::sync::Semaphore,
}

impl Database {
    pub(crate) fn sqlite(
        options: &SqliteOptions,
        observer: Box<dyn Observer>,
    ) -> std::result::Result<Self, LedgerError> {
        Self::with_writer(sqlite::open_writer(options)?, options, observer.into())
    }

    pub(crate) fn sqlite_read_only(options: &SqliteOptions) -> std::result::Result<Self, LedgerError> {
        Self::with_writer(sqlite::open_reader(options)?, options, Arc::new(NoObserver))
    }

    fn with_writer(
        connection: Connection,
        options: &SqliteOptions,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Self, LedgerError> {
        let failure = Arc::<Failure>::default();
        let writer = Writer::start(connection, observer.clone(), failure.clone())?;
        let scans = tokio::sync::Semaphore::new(options.readers.saturating_sub(1).max(1));
        let readers = Arc::new(Readers::open(options, failure, observer)?);
        Ok(Self(Backend::Sqlite(Sqlite { writer, readers, scans })))
    }

    pub(crate) fn postgres(
        options: PostgresOptions,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Self, LedgerError> {
        Postgres::start(options, observer).map(|postgres| Self(Backend::Postgres(Box::new(postgres))))
    }

    /// Migrates PostgreSQL's schema, one node at a time. SQLite is migrated when it is opened.
    pub(crate) async fn migrate(&self) -> std::result::Result<(), LedgerError> {
        match &self.0 {
            Backend::Sqlite(_) => Ok(()),
            Backend::Postgres(postgres) => postgres.migrate().await,
        }
    }

    /// Looks once whether PostgreSQL answers, and replaces connections to it that fell silent.
    pub(crate) async fn watch(&self) -> std::result::Result<(), LedgerError> {
        match &self.0 {
            Backend::Sqlite(_) => Ok(()),
            Backend::Postgres(postgres) => postgres.watch().await,
        }
    }

    /// Whether other nodes write to this database, too.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Backend::Postgres(_))
    }

    /// Runs a short query: a few rows by an index. On SQLite it runs on the calling thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.readers.with(query),
            Backend::Postgres(postgres) => postgres.read(query).await,
        }
    }

    /// Runs a long query on a thread where it blocks no other work.
    pub(crate) async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => {
                let _permit = sqlite.scans.acquire().await;
                let readers = sqlite.readers.clone();
                let answer = tokio::task::spawn_blocking(move || readers.with(query)).await;
                answer.unwrap_or_else(|panic| Err(LedgerError::Unexpected(panic.to_string())))
            }
            Backend::Postgres(postgres) => postgres.scan(query).await,
        }
    }

    /// Makes a change; resolves when it is committed. SQLite commits changes that wait at the same time together.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write(change).await,
            Backend::Postgres(postgres) => postgres.write(change).await,
        }
    }

    /// Like `write`, but never shares its transaction with another change.
    pub(crate) async fn write_alone<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write_alone(change).await,
            Backend::Postgres(postgres) => postgres.write(change).await,
        }
    }

    /// Like `write_alone`, for claims of the journal: their position is committed with them.
    pub(crate) async fn write_claims<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write_claims(change).await,
            Backend::Postgres(postgres) => postgres.write(change).await,
        }
    }

    pub(crate) fn set_witness(&self, witness: Box<dyn Witness>) {
        if let Backend::Sqlite(sqlite) = &self.0 {
            sqlite.writer.set_witness(witness);
        }
    }

    /// Like `write`, for a change that may read millions of rows first: it gets a longer statement timeout.
    pub(crate) async fn write_long<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write(change).await,
            Backend::Postgres(postgres) => postgres.write_long(change).await,
        }
    }

    /// Checks the whole file; from then on a damaged one refuses every write. PostgreSQL looks after its own files.
    pub(crate) async fn verify(&self) -> std::result::Result<(), LedgerError> {
        match self.scan(sqlite::verify).await? {
            None => Ok(()),
            Some(damage) => Err(self.fail(LedgerError::Damaged(damage))),
        }
    }

    /// Notes that the file is damaged.
    pub(crate) fn fail(&self, error: LedgerError) -> LedgerError {
        if let Backend::Sqlite(sqlite) = &self.0 {
            sqlite.readers.fail(&error);
        }
        error
    }

    /// Records claims that have no journal position; PostgreSQL records batches that wait at the same time together.
    pub(crate) async fn record(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> std::result::Result<Vec<RecordOutcome>, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => {
                sqlite.writer.write_alone(move |tx| recording::record(tx, None, &claims, now)).await
            }
            Backend::Postgres(postgres) => postgres.record(claims, now).await,
        }
    }

    /// Commits pending changes, then refuses all others.
    pub(crate) fn close(&self) {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.close(),
            Backend::Postgres(postgres) => postgres.close(),
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_shared() { "PostgreSQL" } else { "SQLite" })
    }
}
