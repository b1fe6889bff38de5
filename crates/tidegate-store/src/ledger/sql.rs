//! The ledger in SQL: SQLite in this process, or PostgreSQL for any number of nodes. One set of statements for both.
//!
//! What always holds: a commit is on disk before anybody hears of it. SQLite has one writer; on PostgreSQL every change to a
//! campaign's stock locks the campaign's row before it looks at anything, so that these come one after the other there, too.

mod accounts;
mod api_keys;
mod audit;
mod buyers;
mod campaigns;
mod deliveries;
mod delivery_desk;
mod dialect;
mod draws;
mod engine;
mod events;
mod items;
mod leases;
mod operators;
mod orders;
mod payments;
mod places;
mod plays;
mod ports;
mod postgres;
mod record;
mod remembered;
mod rows;
mod settings;
mod sqlite;
mod stock;
mod values;
mod webhooks;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Claim, ClaimId, Moment, Rejection};

pub use self::accounts::{Account, CodeCheck, CodeLimits, CodeSent, NewCode};
pub use self::api_keys::ApiKey;
pub use self::buyers::{NewBuyer, Session};
pub use self::deliveries::Tried;
pub use self::delivery_desk::DeliveryFilter;
use self::engine::Connection;
pub use self::events::Event;
pub use self::leases::KnownNode;
pub use self::operators::{Console, Made, NewConsole, OpenedBy, OperatorAccount, OperatorChange};
pub use self::orders::OrderFilter;
pub use self::payments::{DueRefund, KeptPayment};
pub use self::places::KeptPlace;
use self::postgres::Postgres;
pub use self::postgres::{PostgresOptions, schema_version as postgres_schema_version};
use self::sqlite::Readers;
pub use self::sqlite::schema_version;
pub use self::webhooks::Webhook;
use self::writer::Writer;
use super::{Fence, LedgerError, Recorded};

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub path: PathBuf,
    pub readers: usize,
    pub cache_mb: u32,
    /// The most the file may grow to; beyond it writes fail as on a full disk.
    pub max_mb: Option<u32>,
}

/// Called from the writer's thread; must be quick.
pub trait Observer: Send + Sync + 'static {
    fn committed(&self, changes: usize, took: Duration);
    /// Why nothing can be written, or that it can again.
    fn trouble(&self, problem: Option<&LedgerError>);
}

/// Nobody looks.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn committed(&self, _: usize, _: Duration) {}
    fn trouble(&self, _: Option<&LedgerError>) {}
}

/// The ledger; cheap to share.
pub struct SqlLedger(Backend);

enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
    /// Long queries at a time: one reader is always left for short ones.
    scans: tokio::sync::Semaphore,
}

impl SqlLedger {
    /// SQLite, migrated if need be.
    pub fn open(options: &SqliteOptions, observer: Box<dyn Observer>) -> Result<Self, LedgerError> {
        let writer = sqlite::open_writer(options)?;
        Self::with(Writer::start(writer, observer)?, options)
    }

    /// SQLite for looking only, beside a running server; every change is refused.
    pub fn open_to_read(options: &SqliteOptions) -> Result<Self, LedgerError> {
        Self::with(Writer::start(sqlite::open_reader(options)?, Box::new(Unobserved))?, options)
    }

    fn with(writer: Writer, options: &SqliteOptions) -> Result<Self, LedgerError> {
        let scans = tokio::sync::Semaphore::new(options.readers.saturating_sub(1).max(1));
        let readers = Arc::new(Readers::open(options)?);
        Ok(Self(Backend::Sqlite(Sqlite { writer, readers, scans })))
    }

    /// PostgreSQL. Connects when it is first needed, and again whenever it must: it may be away now.
    pub fn postgres(options: PostgresOptions, observer: Arc<dyn Observer>) -> Result<Self, LedgerError> {
        Postgres::start(options, observer).map(|postgres| Self(Backend::Postgres(postgres)))
    }

