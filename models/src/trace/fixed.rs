// SPDX-License-Identifier: Apache-2.0
//! Readers of traces whose requests are records of a fixed size.

use std::path::Path;

use super::format::Compression;
use super::source::Source;
use super::{CHUNK_REQUESTS, Chunk, TraceReader};
use crate::error::Result;

/// Number of bytes decoded at a time. A block this small is still in the L2 cache when it is copied
/// on.
const BLOCK_BYTES: usize = 128 << 10;

/// Nanoseconds per second.
pub(super) const NS_PER_S: u64 = 1_000_000_000;

/// Whole records of `SIZE` bytes from a [`Source`].
pub(super) struct Records<const SIZE: usize> {
    pub(super) source: Source,
    block: Vec<u8>,
    any: bool,
}

impl<const SIZE: usize> Records<SIZE> {
    /// Returns the records from the current position of `source` to its end.
    pub(super) fn new(source: Source) -> Self {
        Self { source, block: vec![0; BLOCK_BYTES / SIZE * SIZE], any: false }
    }

    /// Returns the next records, at most `max`; none at the end of the trace.
    ///
    /// # Errors
    /// When the stream breaks, ends inside a record, or has no record at all.
    pub(super) fn next(&mut self, max: usize) -> Result<&[[u8; SIZE]]> {
        let want = self.block.len().min(max.saturating_mul(SIZE));
        let filled = self.source.fill(&mut self.block[..want])?;
        let (records, rest) = self.block[..filled].as_chunks::<SIZE>();
        if !rest.is_empty() {
            let start = self.source.offset() - rest.len() as u64;
            let (unit, has) = (self.source.unit(), rest.len());
            return Err(self.source.format(format!(
                "truncated: the record at {unit} {start} has {has} of {SIZE} bytes"
            )));
        }
        self.any |= !records.is_empty();
        if !self.any && want > 0 {
            return Err(self.source.no_requests());
        }
        Ok(records)
    }
}

/// Little-endian `u64` page ids.
pub(super) struct U64Reader {
    records: Records<8>,
}

impl U64Reader {
    pub(super) fn open(path: &Path, packed: Compression) -> Result<Self> {
        Ok(Self { records: Records::new(Source::open(path, packed)?) })
    }
}

impl TraceReader for U64Reader {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS {
            let ids = self.records.next(CHUNK_REQUESTS - chunk.keys.len())?;
            if ids.is_empty() {
                break;
            }
            chunk.keys.extend(ids.iter().map(|id| u64::from_le_bytes(*id)));
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.records.source.progress()
    }
}

/// Size in bytes of the time at the beginning of each record of libCacheSim's formats. The object
/// id follows.
const TIME_BYTES: usize = 4;

/// Reads records of libCacheSim's formats: packed and little-endian, with the time in seconds as
/// `u32`, the object id as `u64`, and further fields that are not used. Each request counts as one
/// page.
pub(super) struct TimedReader<const SIZE: usize> {
    pub(super) records: Records<SIZE>,
    first_s: Option<u32>,
}

impl<const SIZE: usize> TimedReader<SIZE> {
    /// Returns the records from the current position of `source` to its end.
    pub(super) fn new(source: Source) -> Self {
        Self { records: Records::new(source), first_s: None }
    }
}

/// Opens a trace in the oracleGeneral format
/// (`traceReader/customizedReader/oracle/oracleGeneralBin.h`). After the object id, a record has
/// the object's size as `u32` and the next access as `i64`.
pub(super) fn open_oracle(path: &Path, packed: Compression) -> Result<TimedReader<24>> {
    Ok(TimedReader::new(Source::open(path, packed)?))
}

impl<const SIZE: usize> TraceReader for TimedReader<SIZE> {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS {
            let records = self.records.next(CHUNK_REQUESTS - chunk.keys.len())?;
            if records.is_empty() {
                break;
            }
            for record in records {
                let time_s = u32_at(record, 0);
                let first_s = *self.first_s.get_or_insert(time_s);
                chunk.keys.push(u64_at(record, TIME_BYTES));
                chunk.times_ns.push(u64::from(time_s.saturating_sub(first_s)) * NS_PER_S);
            }
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.records.source.progress()
    }
}

/// Returns the little-endian `u32` at byte `at` of a record.
#[inline(always)]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut le = [0; 4];
    le.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(le)
}

/// Returns the little-endian `u64` at byte `at` of a record.
#[inline(always)]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut le = [0; 8];
    le.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(le)
}
