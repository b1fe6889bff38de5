//! SQLite: opening with verified pragmas, migrations, the pool of readers, classification of errors.

use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::engine;
use crate::{LedgerError, Observer, SqliteOptions};

/// Each migration runs once, in order; `user_version` counts those that have run.
const MIGRATIONS: &[&str] = &[
    include_str!("../schema/sqlite/1_sales.sql"),
    include_str!("../schema/sqlite/2_draws.sql"),
    include_str!("../schema/sqlite/3_operators.sql"),
    include_str!("../schema/sqlite/4_late_claims.sql"),
    include_str!("../schema/sqlite/5_progress.sql"),
];

/// Small: readers follow indexes, and pages they read often are in the page cache of the system.
const READER_CACHE_MB: u32 = 8;

/// The version of the schema this program writes.
pub fn schema_version() -> u32 {
    // A handful.
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

pub(crate) fn open_writer(options: &SqliteOptions) -> Result<engine::Connection, LedgerError> {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(&options.path)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        // The writer checkpoints explicitly: an automatic checkpoint would hide a failed fsync.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
        set_up(&connection, options.cache_mb)?;
        if let Some(max) = options.max_mb {
            let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
            connection.pragma_update(None, "max_page_count", (i64::from(max) << 20) / page)?;
        }
        Ok(connection)
    };
    let mut connection = open().map_err(|error| at(options, &error))?;
    migrate(&mut connection)?;
    for (pragma, expected) in [("journal_mode", "wal"), ("synchronous", "2"), ("foreign_keys", "1")] {
        assert_pragma(&connection, pragma, expected)?;
    }
    Ok(engine::Connection::Sqlite(connection))
}

pub(crate) fn open_reader(options: &SqliteOptions) -> Result<engine::Connection, LedgerError> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&options.path, flags)?;
        set_up(&connection, READER_CACHE_MB)?;
        // An audit of millions of rows sorts on disk, not in memory.
        connection.pragma_update(None, "temp_store", "file")?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    };
    open().map(engine::Connection::Sqlite).map_err(|error| at(options, &error))
}

fn set_up(connection: &Connection, cache_mb: u32) -> rusqlite::Result<()> {
    connection.pragma_update(None, "foreign_keys", true)?;
    // A negative value is in KiB.
    connection.pragma_update(None, "cache_size", -i64::from(cache_mb) * 1024)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(())
}

fn assert_pragma(connection: &Connection, name: &str, expected: &str) -> Result<(), LedgerError> {
    let value: rusqlite::types::Value =
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| explain(&error))?;
    let value = match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    };
    if value == expected {
        return Ok(());
    }
    Err(LedgerError::Unexpected(format!("SQLite runs with {name} = {value}, but {expected} is needed")))
}

fn migrate(connection: &mut Connection) -> Result<(), LedgerError> {
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| explain(&error))?;
    if version > schema_version() {
        return Err(LedgerError::Unexpected(format!(
            "it was written by a newer version of this program (schema {version}, this one knows {})",
            schema_version()
        )));
    }
    if version == schema_version() {
        return Ok(());
    }
    let mut run = || -> rusqlite::Result<()> {
        // Replacing a referenced table requires foreign keys to be off; `foreign_key_check` verifies them afterwards.
        connection.pragma_update(None, "foreign_keys", false)?;
        for (migration, number) in MIGRATIONS.iter().zip(1_u32..).filter(|(_, number)| *number > version) {
            let transaction = connection.transaction()?;
            transaction.execute_batch(migration)?;
            if transaction.prepare("PRAGMA foreign_key_check")?.exists([])? {
                let what = format!("after migration {number} a row refers to one that does not exist");
                return Err(rusqlite::Error::ToSqlConversionFailure(what.into()));
            }
            transaction.pragma_update(None, "user_version", number)?;
            transaction.commit()?;
        }
        connection.pragma_update(None, "foreign_keys", true)
    };
    run().map_err(|error| explain(&error))
}

fn at(options: &SqliteOptions, error: &rusqlite::Error) -> LedgerError {
    match explain(error) {
        LedgerError::Damaged(why) => LedgerError::Damaged(format!("{}: {why}", options.path.display())),
        _ => LedgerError::Unavailable(format!("{}: {error}", options.path.display())),
    }
}

/// Moves the pages of the write-ahead log to the database file and syncs it. Returns whether all were moved: a reader
/// may still need an older version of some.
pub(crate) fn checkpoint(connection: &engine::Connection) -> Result<bool, LedgerError> {
    let engine::Connection::Sqlite(connection) = connection else { return Ok(true) };
    let moved = |row: &rusqlite::Row<'_>| {
        let (busy, log, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && log == moved)
    };
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], moved).map_err(|error| explain(&error))
}

