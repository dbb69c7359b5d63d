// SPDX-License-Identifier: Apache-2.0
//! Traces of VMware's vscsiStats, versions 1 and 2, as libCacheSim reads them
//! (`traceReader/customizedReader/vscsi.h`). Records are little-endian and without padding:
//!
//! | field | v1: byte | v2: byte |
//! |---|---:|---:|
//! | command `u16` | 12 | 0 |
//! | version `u16`, of which the high byte counts | 14 | 2 |
//! | serial number `u32` | 0 | 4 |
//! | length in bytes `u32` | 4 | 8 |
//! | scatter-gather entries `u32` | 8 | 12 |
//! | first sector `u64`, of 512 bytes | 16 | 16 |
//! | time in microseconds `u64` | 24 | 24 |
//! | response time `u64` | | 32 |

use std::path::Path;

use super::extent::{Extent, ExtentReader};
use crate::error::{Error, Result};
use crate::trace::fixed::{u32_at, u64_at};
use crate::trace::format::Compression;
use crate::trace::source::Source;

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;
/// Positions of the high byte of the version.
const V1_VERSION_AT: usize = 15;
const V2_VERSION_AT: usize = 3;
const SECTOR_AT: usize = 16;
const TIME_AT: usize = 24;
const NS_PER_US: u64 = 1000;

/// Layout of the records of a file.
#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the version of a file, given its first record. The byte that is 1 in the first
    /// version is the highest byte of the number of scatter-gather entries in the second, where it
    /// is 0 in any real request.
    fn of(first: &[u8; V1_BYTES]) -> Option<Self> {
        [Self::One, Self::Two].into_iter().find(|version| version.is_that_of(first))
    }

    fn is_that_of(self, record: &[u8]) -> bool {
        match self {
            Self::One => record[V1_VERSION_AT] == 1,
            Self::Two => record[V2_VERSION_AT] == 2,
        }
    }

    fn record_bytes(self) -> usize {
        match self {
            Self::One => V1_BYTES,
            Self::Two => V2_BYTES,
        }
    }

    fn length_at(self) -> usize {
        match self {
            Self::One => 4,
            Self::Two => 8,
        }
    }
}

/// Reads one range per record.
pub(in crate::trace) struct VscsiReader {
    source: Source,
    version: Version,
    record: [u8; V2_BYTES],
    /// Number of bytes of the next record that were already read to determine the version.
    read: usize,
}

impl VscsiReader {
    /// Opens `path`, and determines the version of its records.
    pub(in crate::trace) fn open(path: &Path, compression: Compression) -> Result<Self> {
        let mut source = Source::open(path, compression)?;
        let mut first = [0; V1_BYTES];
        let filled = source.fill(&mut first)?;
        if filled == 0 {
            return Err(source.no_requests());
        }
        if filled < V1_BYTES {
            let message =
                format!("truncated: the record at byte 0 has {filled} of {V1_BYTES} bytes or more");
            return Err(source.format(message));
        }
        let Some(version) = Version::of(&first) else {
            return Err(source.format("the first record is of neither version 1 nor 2 of vscsi"));
        };
        let mut record = [0; V2_BYTES];
        record[..V1_BYTES].copy_from_slice(&first);
        Ok(Self { source, version, record, read: V1_BYTES })
    }

    /// Returns the position at which the current record starts.
    fn start(&self) -> u64 {
        self.source.offset() - self.version.record_bytes() as u64
    }
}

impl ExtentReader for VscsiReader {
    const UNIT_BYTES: u64 = 512;
    const HAS_TIMES: bool = true;

    fn next_extent(&mut self) -> Result<Option<Extent>> {
        let size = self.version.record_bytes();
        let filled = self.read + self.source.fill(&mut self.record[self.read..size])?;
        self.read = 0;
        if filled == 0 {
            return Ok(None);
        }
        let unit = self.source.unit();
        if filled < size {
            let start = self.source.offset() - filled as u64;
            let message =
                format!("truncated: the record at {unit} {start} has {filled} of {size} bytes");
            return Err(self.source.format(message));
        }
        if !self.version.is_that_of(&self.record) {
            return Err(self.refuse("is of another version than the first"));
        }
        Ok(Some(Extent {
            start: u64_at(&self.record, SECTOR_AT),
            bytes: u32_at(&self.record, self.version.length_at()).into(),
            space: None,
            time_ns: u64_at(&self.record, TIME_AT).saturating_mul(NS_PER_US),
        }))
    }

    fn refuse(&mut self, message: &str) -> Error {
        let (unit, start) = (self.source.unit(), self.start());
        self.source.format(format!("the record at {unit} {start} {message}"))
    }

    fn no_requests(&mut self) -> Error {
        self.source.no_requests()
    }

    fn progress(&self) -> f64 {
        self.source.progress()
    }
}
