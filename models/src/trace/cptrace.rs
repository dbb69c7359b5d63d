// SPDX-License-Identifier: Apache-2.0
//! Reader of the `.cptrace` format, `docs/reference/trace_format.md`.

use std::path::Path;

use super::fixed::Records;
use super::format::{Compression, Encoding};
use super::record::{HEADER_BYTES, Header, RECORD_BYTES, Record};
use super::source::Source;
use super::{CHUNK_REQUESTS, Chunk, OpenOptions, TraceReader};
use crate::error::{Error, Result};

/// Streams the records of a `.cptrace` or `.cptrace.zst` file, either whole or as page keys.
pub struct RecordReader {
    records: Records<RECORD_BYTES>,
    header: Header,
    first_ns: Option<u64>,
    /// Buffer of records for [`TraceReader::next_chunk`], kept to reuse its memory.
    scratch: Vec<Record>,
}

impl RecordReader {
    /// Opens `path` and checks its header.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Format`] when its suffix or its header
    /// is not that of a `.cptrace` file this crate can read.
    pub fn open(path: &Path) -> Result<Self> {
        let format = OpenOptions::default().detect(path)?;
        if format.encoding != Encoding::Cptrace {
            let message = format!("is a {format} trace, expected .cptrace or .cptrace.zst");
            return Err(Error::format(path, message));
        }
        Self::open_as(path, format.compression)
    }

    /// Like [`Self::open`], but does not look at the file name.
    pub(super) fn open_as(path: &Path, compression: Compression) -> Result<Self> {
        let mut source = Source::open(path, compression)?;
        let mut bytes = [0; HEADER_BYTES];
        let filled = source.fill(&mut bytes)?;
        if filled == 0 {
            return Err(source.no_requests());
        }
        if filled < HEADER_BYTES {
            let message = format!("truncated: the header has {filled} of {HEADER_BYTES} bytes");
            return Err(source.format(message));
        }
        let header = Header::decode(&bytes).map_err(|message| source.format(message))?;
        Ok(Self { records: Records::new(source), header, first_ns: None, scratch: Vec::new() })
    }

    /// Returns the header, which applies to all records.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Replaces `records` by the next ones, at most [`CHUNK_REQUESTS`]. At the end of the trace,
    /// `records` is empty.
    ///
    /// # Errors
    /// As [`TraceReader::next_chunk`].
    pub fn next_records(&mut self, records: &mut Vec<Record>) -> Result<()> {
        records.clear();
        while records.len() < CHUNK_REQUESTS {
            let block = self.records.next(CHUNK_REQUESTS - records.len())?;
            if block.is_empty() {
                break;
            }
            let (from, block_len) = (records.len(), block.len());
            if let Err(message) = decode_block(&self.header, block, records) {
                let behind = (block_len - (records.len() - from)) * RECORD_BYTES;
                let source = &mut self.records.source;
                let start = source.offset() - behind as u64;
                let unit = source.unit();
                return Err(source.format(format!("the record at {unit} {start} {message}")));
            }
        }
        Ok(())
    }
}

/// Appends the records of `block` to `records`, up to the first record that is not valid.
fn decode_block(
    header: &Header,
    block: &[[u8; RECORD_BYTES]],
    records: &mut Vec<Record>,
) -> std::result::Result<(), String> {
    for bytes in block {
        let record = Record::decode(bytes)?;
        if let Some(message) = header.contradiction(&record) {
            return Err(message.into());
        }
        records.push(record);
    }
    Ok(())
}

impl TraceReader for RecordReader {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        let mut records = std::mem::take(&mut self.scratch);
        let outcome = self.next_records(&mut records);
        self.scratch = records;
        outcome?;
        let header = self.header;
        chunk.keys.extend(self.scratch.iter().map(|record| header.page_key(record)));
        if header.has_tasks {
            chunk.tasks.extend(self.scratch.iter().map(|record| record.task));
        }
        if let (true, Some(first)) = (header.has_times, self.scratch.first()) {
            let first_ns = *self.first_ns.get_or_insert(first.time_ns);
            let since = |record: &Record| record.time_ns.saturating_sub(first_ns);
            chunk.times_ns.extend(self.scratch.iter().map(since));
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.records.source.progress()
    }
}
