//! The data directory, locked so that one process at a time uses it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::journal::disk::{create_directory, sync_directory};

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error(
        "the data directory {} is in use by another process; stop it, or choose another with --data-dir",
        .0.display()
    )]
    InUse(PathBuf),
    #[error("the data directory {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// Locked until dropped. The operating system releases the lock when the process ends, however that happens.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    pub fn lock(path: &Path) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Io { path: path.to_owned(), source };
        create_directory(path).map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Makes the names of the files in it durable.
    pub fn sync(&self) -> Result<(), DataDirError> {
        sync_directory(&self.path).map_err(|source| DataDirError::Io { path: self.path.clone(), source })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
