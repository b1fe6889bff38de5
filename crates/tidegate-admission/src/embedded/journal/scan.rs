//! Reading a journal: opens it and drops a torn write at the very end, or only looks at it; refuses any other damage.
//!
//! One batch is written at a time, so a crash can tear only the last frame. An unreadable frame with an intact frame
//! behind it is damage, not a torn write.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::Claim;
use tidegate_ledger::{Position, Progress};

use super::disk::{Disk, create_directory, sync_directory};
use super::frame;
use super::segment::{SPARE_SUFFIX, SUFFIX, Segment, Segments};
use super::{JournalOptions, OpenError};

pub(super) fn open(
    options: &JournalOptions,
    recorded: Position,
    disk: Box<dyn Disk>,
) -> Result<(Segments, Vec<Claim>, Progress), OpenError> {
    let directory = &options.directory;
    let failed = |source| OpenError::Io { path: directory.clone(), source };
    create_directory(directory).map_err(failed)?;
    let (numbered, spares) = list(directory).map_err(failed)?;
    let highest = numbered.iter().chain(&spares).map(|(number, _)| *number).max().unwrap_or(0);
    let mut segments = Segments {
        directory: directory.clone(),
        bytes: options.segment_bytes,
        disk,
        in_use: VecDeque::new(),
        spares: spares.into_iter().map(|(_, path)| path).collect(),
        offset: 0,
        next_number: highest + 1,
        buffer: Vec::new(),
    };
    let mut read = Reading::new(recorded);
    for (at, (number, path)) in numbered.iter().enumerate() {
        let bytes = read_whole(path).map_err(failed)?;
        let last = at + 1 == numbered.len();
        match read.segment(*number, path, &bytes)? {
            Some((first, offset)) => {
                let file = File::options().read(true).write(true).open(path).map_err(failed)?;
                segments.in_use.push_back(Segment { number: *number, path: path.clone(), file, first });
                segments.offset = offset as u64;
            }
            // The process died before it wrote the header.
            None if last => segments.make_spare(path, *number).map_err(failed)?,
            None => return Err(damaged(path, 0, "its header cannot be read")),
        }
    }
    segments.resync(read.last_frame).map_err(failed)?;
    read.check_against_ledger(directory, segments.in_use.front().map(|segment| segment.first))?;
    let estimated = options.max_unrecorded as u64 * TYPICAL_CLAIM_BYTES / options.segment_bytes.max(1) + 2;
    segments.allocate_spares(usize::try_from(estimated).unwrap_or(2)).map_err(failed)?;
    sync_directory(directory).map_err(failed)?;
    Ok((segments, read.unrecorded, read.progress.unwrap_or_default()))
}

/// What a journal holds, found without changing it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::embedded) struct Contents {
    /// The positions of its first claim and behind its last one; `None` without any segment.
    pub(in crate::embedded) claims: Option<(Position, Position)>,
    /// The ledger's progress as of the last frame that has it.
    pub(in crate::embedded) progress: Option<Progress>,
}

/// Looks at the journal in this directory, also while a server writes to it.
pub(in crate::embedded) fn look(directory: &Path) -> Result<Contents, OpenError> {
    let mut looks = 1;
    loop {
        match look_once(directory) {
            // A file that is read while it is written can look damaged, and one that is recycled is gone.
            Err(_) if looks < LOOKS => std::thread::sleep(BETWEEN_LOOKS),
            found => return found,
        }
        looks += 1;
    }
}

const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

fn look_once(directory: &Path) -> Result<Contents, OpenError> {
    let failed = |source| OpenError::Io { path: directory.to_owned(), source };
    let numbered = match list(directory) {
        Ok((numbered, _)) => numbered,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(failed(error)),
    };
    let mut read = Reading::new(Position::MAX);
    let mut first = None;
    for (at, (number, path)) in numbered.iter().enumerate() {
        match read.segment(*number, path, &read_whole(path).map_err(failed)?)? {
            Some((begins_with, _)) => first = first.or(Some(begins_with)),
            None if at + 1 == numbered.len() => {}
            None => return Err(damaged(path, 0, "its header cannot be read")),
        }
    }
    Ok(Contents { claims: first.zip(read.expected), progress: read.progress })
}

