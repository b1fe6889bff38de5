//! One connection type for both databases, with the part of rusqlite's interface that the ledger uses.
//!
//! Every statement is written once; `dialect` translates the differences. Invariant: on PostgreSQL all rows of a query
//! are fetched before the first is read, so that reading a row may run further queries on the same connection.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use tokio_postgres::types::ToSql;

use super::dialect;
use super::dialect::Column;
use super::postgres::Session;
use super::values::{FromValue, Params, Value};
pub(crate) use super::values::{Param, Values, params, row};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no such row")]
    NoRow,
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{}", explained(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// A call to PostgreSQL was given up: no answer in time.
    #[error("PostgreSQL does not answer")]
    Silent,
    /// An invariant of the ledger is violated.
    #[error("{0}")]
    Broken(String),
    /// The change itself is not possible.
    #[error("{0}")]
    Refused(String),
}

/// The server's message and code, which the client's error type omits from its `Display`.
fn explained(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let cause = std::error::Error::source(error);
            cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    pub(crate) fn get<I, T>(&self, column: I) -> Result<T>
    where
        I: rusqlite::RowIndex + tokio_postgres::row::RowIndex + fmt::Display + Copy,
        T: FromValue,
    {
        let value = match self {
            Self::Sqlite(row) => match row.get_ref(column)? {
                rusqlite::types::ValueRef::Null => Value::Null,
                rusqlite::types::ValueRef::Integer(number) => Value::Int(number),
                rusqlite::types::ValueRef::Text(bytes) => {
                    Value::Text(std::str::from_utf8(bytes).map_err(|error| Error::Broken(error.to_string()))?)
                }
                rusqlite::types::ValueRef::Blob(bytes) => Value::Blob(bytes),
                rusqlite::types::ValueRef::Real(_) => {
                    return Err(Error::Broken(format!("{column} is no whole number")));
                }
            },
            Self::Postgres(row) => row.try_get(column)?,
        };
        T::from_value(value)
            .ok_or_else(|| Error::Broken(format!("{column} holds {value:?}, which does not fit")))
    }
}

pub(crate) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Session>),
}

impl Connection {
    pub(crate) fn postgres(session: Session) -> Self {
        Self::Postgres(Box::new(session))
    }

    /// Whether other nodes write, too: then rows must be locked before decisions are based on them.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// The connection is set up: calls have this deadline, and its process on the server is known.
    pub(crate) fn opened(&self, process: i64, timeout: Duration) {
        if let Self::Postgres(session) = self {
            session.opened(i32::try_from(process).unwrap_or(0), timeout);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(session) => session.is_closed(),
        }
    }

    /// Prepares the statement once per connection.
    pub(crate) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(match self {
            Self::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Self::Postgres(session) => Statement::Postgres(session, session.prepare(sql)?),
        })
    }

    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    pub(crate) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    /// Runs several statements without parameters, untranslated.
    pub(crate) fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql)?,
            Self::Postgres(session) => session.execute_batch(sql)?,
        }
        Ok(())
    }

    /// Begins a transaction in which all reads see the same snapshot of the database.
    pub(crate) fn read_transaction(&self) -> Result<ReadTransaction<'_>> {
        self.execute_batch(match self {
            Self::Sqlite(_) => "BEGIN",
            Self::Postgres(_) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        })?;
        Ok(ReadTransaction(self))
    }

    /// Until the end of the transaction, PostgreSQL reads the few rows that a batch names by their keys. A statement
    /// that was planned while its tables were small would otherwise keep scanning them.
    pub(crate) fn prefer_indexes(&self) -> Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => self.execute_batch(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
                 SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off",
            ),
        }
    }

    /// Runs a statement for many rows, which it reads from the table `given`; returns the number of changed rows.
    pub(crate) fn change_many(&self, columns: &[Column], rows: &[Values<'_>], sql: &str) -> Result<usize> {
        if rows.is_empty() {
            return Ok(0);
        }
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(&dialect::for_one_row(columns, sql))?;
                let mut changed = 0;
                for row in rows {
                    bind(&mut statement, row)?;
                    changed += statement.raw_execute()?;
                }
                Ok(changed)
            }
            Self::Postgres(session) => {
                let statement = session.prepare(&dialect::for_all_rows(columns, sql))?;
                let columns = Columns::of(columns, rows);
                session.execute_with(&statement, &columns.params())
            }
        }
    }

    /// Runs one statement that reads several tables of parameters. PostgreSQL only.
    pub(crate) fn change_together(&self, tables: &[Table<'_, '_>], sql: &str) -> Result<()> {
        let Self::Postgres(session) = self else {
            return Err(Error::Broken("SQLite takes one table at a time".into()));
        };
        let all = dialect::for_tables(tables.iter().map(|table| (table.name, table.columns)), sql);
        let statement = session.prepare(&all)?;
        let columns: Vec<Columns<'_>> =
            tables.iter().map(|table| Columns::of(table.columns, table.rows)).collect();
        let params: Vec<_> = columns.iter().flat_map(Columns::params).collect();
        session.execute_with(&statement, &params)?;
        Ok(())
    }

    /// Runs a query for many rows, which it reads from the table `given`.
    pub(crate) fn query_many<T>(
        &self,
        columns: &[Column],
        rows: &[Values<'_>],
        sql: &str,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(&dialect::for_one_row(columns, sql))?;
                for row in rows {
                    bind(&mut statement, row)?;
                    let mut answer = statement.raw_query();
                    while let Some(row) = answer.next()? {
                        found.push(read(&Row::Sqlite(row))?);
                    }
                }
            }
            Self::Postgres(session) => {
                let statement = session.prepare(&dialect::for_all_rows(columns, sql))?;
                let columns = Columns::of(columns, rows);
                let answer = session.query_with(&statement, &columns.params())?;
                for row in &answer {
                    found.push(read(&Row::Postgres(row))?);
                }
            }
        }
        Ok(found)
    }
}

