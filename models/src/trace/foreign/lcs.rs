// SPDX-License-Identifier: Apache-2.0
//! libCacheSim's own format, versions 1 to 8 (`traceReader/customizedReader/lcs.h`): a header of
//! 8,192 bytes, then packed little-endian records. All records begin with the time in seconds as
//! `u32` and the object id as `u64`. As with oracleGeneral, a request is one page whatever the size
//! of its object. Operation, tenant, time to live, features and next access are not used.
//!
//! | byte of the header | type | field |
//! |---:|---|---|
//! | 0 | `u64` | magic |
//! | 8 | `u64` | version |
//! | 24 | `i64` | requests in the file; 0 when not known |
//! | 8,184 | `u64` | magic |

use std::path::Path;

use crate::error::Result;
use crate::trace::fixed::{TimedReader, u64_at};
use crate::trace::format::Compression;
use crate::trace::source::Source;
use crate::trace::{Chunk, TraceReader};

const HEADER_BYTES: usize = 8192;
const MAGIC: u64 = 0x1234_5678_9abc_def0;
const VERSION_AT: usize = 8;
const REQUESTS_AT: usize = 24;
const END_MAGIC_AT: usize = HEADER_BYTES - 8;

/// Opens `path` and checks its header.
pub(in crate::trace) fn open(
    path: &Path,
    compression: Compression,
) -> Result<Box<dyn TraceReader>> {
    let mut source = Source::open(path, compression)?;
    let mut header = vec![0; HEADER_BYTES];
    let filled = source.fill(&mut header)?;
    if filled == 0 {
        return Err(source.no_requests());
    }
    if u64_at(&header, 0) != MAGIC {
        return Err(source.format("not an lcs trace: its first 8 bytes are not the magic"));
    }
    if filled < HEADER_BYTES {
        let message = format!("truncated: the header has {filled} of {HEADER_BYTES} bytes");
        return Err(source.format(message));
    }
    if u64_at(&header, END_MAGIC_AT) != MAGIC {
        let message = format!("the header is damaged: no magic at its end, byte {END_MAGIC_AT}");
        return Err(source.format(message));
    }
    let requests = u64_at(&header, REQUESTS_AT);
    if requests > i64::MAX as u64 {
        return Err(source.format("the header is damaged: a negative number of requests"));
    }
    Ok(match u64_at(&header, VERSION_AT) {
        1 => Box::new(LcsReader::<24>::new(source, requests)),
        2 => Box::new(LcsReader::<28>::new(source, requests)),
        3 => Box::new(LcsReader::<36>::new(source, requests)),
        4 => Box::new(LcsReader::<40>::new(source, requests)),
        5 => Box::new(LcsReader::<44>::new(source, requests)),
        6 => Box::new(LcsReader::<52>::new(source, requests)),
        7 => Box::new(LcsReader::<68>::new(source, requests)),
        8 => Box::new(LcsReader::<100>::new(source, requests)),
        version => {
            let message = format!("version {version} of lcs is not known (known: 1 to 8)");
            return Err(source.format(message));
        }
    })
}

/// Reads records of `SIZE` bytes, and checks their number against the header.
struct LcsReader<const SIZE: usize> {
    requests: TimedReader<SIZE>,
    /// Number of requests that the header states and that have not been read yet.
    promised: u64,
}

impl<const SIZE: usize> LcsReader<SIZE> {
    fn new(source: Source, promised: u64) -> Self {
        Self { requests: TimedReader::new(source), promised }
    }
}

impl<const SIZE: usize> TraceReader for LcsReader<SIZE> {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        self.requests.next_chunk(chunk)?;
        self.promised = self.promised.saturating_sub(chunk.keys.len() as u64);
        if chunk.keys.is_empty() && self.promised > 0 {
            let message =
                format!("truncated: {} requests fewer than the header says", self.promised);
            return Err(self.requests.records.source.format(message));
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.requests.progress()
    }
}
