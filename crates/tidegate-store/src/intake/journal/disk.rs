//! The few things the journal asks of a disk, so that tests can make them fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub trait Disk: Send + Sync + 'static {
    /// A file of `bytes` zeros, written and synced: later writes change no metadata, so fdatasync stays one write.
    fn allocate(&self, path: &Path, bytes: u64) -> io::Result<File>;
    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The machine's disk.
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
            // A file that could not be filled is of no use; the error that matters is the first.
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
