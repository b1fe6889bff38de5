//! One transaction of the writer: its changes, each in a savepoint, and their number, which is committed with them.

use tokio::sync::OwnedSemaphorePermit;

use crate::engine::{Connection, explain, sqlite};
use crate::{LedgerError, Progress, progress};

pub(super) type Answer = Box<dyn FnOnce(Result<(), LedgerError>) + Send>;

/// Runs the change, or takes the error that prevents it; returns the callback that answers after the commit.
pub(super) type Work =
    Box<dyn FnOnce(Result<&Connection, LedgerError>) -> (Result<(), LedgerError>, Answer) + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// May share its transaction with others.
    Shared,
    /// Runs in a transaction of its own, without a savepoint.
    Alone,
    /// The same, for claims that the journal keeps: recorded again, they give the same rows.
    Claims,
}

pub(super) struct Job {
    pub(super) work: Work,
    pub(super) kind: Kind,
    /// Held until the change is done, even if its caller is gone.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// What a transaction has done.
pub(super) struct Committed {
    /// How far the ledger is now; `None` if nothing was changed.
    pub(super) progress: Option<Progress>,
    /// There were changes other than recorded claims, which only the ledger has.
    pub(super) must_be_kept: bool,
}

/// Runs the group in one transaction. A failing change is rolled back to its savepoint.
pub(super) fn commit(
    connection: &Connection,
    group: Vec<Job>,
    before: Option<Progress>,
) -> (Result<Committed, LedgerError>, Vec<Answer>) {
    let mut answers = Vec::with_capacity(group.len());
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let error = explain(&error);
        let answers = refuse(group, &error);
        return (Err(error), answers);
    }
    let mut trouble = None;
    let (mut changes, mut claims) = (0, false);
    for job in group {
        if let Some(error) = &trouble {
            answers.extend(refuse(vec![job], error));
            continue;
        }
        let (kind, rows) = (job.kind, sqlite::changed_rows(connection));
        let (done, answer) = attempt(connection, job);
        answers.push(answer);
        match done {
            Ok(Done::Changed) if sqlite::changed_rows(connection) > rows => match kind {
                Kind::Claims => claims = true,
                Kind::Shared | Kind::Alone => changes += 1,
            },
            Ok(_) => {}
            Err(error) => trouble = Some(error),
        }
    }
    let outcome = match trouble {
        Some(error) => Err(error),
        None => count(connection, before, changes, claims).and_then(|committed| {
            connection.execute_batch("COMMIT").map_err(|error| explain(&error))?;
            Ok(committed)
        }),
    };
    if outcome.is_err() && sqlite::is_in_transaction(connection) {
        // The transaction is lost either way; the first error is the one to report.
        let _ = connection.execute_batch("ROLLBACK");
    }
    (outcome, answers)
}

/// Counts the changes in their own transaction. Nobody else counts: any other number than the last one means that the
/// file was exchanged beneath this process.
fn count(
    connection: &Connection,
    before: Option<Progress>,
    changes: u64,
    claims: bool,
) -> Result<Committed, LedgerError> {
    if changes == 0 && !claims {
        return Ok(Committed { progress: None, must_be_kept: false });
    }
    if changes > 0 {
        progress::count(connection, changes).map_err(|error| explain(&error))?;
    }
    let now = progress::read(connection).map_err(|error| explain(&error))?;
    match before {
        Some(before) if now.changes != before.changes + changes => Err(LedgerError::Damaged(format!(
            "it has {} changes where {} were committed: the file was exchanged while it was in use",
            now.changes,
            before.changes + changes
        ))),
        _ => Ok(Committed { progress: Some(now), must_be_kept: changes > 0 }),
    }
}

/// What became of one change.
enum Done {
    Changed,
    /// Rolled back to its savepoint.
    Undone,
}

/// Runs one change. `Err` only if the whole transaction must be rolled back.
fn attempt(connection: &Connection, job: Job) -> (Result<Done, LedgerError>, Answer) {
    if job.kind != Kind::Shared {
        let (done, answer) = (job.work)(Ok(connection));
        return (done.map(|()| Done::Changed), answer);
    }
    if let Err(error) = connection.execute_batch("SAVEPOINT change") {
        let (_, answer) = (job.work)(Err(explain(&error)));
        return (Err(explain(&error)), answer);
    }
    let (done, answer) = (job.work)(Ok(connection));
    let (undo, outcome) = match &done {
        Ok(()) => ("RELEASE change", Done::Changed),
        Err(_) => ("ROLLBACK TO change; RELEASE change", Done::Undone),
    };
    let fatal = match done {
        // A full disk, for example, ends the transaction.
        Err(error @ (LedgerError::Unavailable(_) | LedgerError::Failed(_) | LedgerError::Damaged(_))) => {
            Some(error)
        }
        _ => connection.execute_batch(undo).err().map(|error| explain(&error)),
    };
    (fatal.map_or(Ok(outcome), Err), answer)
}

/// Answers every job of the group with this error, without running any.
pub(super) fn refuse(group: Vec<Job>, error: &LedgerError) -> Vec<Answer> {
    group.into_iter().map(|job| (job.work)(Err(error.clone())).1).collect()
}
