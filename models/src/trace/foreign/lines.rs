// SPDX-License-Identifier: Apache-2.0
//! Lines of a text trace, of bounded length, with errors that name the line.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

use crate::error::{Error, Result};
use crate::trace::format::Compression;
use crate::trace::source::Source;

/// Longest line accepted, bytes. Otherwise binary data could be read as one line.
const LINE_BYTES_MAX: usize = 4096;
/// Number of bytes decompressed at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// First bytes of a gzip member and of a zstd frame.
const PACKED: [(&[u8], &str, &str); 2] =
    [(b"\x1f\x8b\x08", "gzip", ".gz"), (b"\x28\xb5\x2f\xfd", "zstd", ".zst")];

/// The lines of a file that are not blank.
pub(super) struct Lines {
    input: BufReader<Source>,
    line: Vec<u8>,
    /// Number of the current line, from 1.
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path, compression: Compression) -> Result<Self> {
        let source = Source::open(path, compression)?;
        let input = BufReader::with_capacity(BUFFER_BYTES, source);
        Ok(Self { input, line: Vec::new(), number: 0 })
    }

    /// Moves to the next line that is not blank. Returns false at the end of the file.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.input.get_mut().check_good()?;
        loop {
            self.line.clear();
            self.read_line()?;
            if self.line.is_empty() {
                return Ok(false);
            }
            self.number += 1;
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Appends the bytes up to the end of the next line or of the file.
    fn read_line(&mut self) -> Result<()> {
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.input.get_mut().explain(e)),
            };
            let start = self.number == 0 && self.line.is_empty();
            if let Some((_, kind, suffix)) =
                PACKED.iter().find(|(magic, ..)| start && bytes.starts_with(magic))
            {
                let message = format!("holds {kind} data, but is not named {suffix}");
                return Err(self.input.get_mut().format(message));
            }
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |end| end + 1);
            if self.line.len() + taken > LINE_BYTES_MAX {
                let number = self.number + 1;
                let message = format!("line {number} is longer than {LINE_BYTES_MAX} bytes");
                return Err(self.input.get_mut().format(message));
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.input.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(());
            }
        }
    }

    /// Returns the current line without surrounding spaces.
    pub(super) fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Returns whether the current line is the first of the file.
    pub(super) fn is_first(&self) -> bool {
        self.number == 1
    }

    /// Creates an error about the current line, and ends the stream.
    pub(super) fn refuse(&mut self, message: &str) -> Error {
        let number = self.number;
        self.input.get_mut().format(format!("line {number} {message}"))
    }

    pub(super) fn no_requests(&mut self) -> Error {
        self.input.get_mut().no_requests()
    }

    pub(super) fn progress(&self) -> f64 {
        self.input.get_ref().progress()
    }
}
