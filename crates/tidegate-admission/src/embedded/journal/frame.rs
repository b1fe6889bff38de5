//! The on-disk format of the journal: segment headers and frames, each with a checksum.
//!
//! A frame is one batch: magic, payload length, position of its first claim, number of claims, checksum, payload;
//! integers are little-endian, and a frame is padded to eight bytes. The payload is the ledger's progress, as known
//! when the frame was written, and the claims, which may be none. The magic identifies the format version. Version 1
//! had orders only, versions 1 and 2 no progress; both are still read. The checksum covers the number of the segment,
//! so that frames left from an earlier use of a recycled file are never read.

use serde::Deserialize;
use tidegate_core::{CampaignId, Claim, ClaimId, Granted, IdempotencyKey, Moment, Money, Slots, UserId};
use tidegate_ledger::{Position, Progress};

const SEGMENT_MAGIC: &[u8; 8] = b"TIDEJNL1";
const FRAME_MAGIC: &[u8; 4] = b"FRM3";
const FRAME_MAGIC_V2: &[u8; 4] = b"FRM2";
const FRAME_MAGIC_V1: &[u8; 4] = b"FRM1";
pub(super) const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const PROGRESS_BYTES: usize = 16;
pub(super) const ALIGNMENT: usize = 8;

/// The header of a segment: its number and the position of its first claim.
pub(super) fn segment_header(number: u64, first: Position) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(SEGMENT_MAGIC);
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&first.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..24]);
    header[24..28].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The number and first position of a segment; `None` if its checksum does not match.
pub(super) fn read_segment_header(bytes: &[u8]) -> Option<(u64, Position)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let intact = header[..8] == *SEGMENT_MAGIC && u32_at(header, 24)? == crc32c::crc32c(&header[..24]);
    if intact { Some((u64_at(header, 8)?, u64_at(header, 16)?)) } else { None }
}

/// Encodes the claims as one frame; `buffer` is cleared first.
pub(super) fn write<'a>(
    buffer: &mut Vec<u8>,
    segment: u64,
    first: Position,
    progress: Progress,
    claims: impl Iterator<Item = &'a Claim>,
) {
    buffer.clear();
    buffer.resize(FRAME_HEADER_BYTES, 0);
    buffer.extend(progress.recorded.to_le_bytes());
    buffer.extend(progress.changes.to_le_bytes());
    let mut count = 0_u32;
    for claim in claims {
        let start = buffer.len();
        buffer.resize(start + MAX_CLAIM_BYTES, 0);
        // See MAX_CLAIM_BYTES: every claim fits.
        let written = postcard::to_slice(claim, &mut buffer[start..]).map_or(0, |bytes| bytes.len());
        assert!(written > 0, "a claim is larger than {MAX_CLAIM_BYTES} bytes");
        buffer.truncate(start + written);
        count += 1;
    }
    let length = u32::try_from(buffer.len() - FRAME_HEADER_BYTES).unwrap_or(u32::MAX);
    buffer[..4].copy_from_slice(FRAME_MAGIC);
    buffer[4..8].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&first.to_le_bytes());
    buffer[16..20].copy_from_slice(&count.to_le_bytes());
    let checksum = checksum(segment, buffer);
    buffer[20..24].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(ALIGNMENT), 0);
}

/// An upper bound of an encoded claim: 128 bytes of fixed fields, five for each of at most 100 slots, and four for
/// each of at most 64 characters of a player's seed.
pub(super) const MAX_CLAIM_BYTES: usize = 1024;

/// A claim in format version 1.
#[derive(Deserialize)]
struct ClaimV1 {
    id: ClaimId,
    user: UserId,
    campaign: CampaignId,
    epoch: u32,
    version: u64,
    slots: Slots,
    unit_price: Money,
    created_at: Moment,
    pay_by: Moment,
    key: Option<IdempotencyKey>,
}

impl From<ClaimV1> for Claim {
    fn from(old: ClaimV1) -> Self {
        let ClaimV1 { id, user, campaign, epoch, version, slots, unit_price, created_at, pay_by, key } = old;
        let granted = Granted::Order { unit_price, pay_by };
        Self { id, user, campaign, epoch, version, slots, created_at, key, granted }
    }
}

