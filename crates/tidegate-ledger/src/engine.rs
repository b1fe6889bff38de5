//! One interface to two databases: connections, statements, values, and the differences between the two dialects.
//!
//! SQLite has one writer thread and a pool of readers; PostgreSQL has threads with one connection each. Code above this
//! module does not know which of them it talks to. Nothing here is public: no SQL text enters from outside the crate.

mod connection;
pub(crate) mod database;
pub(crate) mod dialect;
pub(crate) mod postgres;
pub(crate) mod sqlite;
pub(crate) mod values;
pub(crate) mod writer;

use crate::LedgerError;

pub(crate) use self::connection::*;
pub(crate) use self::database::Database;

/// Classifies a database error by what the caller can do about it.
pub(crate) fn explain(error: &Error) -> LedgerError {
    match error {
        Error::Sqlite(error) => sqlite::explain(error),
        Error::Postgres(_) | Error::Silent => postgres::explain(error),
        Error::Refused(why) => LedgerError::Refused(why.clone()),
        Error::NoRow | Error::Broken(_) => LedgerError::Unexpected(error.to_string()),
    }
}