/// The number of rows that this connection has changed.
pub(crate) fn changed_rows(connection: &engine::Connection) -> u64 {
    match connection {
        engine::Connection::Sqlite(connection) => connection.total_changes(),
        engine::Connection::Postgres(_) => 0,
    }
}

pub(crate) fn is_read_only(connection: &engine::Connection) -> bool {
    matches!(connection, engine::Connection::Sqlite(connection) if connection.is_readonly("main").unwrap_or(true))
}

pub(crate) fn is_in_transaction(connection: &engine::Connection) -> bool {
    matches!(connection, engine::Connection::Sqlite(connection) if !connection.is_autocommit())
}

/// Checks every page, row, index and constraint; reads the whole file.
pub(crate) fn verify(connection: &engine::Connection) -> engine::Result<Option<String>> {
    let engine::Connection::Sqlite(connection) = connection else { return Ok(None) };
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok(Some(found).filter(|found| found != "ok"))
}

/// Classifies an error of SQLite by what the caller can do about it. Only a violated constraint and a value that is too
/// large are the fault of the change; what cannot be told is not.
pub(crate) fn explain(error: &rusqlite::Error) -> LedgerError {
    let why = error.to_string();
    // A value that cannot be read, for example.
    let rusqlite::Error::SqliteFailure(failure, _) = error else { return LedgerError::Unexpected(why) };
    match (failure.code, failure.extended_code) {
        (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => LedgerError::Failed(why),
        (_, ffi::SQLITE_FORMAT | ffi::SQLITE_IOERR_CORRUPTFS | ffi::SQLITE_IOERR_DATA) => {
            LedgerError::Damaged(why)
        }
        (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => LedgerError::Damaged(why),
        (ErrorCode::ConstraintViolation | ErrorCode::TooBig, _) => LedgerError::Refused(why),
        (
            ErrorCode::InternalMalfunction
            | ErrorCode::NotFound
            | ErrorCode::TypeMismatch
            | ErrorCode::ApiMisuse
            | ErrorCode::AuthorizationForStatementDenied
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::Unknown,
            _,
        ) => LedgerError::Unexpected(why),
        // Full, failing, locked, interrupted, unreadable: it may pass.
        _ => LedgerError::Unavailable(why),
    }
}

/// Why nothing may be written any more, once there is a reason. Readers find damage, too.
#[derive(Default)]
pub(crate) struct Failure(OnceLock<LedgerError>);

impl Failure {
    pub(crate) fn get(&self) -> Option<&LedgerError> {
        self.0.get()
    }

    /// Notes an error after which writing would make it worse; the first one stays.
    pub(crate) fn note(&self, error: &LedgerError) {
        if matches!(error, LedgerError::Failed(_) | LedgerError::Damaged(_)) {
            self.0.get_or_init(|| error.clone());
        }
    }
}

/// A pool of read-only connections.
pub(crate) struct Readers {
    idle: Mutex<Vec<engine::Connection>>,
    returned: Condvar,
    failure: Arc<Failure>,
    observer: Arc<dyn Observer>,
}

impl Readers {
    pub(crate) fn open(
        options: &SqliteOptions,
        failure: Arc<Failure>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LedgerError> {
        let idle =
            (0..options.readers.max(2)).map(|_| open_reader(options)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { idle: Mutex::new(idle), returned: Condvar::new(), failure, observer })
    }

    pub(crate) fn with<T>(
        &self,
        query: impl FnOnce(&engine::Connection) -> engine::Result<T>,
    ) -> Result<T, LedgerError> {
        let connection = {
            let mut idle = self.idle.lock();
            loop {
                if let Some(connection) = idle.pop() {
                    break connection;
                }
                self.returned.wait(&mut idle);
            }
        };
        let connection = Borrowed { readers: self, connection: Some(connection) };
        // `Drop` alone takes the connection out.
        let Some(open) = connection.connection.as_ref() else {
            return Err(LedgerError::Unexpected("no connection".into()));
        };
        query(open).map_err(|error| {
            let error = engine::explain(&error);
            self.fail(&error);
            error
        })
    }

    /// Stops all writing if the error is one of the file.
    pub(crate) fn fail(&self, error: &LedgerError) {
        self.failure.note(error);
        if let Some(failure) = self.failure.get() {
            self.observer.trouble(Some(failure));
        }
    }
}

/// Returns the connection to the pool even if the query panics.
struct Borrowed<'a> {
    readers: &'a Readers,
    connection: Option<engine::Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.readers.idle.lock().push(connection);
            self.readers.returned.notify_one();
        }
    }
}
