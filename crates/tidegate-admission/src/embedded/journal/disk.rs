//! The disk operations of the journal, as a trait so that tests can inject failures; and directories that survive a
//! power cut.
//!
//! A file is durable only with its entry in the directory, and a directory only with its own entry in its parent.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Creates a directory and those above it, and makes their entries durable.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    std::fs::create_dir_all(&path)?;
    // Always, not only for new ones: the process that created them may have died before it synced.
    for (depth, parent) in path.ancestors().skip(1).enumerate() {
        match sync_directory(parent) {
            // Above the directory that holds ours, a parent may be one that we may not open.
            Err(error) if depth > 0 => {
                tracing::debug!(%error, parent = %parent.display(), "a directory was not synced");
            }
            synced => synced?,
        }
    }
    Ok(())
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub trait Disk: Send + Sync + 'static {
    /// Creates a file of `bytes` zeros, written and synced. Later writes change no metadata, so fdatasync stays cheap.
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File>;
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let fill = || -> io::Result<()> {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
            let zeros = vec![0; 1 << 20];
            let mut at = 0;
            while at < bytes {
                let length = (bytes - at).min(zeros.len() as u64);
                file.write_all_at(&zeros[..usize::try_from(length).unwrap_or(zeros.len())], at)?;
                at += length;
            }
            file.sync_all()
        };
        if let Err(error) = fill() {
            // The first error is the one to report.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(file)
    }

    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, at)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