/// Rows of parameters that a statement reads as a table of this name.
pub(crate) struct Table<'a, 'v> {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) rows: &'a [Values<'v>],
}

/// Rows of parameters transposed to one PostgreSQL array per column.
struct Columns<'a>(Vec<Box<dyn ToSql + Sync + 'a>>);

impl<'a> Columns<'a> {
    fn of(columns: &[Column], rows: &[Values<'a>]) -> Self {
        let column = |(at, column): (usize, &Column)| -> Box<dyn ToSql + Sync + 'a> {
            let values = rows.iter().map(|row| row[at]);
            match column.kind() {
                dialect::Kind::Int => Box::new(
                    values
                        .map(|value| if let Value::Int(n) = value { Some(n) } else { None })
                        .collect::<Vec<_>>(),
                ),
                dialect::Kind::Text => Box::new(
                    values
                        .map(|value| if let Value::Text(t) = value { Some(t) } else { None })
                        .collect::<Vec<_>>(),
                ),
                dialect::Kind::Blob => Box::new(
                    values
                        .map(|value| if let Value::Blob(b) = value { Some(b) } else { None })
                        .collect::<Vec<_>>(),
                ),
            }
        };
        Self(columns.iter().enumerate().map(column).collect())
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|column| column.as_ref() as &(dyn ToSql + Sync)).collect()
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, values: &Values<'_>) -> Result<()> {
    for (value, at) in values.iter().zip(1..) {
        statement.raw_bind_parameter(at, value)?;
    }
    Ok(())
}

pub(crate) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres(&'c Session, tokio_postgres::Statement),
}

impl Statement<'_> {
    pub(crate) fn execute(&mut self, params: impl Params) -> Result<usize> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params.values())?;
                Ok(statement.raw_execute()?)
            }
            Self::Postgres(session, statement) => session.execute(statement, &params.values()),
        }
    }

    pub(crate) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params.values())?;
                let mut rows = statement.raw_query();
                read(&Row::Sqlite(rows.next()?.ok_or(Error::NoRow)?))
            }
            Self::Postgres(session, statement) => {
                let rows = session.query(statement, &params.values())?;
                read(&Row::Postgres(rows.first().ok_or(Error::NoRow)?))
            }
        }
    }

    pub(crate) fn query_map<T>(
        &mut self,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<std::vec::IntoIter<Result<T>>> {
        let mut found = Vec::new();
        match self {
            Self::Sqlite(statement) => {
                bind(statement, &params.values())?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    found.push(read(&Row::Sqlite(row)));
                }
            }
            Self::Postgres(session, statement) => {
                let rows = session.query(statement, &params.values())?;
                found.extend(rows.iter().map(|row| read(&Row::Postgres(row))));
            }
        }
        Ok(found.into_iter())
    }

    pub(crate) fn exists(&mut self, params: impl Params) -> Result<bool> {
        self.query_row(params, |_| Ok(())).optional().map(|found| found.is_some())
    }
}

/// A read-only transaction; ends when it is dropped.
pub(crate) struct ReadTransaction<'c>(&'c Connection);

impl Deref for ReadTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        // It has written nothing, so a failing rollback loses nothing.
        let _ = self.0.execute_batch("ROLLBACK");
    }
}

/// Maps `Error::NoRow` to `None`.
pub(crate) trait OptionalExtension<T> {
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
