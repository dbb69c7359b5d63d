// SPDX-License-Identifier: Apache-2.0
//! Traces in the format that the authors of ARC published (FAST '03) and Caffeine reads. A line has
//! the first block and the number of blocks of 512 bytes. The remaining fields are not used.

use std::path::Path;

use super::extent::{Extent, ExtentReader};
use super::lines::Lines;
use crate::error::{Error, Result};
use crate::trace::format::Compression;
use crate::trace::options::ARC_BLOCK_BYTES;
use crate::trace::text::{decimal, shown};

/// Reads one range per line.
pub(in crate::trace) struct ArcReader {
    lines: Lines,
}

impl ArcReader {
    pub(in crate::trace) fn open(path: &Path, compression: Compression) -> Result<Self> {
        Ok(Self { lines: Lines::open(path, compression)? })
    }
}

/// Parses the first block of a line and the number of blocks.
fn parse(line: &[u8]) -> Option<(u64, u64)> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    Some((decimal(fields.next()?)?, decimal(fields.next()?)?))
}

impl ExtentReader for ArcReader {
    const UNIT_BYTES: u64 = ARC_BLOCK_BYTES;
    const HAS_TIMES: bool = false;

    fn next_extent(&mut self) -> Result<Option<Extent>> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let line = self.lines.line();
        let Some((start, blocks)) = parse(line) else {
            let line = shown(line);
            let message = format!("is '{line}', expected the first block and the number of blocks");
            return Err(self.lines.refuse(&message));
        };
        // A product that does not fit exceeds the allowed length of a range.
        let bytes = blocks.saturating_mul(ARC_BLOCK_BYTES);
        Ok(Some(Extent { start, bytes, space: None, time_ns: 0 }))
    }

    fn refuse(&mut self, message: &str) -> Error {
        self.lines.refuse(message)
    }

    fn no_requests(&mut self) -> Error {
        self.lines.no_requests()
    }

    fn progress(&self) -> f64 {
        self.lines.progress()
    }
}
