//! Whether the ledger still has everything that its journal has seen of it.
//!
//! Compared before anything is recorded. Claims that the ledger has lost are recorded again, since the journal keeps
//! them until they are in the ledger's file. Other changes exist only in the ledger: without them nothing starts until
//! an operator has restored a backup or accepted the loss.

use std::path::{Path, PathBuf};

use tidegate_ledger::{Position, Progress};

use super::journal::{self, Contents, OpenError};

/// The journal's directory in a data directory.
pub fn journal_in(data_dir: &Path) -> PathBuf {
    data_dir.join("journal")
}

/// What the journal has and the ledger has not, and nobody can repair without a decision.
#[derive(Debug, thiserror::Error)]
pub enum Loss {
    #[error(
        "the ledger in {0} has gone backwards: {1} confirmed changes (payments, cancellations, refunds, settings) are \
         missing. ledger.db-wal was damaged or removed, or ledger.db was replaced by an older copy. Restore the whole \
         directory from a backup, or accept that they are lost with `tidegate accept-loss --data-dir {0}` and then \
         reconcile with your payment provider", data_dir.display(), changes
    )]
    Changes { data_dir: PathBuf, changes: u64 },
    #[error(
        "the journal in {0} is missing, and with it every accepted order that was not recorded yet. Put it back, or \
         accept the loss with `tidegate accept-loss --data-dir {0}`", data_dir.display()
    )]
    Journal { data_dir: PathBuf },
    #[error(
        "the ledger in {0} has gone backwards: it has recorded {recorded} orders and plays, but the journal begins \
         with number {first}, so those between are missing. Restore the whole directory from a backup, or accept \
         that they are lost with `tidegate accept-loss --data-dir {0}`", data_dir.display()
    )]
    Claims { data_dir: PathBuf, recorded: Position, first: Position },
    #[error(
        "the journal in {0} ends with number {last}, but the ledger has recorded {recorded} orders and plays: the end \
         of the journal is damaged, or it belongs to another ledger. Restore the whole directory from a backup, or \
         accept that orders which were not recorded are lost with `tidegate accept-loss --data-dir {0}`",
        data_dir.display()
    )]
    JournalEnd { data_dir: PathBuf, recorded: Position, last: Position },
}

/// What a journal and its ledger say about each other.
#[derive(Debug)]
pub struct Comparison {
    /// Claims that the ledger had recorded and has lost; the journal still has them.
    pub recorded_again: u64,
    /// What is lost for good.
    pub losses: Vec<Loss>,
    /// The least progress with which nothing is missed any more.
    pub accepted: Progress,
}

/// The journal of a data directory, as found before the ledger was looked at: beside a running server it must not be
/// the newer of the two.
#[derive(Debug)]
pub struct JournalFound {
    data_dir: PathBuf,
    contents: Contents,
}

impl JournalFound {
    pub fn look(data_dir: &Path) -> Result<Self, OpenError> {
        let contents = journal::look(&journal_in(data_dir))?;
        Ok(Self { data_dir: data_dir.to_owned(), contents })
    }

    /// Compares it with its ledger, which knows whether there must be a journal at all.
    pub fn compare(&self, ledger: Progress, must_exist: bool) -> Comparison {
        let data_dir = || self.data_dir.clone();
        let Progress { recorded, changes } = ledger;
        let mut accepted = ledger;
        let mut losses = Vec::new();
        let seen = self.contents.progress.unwrap_or_default();
        if seen.changes > changes {
            losses.push(Loss::Changes { data_dir: data_dir(), changes: seen.changes - changes });
            accepted.changes = seen.changes;
        }
        match self.contents.claims {
            None if must_exist => losses.push(Loss::Journal { data_dir: data_dir() }),
            None => {}
            Some((first, _)) if first > recorded + 1 => {
                losses.push(Loss::Claims { data_dir: data_dir(), recorded, first });
                accepted.recorded = first - 1;
            }
            Some((_, next)) if next <= recorded => {
                losses.push(Loss::JournalEnd { data_dir: data_dir(), recorded, last: next - 1 });
            }
            Some(_) => {}
        }
        let recorded_again = seen.recorded.saturating_sub(accepted.recorded);
        Comparison { recorded_again, losses, accepted }
    }
}