    /// Brings PostgreSQL's schema up to date, one node at a time. SQLite's is when it is opened.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        match &self.0 {
            Backend::Sqlite(_) => Ok(()),
            Backend::Postgres(postgres) => postgres.migrate().await,
        }
    }

    /// Whether other nodes write here, too.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Backend::Postgres(_))
    }

    /// A short query: a few rows by an index. On SQLite it runs here and now.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.readers.with(query),
            Backend::Postgres(postgres) => postgres.read(query).await,
        }
    }

    /// A long query, where it stops nobody.
    async fn scan<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => {
                let _place = sqlite.scans.acquire().await;
                let readers = sqlite.readers.clone();
                let answer = tokio::task::spawn_blocking(move || readers.with(query)).await;
                answer.unwrap_or_else(|panic| Err(LedgerError::Unexpected(panic.to_string())))
            }
            Backend::Postgres(postgres) => postgres.scan(query).await,
        }
    }

    /// Makes a change; resolves when it is committed.
    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write(change).await,
            Backend::Postgres(postgres) => postgres.write(change).await,
        }
    }

    /// The same in a transaction of its own.
    async fn write_alone<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> engine::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.write_alone(change).await,
            Backend::Postgres(postgres) => postgres.write(change).await,
        }
    }

    /// Records claims whose intake has no position that all readers share: an order is known by its id.
    pub async fn record_unplaced(
        &self,
        claims: Vec<Arc<Claim>>,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => {
                sqlite.writer.write_alone(move |tx| record::record(tx, None, &claims, now)).await
            }
            Backend::Postgres(postgres) => postgres.record(claims, now).await,
        }
    }

    /// The same, only while this lease is held: in a transaction of its own.
    pub async fn record_fenced(
        &self,
        claims: Vec<Arc<Claim>>,
        fence: Fence,
        now: Moment,
    ) -> Result<Vec<Recorded>, LedgerError> {
        let recorded = self
            .write_alone(move |tx| {
                if !leases::is_held(tx, &fence)? {
                    return Ok(None);
                }
                record::record(tx, None, &claims, now).map(Some)
            })
            .await?;
        recorded.ok_or_else(|| LedgerError::Unclear("another node has the lease".into()))
    }

    /// What became of those of these claims that are recorded.
    pub async fn outcomes_of(
        &self,
        claims: Vec<ClaimId>,
    ) -> Result<Vec<(ClaimId, Option<Rejection>)>, LedgerError> {
        self.read(move |connection| record::outcomes_of(connection, &claims)).await
    }

    /// The same for a claim that cannot be recorded; only while this lease is held, if it needs one.
    pub async fn set_aside_unplaced(
        &self,
        claim: Arc<Claim>,
        why: String,
        fence: Option<Fence>,
        now: Moment,
    ) -> Result<Recorded, LedgerError> {
        let done = self
            .write_alone(move |tx| match &fence {
                Some(fence) if !leases::is_held(tx, fence)? => Ok(None),
                _ => record::set_aside(tx, None, &claim, &why, now).map(Some),
            })
            .await?;
        done.ok_or_else(|| LedgerError::Unclear("another node has the lease".into()))
    }

    /// Commits what waits, then stops writing.
    pub fn close(&self) {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.writer.close(),
            Backend::Postgres(postgres) => postgres.close(),
        }
    }
}

/// What a database's error means for whoever asked.
fn explain(error: &engine::Error) -> LedgerError {
    match error {
        engine::Error::Sqlite(error) => sqlite::explain(error),
        engine::Error::Postgres(_) => postgres::explain(error),
        engine::Error::NoRow | engine::Error::Broken(_) => LedgerError::Unexpected(error.to_string()),
    }
}

impl std::fmt::Debug for SqlLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_shared() { "SqlLedger(PostgreSQL)" } else { "SqlLedger(SQLite)" })
    }
}

/// Where the ledger lies in a data directory.
pub fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("ledger.db")
}
