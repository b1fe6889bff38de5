//! How far a ledger has come, and who else remembers it.
//!
//! SQLite drops what follows a damaged frame of its write-ahead log, and starts without a log that is missing: both
//! look like an older ledger, not like an error. So the ledger counts what it commits, in the same transactions, and a
//! witness keeps the newest count elsewhere before anybody hears of the change.

use crate::engine::{Connection, params};
use crate::tables::rows::{id, sql};
use crate::{LedgerError, Position, SqlLedger, engine, recording};

/// How far a ledger has come: both numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last recorded journal position.
    pub recorded: Position,
    /// The number of all other changes.
    pub changes: u64,
}

/// Called once the progress is kept.
pub type Kept = Box<dyn FnOnce() + Send>;

/// Keeps a ledger's progress outside of it. Called on the writer's thread: implementations must not block.
pub trait Witness: Send + Sync + 'static {
    /// After each commit, in order. With `kept`, callers wait for it.
    fn committed(&self, progress: Progress, kept: Option<Kept>);
    /// Everything recorded up to here is in the database file itself and synced: it does not need the log any more.
    fn checkpointed(&self, recorded: Position);
}

/// The progress as the current transaction sees it.
pub(crate) fn read(connection: &Connection) -> engine::Result<Progress> {
    connection.prepare_cached("SELECT recorded, changes FROM intake")?.query_row(params![], |row| {
        Ok(Progress { recorded: id(row, "recorded")?, changes: id(row, "changes")? })
    })
}

/// Counts changes of the current transaction.
pub(crate) fn count(tx: &Connection, changes: u64) -> engine::Result<()> {
    tx.execute("UPDATE intake SET changes = changes + ?1", params![sql(changes)]).map(|_| ())
}

/// Whether the ledger has this column: one that is opened read-only may be of an earlier version, or not created yet.
fn has_column(connection: &Connection, column: &str) -> engine::Result<bool> {
    let find = "SELECT 1 FROM pragma_table_info('intake') WHERE name = ?1";
    connection.prepare_cached(find)?.exists(params![column])
}

impl SqlLedger {
    /// SQLite only: every change waits for the witness from now on.
    pub fn set_witness(&self, witness: Box<dyn Witness>) {
        self.database.set_witness(witness);
    }

    /// Checks every page, row, index and constraint of SQLite's file.
    pub async fn verify(&self) -> Result<(), LedgerError> {
        self.database.verify().await
    }

    /// SQLite only.
    pub async fn progress(&self) -> Result<Progress, LedgerError> {
        self.database
            .read(|connection| {
                if has_column(connection, "changes")? {
                    return read(connection);
                }
                if !has_column(connection, "recorded")? {
                    return Ok(Progress::default());
                }
                Ok(Progress { recorded: recording::position(connection)?, changes: 0 })
            })
            .await
    }

    /// Whether this ledger has a journal, as noted by `note_journal`.
    pub async fn has_journal(&self) -> Result<bool, LedgerError> {
        self.database
            .read(|connection| {
                if !has_column(connection, "has_journal")? {
                    return Ok(false);
                }
                connection
                    .query_row("SELECT has_journal FROM intake", params![], |row| row.get("has_journal"))
            })
            .await
    }

    pub async fn note_journal(&self, has_journal: bool) -> Result<(), LedgerError> {
        let update = "UPDATE intake SET has_journal = ?1";
        self.database.write(move |tx| tx.execute(update, params![has_journal]).map(|_| ())).await
    }

    /// Declares the ledger to be at least as far as this: what it misses is given up.
    pub async fn give_up_until(&self, progress: Progress) -> Result<(), LedgerError> {
        let update = "UPDATE intake SET recorded = max(recorded, ?1), changes = max(changes, ?2)";
        let Progress { recorded, changes } = progress;
        self.database
            .write(move |tx| tx.execute(update, params![sql(recorded), sql(changes)]).map(|_| ()))
            .await
    }
}
