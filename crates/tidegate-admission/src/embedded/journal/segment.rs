//! The files of the journal: numbered segments in use, and spare files for the next segments.
//!
//! Invariants: segments in use have consecutive positions; a spare file contains no claim that the ledger's file does
//! not have without its log. The end of each segment is reserved for frames without claims, so that changes of the
//! ledger can be kept when there is no room for orders.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tidegate_core::Claim;
use tidegate_ledger::{Position, Progress};

use super::disk::{Disk, sync_directory};
use super::frame;

pub(super) const SUFFIX: &str = "seg";
pub(super) const SPARE_SUFFIX: &str = "spare";
/// Spare files beyond this are deleted.
const MAX_SPARES: usize = 8;

pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The position of its first claim.
    pub(super) first: Position,
}

pub(super) struct Segments {
    pub(super) directory: PathBuf,
    pub(super) bytes: u64,
    pub(super) disk: Box<dyn Disk>,
    /// Oldest first; the last is being written.
    pub(super) in_use: VecDeque<Segment>,
    pub(super) spares: Vec<PathBuf>,
    /// The offset of the next frame in the last segment.
    pub(super) offset: u64,
    pub(super) next_number: u64,
    pub(super) buffer: Vec<u8>,
}

/// Why a batch was not written.
pub(super) enum WriteError {
    /// No segment could be allocated; nothing was written.
    NoSpace(io::Error),
    /// A write or a sync failed; what is on disk is unknown.
    Failed(io::Error),
}

impl Segments {
    pub(super) fn path_of(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("{number:012}.{SUFFIX}"))
    }

    /// How much of a segment claims may fill.
    pub(super) fn for_claims(&self) -> u64 {
        self.bytes - self.bytes / 16
    }

    /// Writes and syncs one batch, which may be empty, with the ledger's progress.
    pub(super) fn write<'a>(
        &mut self,
        first: Position,
        progress: Progress,
        claims: impl Iterator<Item = &'a Claim> + Clone,
    ) -> Result<(), WriteError> {
        let room = if claims.clone().next().is_some() { self.for_claims() } else { self.bytes };
        let mut buffer = std::mem::take(&mut self.buffer);
        let number = self.in_use.back().map_or(0, |segment| segment.number);
        frame::write(&mut buffer, number, first, progress, claims.clone());
        if self.in_use.is_empty() || self.offset + buffer.len() as u64 > room {
            self.start_segment(first)?;
            let number = self.in_use.back().map_or(0, |segment| segment.number);
            frame::write(&mut buffer, number, first, progress, claims);
        }
        let Some(segment) = self.in_use.back() else { return Ok(()) };
        self.disk.write(&segment.file, self.offset, &buffer).map_err(WriteError::Failed)?;
        self.disk.sync(&segment.file).map_err(WriteError::Failed)?;
        self.offset += buffer.len() as u64;
        self.buffer = buffer;
        Ok(())
    }

    /// Starts the next segment, in a spare file if there is one.
    fn start_segment(&mut self, first: Position) -> Result<(), WriteError> {
        let number = self.next_number;
        let path = Self::path_of(&self.directory, number);
        if let Some(spare) = self.spares.pop() {
            std::fs::rename(&spare, &path).map_err(WriteError::NoSpace)?;
        } else {
            self.disk.allocate(&path, self.bytes).map_err(WriteError::NoSpace)?;
        }
        // Before the header: a file that has the old name after a power cut must have the old content, too.
        sync_directory(&self.directory).map_err(WriteError::Failed)?;
        let file = File::options().read(true).write(true).open(&path).map_err(WriteError::Failed)?;
        self.disk.write(&file, 0, &frame::segment_header(number, first)).map_err(WriteError::Failed)?;
        self.in_use.push_back(Segment { number, path, file, first });
        self.offset = frame::HEADER_BYTES as u64;
        self.next_number += 1;
        Ok(())
    }

    /// Writes and syncs the header and the last frame again. The previous process may have died between write and
    /// sync, so what was read may exist only in the page cache. Everything before it was synced.
    pub(super) fn resync(&mut self, last_frame: Option<(usize, usize)>) -> io::Result<()> {
        let (Some(segment), Some((start, end))) = (self.in_use.back(), last_frame) else { return Ok(()) };
        let mut frame = vec![0; end - start];
        segment.file.read_exact_at(&mut frame, start as u64)?;
        self.disk.write(&segment.file, 0, &frame::segment_header(segment.number, segment.first))?;
        self.disk.write(&segment.file, start as u64, &frame)?;
        self.disk.sync(&segment.file)
    }

    /// Turns segments into spare files whose claims are all in the ledger's file.
    pub(super) fn recycle(&mut self, through: Position) {
        while self.in_use.len() > 1 && self.in_use[1].first <= through + 1 {
            let Some(done) = self.in_use.pop_front() else { return };
            if let Err(error) = self.make_spare(&done.path, done.number) {
                let segment = done.path.display();
                tracing::warn!(%error, %segment, "a recorded journal segment could not be recycled");
            }
        }
    }

    /// Once this position is in the ledger's file, the oldest segment can be recycled. `MAX` if there is only the one
    /// being written.
    pub(super) fn recyclable_after(&self) -> Position {
        self.in_use.get(1).map_or(Position::MAX, |second| second.first - 1)
    }

    /// Synced one by one: a power cut must not leave a gap between the segments.
    pub(super) fn make_spare(&mut self, path: &Path, number: u64) -> io::Result<()> {
        if self.spares.len() >= MAX_SPARES {
            std::fs::remove_file(path)?;
            return sync_directory(&self.directory);
        }
        let spare = self.directory.join(format!("{number:012}.{SPARE_SUFFIX}"));
        std::fs::rename(path, &spare)?;
        sync_directory(&self.directory)?;
        self.spares.push(spare);
        Ok(())
    }

    /// Allocates spare files until there are `count`.
    pub(super) fn allocate_spares(&mut self, count: usize) -> io::Result<()> {
        while self.spares.len() < count.min(MAX_SPARES) {
            let number = self.next_number;
            self.next_number += 1;
            let spare = self.directory.join(format!("{number:012}.{SPARE_SUFFIX}"));
            self.disk.allocate(&spare, self.bytes)?;
            self.spares.push(spare);
        }
        sync_directory(&self.directory)
    }
}