/// A frame that was read and whose checksum matches.
pub(super) struct Frame<'a> {
    is_v1: bool,
    /// `None` in frames before version 3.
    pub(super) progress: Option<Progress>,
    pub(super) first: Position,
    pub(super) count: u32,
    pub(super) bytes: usize,
    payload: &'a [u8],
}

impl Frame<'_> {
    pub(super) fn claims(&self) -> Result<Vec<Claim>, postcard::Error> {
        let mut rest = self.payload;
        (0..self.count)
            .map(|_| {
                let (claim, left) = if self.is_v1 {
                    let (old, left) = postcard::take_from_bytes::<ClaimV1>(rest)?;
                    (old.into(), left)
                } else {
                    postcard::take_from_bytes(rest)?
                };
                rest = left;
                Ok(claim)
            })
            .collect()
    }
}

/// The frame at the beginning of `bytes`; `None` unless it is an intact frame of this segment.
pub(super) fn read(bytes: &[u8], segment: u64) -> Option<Frame<'_>> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    let magic = &header[..4];
    let (is_v1, has_progress) = (magic == FRAME_MAGIC_V1, magic == FRAME_MAGIC);
    if !is_v1 && !has_progress && magic != FRAME_MAGIC_V2 {
        return None;
    }
    let end = FRAME_HEADER_BYTES.checked_add(u32_at(header, 4)? as usize)?;
    let whole = bytes.get(..end)?;
    if u32_at(header, 20)? != checksum(segment, whole) {
        return None;
    }
    let mut payload = &whole[FRAME_HEADER_BYTES..];
    let progress = if has_progress {
        let progress = Progress { recorded: u64_at(payload, 0)?, changes: u64_at(payload, 8)? };
        payload = &payload[PROGRESS_BYTES..];
        Some(progress)
    } else {
        None
    };
    Some(Frame {
        is_v1,
        progress,
        first: u64_at(header, 8)?,
        count: u32_at(header, 16)?,
        bytes: end.next_multiple_of(ALIGNMENT),
        payload,
    })
}

fn checksum(segment: u64, frame: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&segment.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &frame[..20]);
    crc32c::crc32c_append(sum, &frame[FRAME_HEADER_BYTES..])
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_testing::conformance::{NOW, claim, price};

    /// A journal written before draws existed.
    #[test]
    fn frames_of_version_1_are_read() {
        let expected = claim(5, 6, &[7, 8]);
        let Claim { id, user, campaign, epoch, version, slots, created_at, key, .. } = expected.clone();
        let pay_by = NOW + std::time::Duration::from_secs(60);
        let old = (id, user, campaign, epoch, version, slots, price(), created_at, pay_by, key);
        let payload = postcard::to_stdvec(&old).unwrap();
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        frame.extend(&payload);
        frame[..4].copy_from_slice(FRAME_MAGIC_V1);
        frame[4..8].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        frame[8..16].copy_from_slice(&9_u64.to_le_bytes());
        frame[16..20].copy_from_slice(&1_u32.to_le_bytes());
        let sum = checksum(3, &frame);
        frame[20..24].copy_from_slice(&sum.to_le_bytes());
        let read = read(&frame, 3).unwrap();
        assert_eq!((read.first, read.progress, read.claims().unwrap()), (9, None, vec![expected]));
    }

    /// A journal written before it knew the ledger's progress.
    #[test]
    fn frames_of_version_2_are_read() {
        let expected = claim(5, 6, &[7, 8]);
        let mut frame = Vec::new();
        write(&mut frame, 3, 9, Progress::default(), std::iter::once(&expected));
        frame.drain(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + PROGRESS_BYTES);
        let length = u32_at(&frame, 4).unwrap() - 16;
        frame[..4].copy_from_slice(FRAME_MAGIC_V2);
        frame[4..8].copy_from_slice(&length.to_le_bytes());
        frame.truncate(FRAME_HEADER_BYTES + length as usize);
        let sum = checksum(3, &frame);
        frame[20..24].copy_from_slice(&sum.to_le_bytes());
        let read = read(&frame, 3).unwrap();
        assert_eq!((read.first, read.progress, read.claims().unwrap()), (9, None, vec![expected]));
    }
}