/// What a claim for one unit takes up, for guessing how many files a full backlog needs.
const TYPICAL_CLAIM_BYTES: u64 = 96;

struct Reading {
    /// The position the next frame must have.
    expected: Option<Position>,
    unrecorded: Vec<Claim>,
    recorded: Position,
    /// The start and end of the very last frame, in its segment.
    last_frame: Option<(usize, usize)>,
    /// The ledger's progress in the last frame that has it.
    progress: Option<Progress>,
}

impl Reading {
    fn new(recorded: Position) -> Self {
        Self { expected: None, unrecorded: Vec::new(), recorded, last_frame: None, progress: None }
    }

    /// Reads the frames of one segment. Returns its first position and the offset behind its last intact frame;
    /// `None` if it was never written.
    fn segment(
        &mut self,
        number: u64,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Option<(Position, usize)>, OpenError> {
        let first = match frame::read_segment_header(bytes) {
            Some((written, first)) if written == number => first,
            _ if holds_frame(bytes, frame::HEADER_BYTES, number) => {
                return Err(damaged(path, 0, "its header cannot be read"));
            }
            _ => return Ok(None),
        };
        if self.expected.is_some_and(|expected| expected != first) {
            let what = format!("it begins with claim {first}, but {:?} comes next", self.expected);
            return Err(damaged(path, 0, &what));
        }
        let mut expected = first;
        self.last_frame = None;
        let mut offset = frame::HEADER_BYTES;
        while let Some(frame) = bytes.get(offset..).and_then(|rest| frame::read(rest, number)) {
            if frame.first != expected {
                let what = format!("claim {expected} should come next, but {} does", frame.first);
                return Err(damaged(path, offset, &what));
            }
            let claims = frame
                .claims()
                .map_err(|error| damaged(path, offset, &format!("its claims cannot be read: {error}")))?;
            let known = self.recorded.saturating_sub(frame.first - 1);
            self.unrecorded.extend(claims.into_iter().skip(usize::try_from(known).unwrap_or(usize::MAX)));
            expected += u64::from(frame.count);
            self.progress = frame.progress.or(self.progress);
            self.last_frame = Some((offset, offset + frame.bytes));
            offset += frame.bytes;
        }
        if holds_frame(bytes, offset, number) {
            return Err(damaged(path, offset, "the checksum does not match"));
        }
        self.expected = Some(expected);
        Ok(Some((first, offset)))
    }

    fn check_against_ledger(&self, directory: &Path, first: Option<Position>) -> Result<(), OpenError> {
        let (Some(first), Some(next)) = (first, self.expected) else { return Ok(()) };
        let foreign =
            |holds| Err(OpenError::Foreign { path: directory.to_owned(), recorded: self.recorded, holds });
        if next <= self.recorded {
            return foreign(format!("ends with {}", next - 1));
        }
        if first > self.recorded + 1 {
            return foreign(format!("begins with {first}"));
        }
        Ok(())
    }
}

/// Whether there is an intact frame of this segment anywhere from offset `from` on.
fn holds_frame(bytes: &[u8], from: usize, number: u64) -> bool {
    (from..bytes.len())
        .step_by(frame::ALIGNMENT)
        .any(|at| bytes.get(at..).and_then(|rest| frame::read(rest, number)).is_some())
}

fn damaged(path: &Path, offset: usize, what: &str) -> OpenError {
    OpenError::Damaged { path: path.to_owned(), offset: offset as u64, what: what.to_owned() }
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

type Numbered = Vec<(u64, PathBuf)>;

/// Segments and spare files, each ordered by number.
fn list(directory: &Path) -> io::Result<(Numbered, Numbered)> {
    let (mut segments, mut spares) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        match (number, path.extension().and_then(|suffix| suffix.to_str())) {
            (Some(number), Some(SUFFIX)) => segments.push((number, path)),
            (Some(number), Some(SPARE_SUFFIX)) => spares.push((number, path)),
            _ => {}
        }
    }
    segments.sort_unstable();
    spares.sort_unstable();
    Ok((segments, spares))
}
