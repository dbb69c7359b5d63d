// SPDX-License-Identifier: Apache-2.0
//! Traces as comma-separated text: a header line, then one request per row.

use std::io::{self, Read};
use std::path::Path;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::source::Source;
use super::{CHUNK_REQUESTS, Chunk, TraceReader};
use crate::error::{Error, Result};
use crate::hash::page_hash;

/// Longest row accepted. An unclosed quote would otherwise pull the whole file into memory.
const ROW_BYTES_MAX: usize = 1 << 20;
/// Buffer of the CSV parser, which reads ahead of the row it is asked for.
const BUFFER_BYTES: usize = 64 << 10;
/// Header columns shown in a message, and characters of each.
const SHOWN_COLUMNS: usize = 32;
const SHOWN_CHARS: usize = 40;

/// A [`Source`] that gives at most `left` bytes per row.
struct RowLimit {
    source: Source,
    left: usize,
    hit: bool,
}

impl Read for RowLimit {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.hit = true;
            return Err(io::Error::other("row too long"));
        }
        let n = buf.len().min(self.left);
        let read = self.source.read(&mut buf[..n])?;
        self.left -= read;
        Ok(read)
    }
}

/// One named column of a CSV file as page keys.
pub(super) struct CsvReader {
    rows: csv::Reader<RowLimit>,
    row: ByteRecord,
    column: usize,
    name: String,
    any: bool,
    failed: bool,
}

impl CsvReader {
    /// Opens `path` and finds `column` in its header.
    pub(super) fn open(path: &Path, zstd: bool, column: Option<&str>) -> Result<Self> {
        let limit = RowLimit { source: Source::open(path, zstd)?, left: 0, hit: false };
        let rows = ReaderBuilder::new()
            .has_headers(false)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(limit);
        let mut reader = Self {
            rows,
            row: ByteRecord::new(),
            column: 0,
            name: String::new(),
            any: false,
            failed: false,
        };
        if !reader.next_row()? {
            return Err(reader.source().no_requests());
        }
        reader.column = find_column(path, &reader.row, column)?;
        reader.name = shown(&reader.row[reader.column]);
        Ok(reader)
    }

    fn source(&mut self) -> &mut Source {
        &mut self.rows.get_mut().source
    }

    /// Reads one row into `self.row`; false at the end of the file.
    fn next_row(&mut self) -> Result<bool> {
        if self.failed {
            return Err(self.source().format("an earlier read of this file failed"));
        }
        self.rows.get_mut().left = ROW_BYTES_MAX;
        self.rows.read_byte_record(&mut self.row).map_err(|e| self.explain(e))
    }

    fn explain(&mut self, e: csv::Error) -> Error {
        self.failed = true;
        let line = self.rows.position().line();
        if self.rows.get_ref().hit {
            return self.source().format(format!(
                "the row that starts at line {line} is longer than {ROW_BYTES_MAX} bytes; \
                 is a quote not closed?"
            ));
        }
        match e.into_kind() {
            ErrorKind::Io(e) => self.source().explain(e),
            ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.map_or(line, |pos| pos.line());
                self.source()
                    .format(format!("line {line} has {len} fields, the header has {expected_len}"))
            }
            other => self.source().format(format!("line {line}: {other:?}")),
        }
    }

    /// Key of the current row.
    fn key(&mut self) -> Result<u64> {
        let value = self.row.get(self.column).unwrap_or_default().trim_ascii();
        if !value.is_empty() {
            return Ok(key_of(value));
        }
        self.failed = true;
        let line = self.row.position().map_or(0, csv::Position::line);
        let message = format!("line {line} has no value in column '{}'", self.name);
        Err(self.source().format(message))
    }
}

impl TraceReader for CsvReader {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS && self.next_row()? {
            chunk.keys.push(self.key()?);
        }
        self.any |= !chunk.keys.is_empty();
        if !self.any {
            self.failed = true;
            return Err(self.source().no_requests());
        }
        Ok(())
    }

    fn progress(&self) -> f64 {
        self.rows.get_ref().source.progress()
    }
}

/// Index of `column` in `header`, or an error that lists what there is.
fn find_column(path: &Path, header: &ByteRecord, column: Option<&str>) -> Result<usize> {
    let Some(column) = column else {
        let message = format!("a CSV trace needs a column (--column); {}", listed(header));
        return Err(Error::format(path, message));
    };
    let mut matches =
        header.iter().enumerate().filter(|(_, name)| name.trim_ascii() == column.trim().as_bytes());
    let name = shown(column.as_bytes());
    match (matches.next(), matches.next()) {
        (Some((index, _)), None) => Ok(index),
        (None, _) => Err(Error::format(path, format!("no column '{name}'; {}", listed(header)))),
        (Some((a, _)), Some((b, _))) => {
            let (a, b) = (a + 1, b + 1);
            Err(Error::format(path, format!("columns {a} and {b} are both named '{name}'")))
        }
    }
}

/// The header's columns as one phrase.
fn listed(header: &ByteRecord) -> String {
    let names: Vec<String> = header.iter().take(SHOWN_COLUMNS).map(shown).collect();
    let more = header.len().saturating_sub(SHOWN_COLUMNS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("the header has: {}{rest}", names.join(", "))
}

/// A name from the file, safe to print within one line.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name.trim_ascii());
    let mut out: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// Page key of a CSV value: the number itself for unsigned decimal and `0x` hexadecimal that fit
/// 64 bits (so `7`, `007` and `0x7` are one page), [`text_key`] of anything else.
fn key_of(value: &[u8]) -> u64 {
    let number = match value {
        [b'0', b'x' | b'X', hex @ ..] => digits(hex, 16),
        decimal => digits(decimal, 10),
    };
    number.unwrap_or_else(|| text_key(value))
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

/// 64-bit hash of a text: [`page_hash`] chained over its length and its zero-padded 8-byte words.
/// n distinct texts share a key with probability about n^2 / 2^65.
fn text_key(text: &[u8]) -> u64 {
    text.chunks(8).fold(page_hash(text.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        page_hash(hash ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_their_own_key() {
        for (text, key) in [
            ("0", 0),
            ("7", 7),
            ("007", 7),
            ("0x7", 7),
            ("0XfF", 255),
            ("18446744073709551615", u64::MAX),
            ("0xffffffffffffffff", u64::MAX),
        ] {
            assert_eq!(key_of(text.as_bytes()), key, "{text}");
        }
    }

    #[test]
    fn anything_else_is_hashed() {
        let texts =
            ["18446744073709551616", "-1", "+1", "1.5", "0x", "0xg", "/a/b", "ab", "ab\0", "é"];
        let keys: HashSet<u64> = texts.iter().map(|text| key_of(text.as_bytes())).collect();
        assert_eq!(keys.len(), texts.len());
        for text in texts {
            assert_eq!(key_of(text.as_bytes()), text_key(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn text_keys_do_not_collide_on_paths() {
        let keys: HashSet<u64> =
            (0..200_000).map(|i| text_key(format!("/srv/data/{i}.sst").as_bytes())).collect();
        assert_eq!(keys.len(), 200_000);
    }

    #[test]
    fn names_are_shown_in_one_bounded_line() {
        assert_eq!(shown(b"a\nb"), "a\\nb");
        assert_eq!(shown(&[b'x'; 100]).chars().count(), SHOWN_CHARS + 1);
    }
}
