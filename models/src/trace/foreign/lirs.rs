// SPDX-License-Identifier: Apache-2.0
//! Traces in the format that the authors of LIRS published (SIGMETRICS '02) and Caffeine reads: the
//! number of a block per line. A line of `*` separates parts of a trace and is not a request.

use std::path::Path;

use super::lines::Lines;
use crate::error::Result;
use crate::trace::format::Compression;
use crate::trace::text::{decimal, shown};
use crate::trace::{CHUNK_REQUESTS, Chunk, TraceReader};

const SEPARATOR: &[u8] = b"*";

/// Reads one request per line.
pub(in crate::trace) struct LirsReader {
    lines: Lines,
    any: bool,
}

impl LirsReader {
    pub(in crate::trace) fn open(path: &Path, compression: Compression) -> Result<Self> {
        Ok(Self { lines: Lines::open(path, compression)?, any: false })
    }
}

impl TraceReader for LirsReader {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS && self.lines.advance()? {
            let line = self.lines.line();
            match decimal(line) {
                Some(block) => chunk.keys.push(block),
                None if line == SEPARATOR => {}
                None => {
                    let line = shown(line);
                    let message = format!("is '{line}', expected the number of a block, or '*'");
                    return Err(self.lines.refuse(&message));
                }
            }
        }
        self.any |= !chunk.keys.is_empty();
        if self.any { Ok(()) } else { Err(self.lines.no_requests()) }
    }

    fn progress(&self) -> f64 {
        self.lines.progress()
    }
}
