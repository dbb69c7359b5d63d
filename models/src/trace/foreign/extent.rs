// SPDX-License-Identifier: Apache-2.0
//! Converts ranges of bytes into requests for the pages that they touch.

use crate::error::{Error, Result};
use crate::hash::page_hash;
use crate::trace::options::Expansion;
use crate::trace::{CHUNK_REQUESTS, Chunk, TraceReader};

/// Longest range that is expanded. A longer one is assumed to be damage, or the wrong column.
const RANGE_BYTES_MAX: u64 = 1 << 30;

/// The range that one record of a block trace reads or writes.
pub(in crate::trace) struct Extent {
    /// Start of the range, in the unit of its reader.
    pub(in crate::trace) start: u64,
    /// Length in bytes.
    pub(in crate::trace) bytes: u64,
    /// The file or device that contains the range; `None` if the format has only one.
    pub(in crate::trace) space: Option<u64>,
    /// Time in nanoseconds, on a clock with any origin.
    pub(in crate::trace) time_ns: u64,
}

/// A stream of ranges.
pub(in crate::trace) trait ExtentReader: Send {
    /// Size of the unit of [`Extent::start`] in bytes.
    const UNIT_BYTES: u64;
    /// Whether [`Extent::time_ns`] is known.
    const HAS_TIMES: bool;

    /// Returns the next range, or `None` at the end of the trace.
    fn next_extent(&mut self) -> Result<Option<Extent>>;

    /// Creates an error about the last range, and ends the stream.
    fn refuse(&mut self, message: &str) -> Error;

    /// Creates the error for a trace without a range.
    fn no_requests(&mut self) -> Error;

    /// Returns the share of the input consumed, 0 to 1.
    fn progress(&self) -> f64;
}

/// The remaining requests of a range: `left` pages from page `next` on.
#[derive(Default)]
struct Pending {
    next: u64,
    left: u64,
    /// Mixed into the keys. If it is `None`, the number of a page is its key.
    space: Option<u64>,
    time_ns: u64,
}

/// The requests of a stream of ranges.
pub(in crate::trace) struct ExtentRequests<R> {
    reader: R,
    expansion: Expansion,
    pending: Pending,
    first_ns: Option<u64>,
    any: bool,
}

impl<R: ExtentReader> ExtentRequests<R> {
    pub(in crate::trace) fn new(reader: R, expansion: Expansion) -> Self {
        Self { reader, expansion, pending: Pending::default(), first_ns: None, any: false }
    }

    /// Takes the next range that touches a page. Returns false at the end of the trace.
    fn advance(&mut self) -> Result<bool> {
        while let Some(extent) = self.reader.next_extent()? {
            let (next, left) = match self.expansion {
                Expansion::Whole => (extent.start, 1),
                Expansion::Pages(page_bytes) => match pages(&extent, R::UNIT_BYTES, page_bytes) {
                    Ok(pages) => pages,
                    Err(message) => return Err(self.reader.refuse(&message)),
                },
            };
            let first_ns = *self.first_ns.get_or_insert(extent.time_ns);
            let time_ns = extent.time_ns.saturating_sub(first_ns);
            if left > 0 {
                let space = extent.space.map(|space| page_hash(page_hash(space)));
                self.pending = Pending { next, left, space, time_ns };
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the first page of a range, and the number of pages that it touches.
fn pages(
    extent: &Extent,
    unit_bytes: u64,
    page_bytes: u64,
) -> std::result::Result<(u64, u64), String> {
    if extent.bytes > RANGE_BYTES_MAX {
        let bytes = extent.bytes;
        return Err(format!("asks for {bytes} bytes, more than the {RANGE_BYTES_MAX} allowed"));
    }
    if extent.bytes == 0 {
        return Ok((0, 0));
    }
    let start = extent.start.checked_mul(unit_bytes);
    let last = start.and_then(|start| start.checked_add(extent.bytes - 1));
    let (Some(start), Some(last)) = (start, last) else {
        return Err("reaches beyond byte 2^64".into());
    };
    let first = start / page_bytes;
    Ok((first, last / page_bytes - first + 1))
}

impl<R: ExtentReader> TraceReader for ExtentRequests<R> {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS {
            if self.pending.left == 0 && !self.advance()? {
                break;
            }
            let pending = &mut self.pending;
            let count = pending.left.min((CHUNK_REQUESTS - chunk.keys.len()) as u64);
            let numbers = pending.next..pending.next + count;
            match pending.space {
                // The device is hashed twice, so that page a of device b and page b of device a get
                // different keys.
                Some(space) => chunk.keys.extend(numbers.map(|page| space ^ page_hash(page))),
                None => chunk.keys.extend(numbers),
            }
            if R::HAS_TIMES {
                chunk.times_ns.resize(chunk.keys.len(), pending.time_ns);
            }
            pending.next += count;
            pending.left -= count;
        }
        self.any |= !chunk.keys.is_empty();
        if self.any { Ok(()) } else { Err(self.reader.no_requests()) }
    }

    fn progress(&self) -> f64 {
        self.reader.progress()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, bytes: u64) -> Extent {
        Extent { start, bytes, space: None, time_ns: 0 }
    }

    #[test]
    fn a_range_touches_the_pages_of_its_first_and_last_byte() {
        for ((start, bytes), expected) in [
            ((0, 1), (0, 1)),
            ((0, 4096), (0, 1)),
            ((0, 4097), (0, 2)),
            ((4095, 1), (0, 1)),
            ((4095, 2), (0, 2)),
            ((8192, 12288), (2, 3)),
            ((7, 0), (0, 0)),
            ((u64::MAX, 1), (u64::MAX >> 12, 1)),
        ] {
            assert_eq!(pages(&range(start, bytes), 1, 4096), Ok(expected), "{start} {bytes}");
        }
        assert_eq!(pages(&range(7, 4096), 512, 4096), Ok((0, 2)), "sectors 7 to 14");
        assert_eq!(pages(&range(8, 4096), 512, 4096), Ok((1, 1)));
        assert_eq!(pages(&range(8, 4096), 512, 512), Ok((8, 8)));
    }

    #[test]
    fn impossible_ranges_are_refused() {
        assert!(pages(&range(0, RANGE_BYTES_MAX), 1, 512).is_ok());
        for (start, bytes, unit) in
            [(0, RANGE_BYTES_MAX + 1, 1), (u64::MAX, 2, 1), (1 << 55, 1, 512), (0, u64::MAX, 1)]
        {
            assert!(pages(&range(start, bytes), unit, 4096).is_err(), "{start} {bytes} {unit}");
        }
    }
}
