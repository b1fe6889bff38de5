//! The journal's bytes: segment headers and frames, each with its checksum.
//!
//! A frame is one batch: magic, payload length, position of its first claim, number of claims, checksum, payload, all
//! little-endian and padded to eight bytes. The checksum covers the segment's number, so that what an
//! earlier life of a reused segment left behind never reads as a frame of this one.

use tidegate_core::Claim;

use super::super::Position;

const SEGMENT_MAGIC: &[u8; 8] = b"TIDEJNL1";
const FRAME_MAGIC: &[u8; 4] = b"FRM1";
pub(super) const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
pub(super) const ALIGNMENT: usize = 8;

/// `number` and the position of the first claim the segment may hold.
pub(super) fn segment_header(number: u64, first: Position) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(SEGMENT_MAGIC);
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&first.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..24]);
    header[24..28].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The number and first position a header tells, if its checksum holds.
pub(super) fn read_segment_header(bytes: &[u8]) -> Option<(u64, Position)> {
    let header = bytes.get(..HEADER_BYTES)?;
    let intact = header[..8] == *SEGMENT_MAGIC && u32_at(header, 24)? == crc32c::crc32c(&header[..24]);
    if intact { Some((u64_at(header, 8)?, u64_at(header, 16)?)) } else { None }
}

/// Writes the claims as one frame into `buffer`, which is emptied first.
pub(super) fn write<'a>(
    buffer: &mut Vec<u8>,
    segment: u64,
    first: Position,
    claims: impl Iterator<Item = &'a Claim>,
) {
    buffer.clear();
    buffer.resize(FRAME_HEADER_BYTES, 0);
    let mut count = 0_u32;
    for claim in claims {
        let start = buffer.len();
        buffer.resize(start + MAX_CLAIM_BYTES, 0);
        // A claim has at most MAX_QUANTITY slots of five bytes and small fields: it always fits.
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

/// An upper bound on one claim's bytes: fixed fields below 128, and five bytes for each of at most 100 slots.
pub(super) const MAX_CLAIM_BYTES: usize = 1024;

/// One frame as it was read.
pub(super) struct Frame<'a> {
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
                let (claim, left) = postcard::take_from_bytes(rest)?;
                rest = left;
                Ok(claim)
            })
            .collect()
    }
}

/// The frame that starts at the beginning of `bytes`, if there is an intact one of this segment.
pub(super) fn read(bytes: &[u8], segment: u64) -> Option<Frame<'_>> {
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    if header[..4] != *FRAME_MAGIC {
        return None;
    }
    let end = FRAME_HEADER_BYTES.checked_add(u32_at(header, 4)? as usize)?;
    let whole = bytes.get(..end)?;
    if u32_at(header, 20)? != checksum(segment, whole) {
        return None;
    }
    Some(Frame {
        first: u64_at(header, 8)?,
        count: u32_at(header, 16)?,
        bytes: end.next_multiple_of(ALIGNMENT),
        payload: &whole[FRAME_HEADER_BYTES..],
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
