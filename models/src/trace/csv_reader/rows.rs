// SPDX-License-Identifier: Apache-2.0
//! Rows of comma-separated text after a header line.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use crate::error::{Error, Result};
use crate::trace::format::Compression;
use crate::trace::source::Source;
use crate::trace::text::shown;

/// Longest row accepted. Otherwise an unclosed quote would read the whole file into memory.
const ROW_BYTES_MAX: usize = 1 << 20;
/// Buffer of the CSV parser, which reads ahead of the requested row.
const BUFFER_BYTES: usize = 64 << 10;
/// Largest number of header columns shown in a message.
const SHOWN_COLUMNS: usize = 32;

/// Returns whether a field of the first line is a value. If the header is missing, taking the first
/// row for it would lose a request.
fn is_number(field: &[u8]) -> bool {
    let text = std::str::from_utf8(field.trim_ascii()).unwrap_or_default();
    text.starts_with("0x") || text.parse().is_ok_and(f64::is_finite)
}

/// A [`Source`] that returns at most `left` bytes per row.
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

/// A column, identified by its index in the header.
pub(super) struct Column {
    index: usize,
    name: String,
}

/// The rows of a CSV file, one at a time.
pub(super) struct Rows {
    path: PathBuf,
    rows: csv::Reader<RowLimit>,
    row: ByteRecord,
    header: ByteRecord,
}

impl Rows {
    /// Opens `path` and reads its header.
    pub(super) fn open(path: &Path, compression: Compression) -> Result<Self> {
        let limit = RowLimit { source: Source::open(path, compression)?, left: 0, hit: false };
        let rows = ReaderBuilder::new()
            .has_headers(false)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(limit);
        let (row, header) = (ByteRecord::new(), ByteRecord::new());
        let mut reader = Self { path: path.to_path_buf(), rows, row, header };
        if !reader.next_row()? {
            return Err(reader.source().no_requests());
        }
        reader.header = reader.row.clone();
        if let Some(value) = reader.header.iter().find(|name| is_number(name)) {
            let value = shown(value);
            let message = format!(
                "line 1 has '{value}' where a column's name should be: \
                 a CSV trace needs a header line, which is no request"
            );
            return Err(Error::format(path, message));
        }
        Ok(reader)
    }

    fn source(&mut self) -> &mut Source {
        &mut self.rows.get_mut().source
    }

    /// Returns the column called `name`, or an error that lists the columns.
    pub(super) fn column(&self, name: &str) -> Result<Column> {
        let wanted = name.trim().as_bytes();
        let mut matches =
            self.header.iter().enumerate().filter(|(_, name)| name.trim_ascii() == wanted);
        let name = shown(name.as_bytes());
        match (matches.next(), matches.next()) {
            (Some((index, _)), None) => Ok(Column { index, name }),
            (None, _) => {
                let message = format!("no column '{name}'; {}", self.listed());
                Err(Error::format(&self.path, message))
            }
            (Some((a, _)), Some((b, _))) => {
                let (a, b) = (a + 1, b + 1);
                let message = format!("columns {a} and {b} are both named '{name}'");
                Err(Error::format(&self.path, message))
            }
        }
    }

    /// Returns the header's columns as one phrase.
    pub(super) fn listed(&self) -> String {
        let names: Vec<String> = self.header.iter().take(SHOWN_COLUMNS).map(shown).collect();
        let more = self.header.len().saturating_sub(SHOWN_COLUMNS);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("the header has: {}{rest}", names.join(", "))
    }

    /// Moves to the next row. Returns false at the end of the file.
    pub(super) fn next_row(&mut self) -> Result<bool> {
        self.source().check_good()?;
        self.rows.get_mut().left = ROW_BYTES_MAX;
        self.rows.read_byte_record(&mut self.row).map_err(|e| self.explain(e))
    }

    fn explain(&mut self, e: csv::Error) -> Error {
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

    /// Returns the value of a column in the current row, without surrounding spaces. An empty value
    /// is an error.
    pub(super) fn value(&mut self, column: &Column) -> Result<&[u8]> {
        let is_empty = self.row.get(column.index).unwrap_or_default().trim_ascii().is_empty();
        if is_empty {
            return Err(self.refuse(&format!("has no value in column '{}'", column.name)));
        }
        Ok(self.row.get(column.index).unwrap_or_default().trim_ascii())
    }

    /// Returns the number in a column of the current row, written in decimal digits.
    pub(super) fn number(&mut self, column: &Column) -> Result<u64> {
        let value = self.value(column)?;
        match crate::trace::text::decimal(value) {
            Some(number) => Ok(number),
            None => {
                let (value, name) = (shown(value), &column.name);
                Err(self.refuse(&format!(
                    "has '{value}' in column '{name}', expected a whole number of 0 to 2^64 - 1"
                )))
            }
        }
    }

    /// Creates an error about the current row.
    pub(super) fn refuse(&mut self, message: &str) -> Error {
        let line = self.row.position().map_or(0, csv::Position::line);
        self.source().format(format!("line {line} {message}"))
    }

    /// Creates the error for a file without any row.
    pub(super) fn no_requests(&mut self) -> Error {
        self.source().no_requests()
    }

    /// Returns the share of the file consumed, 0 to 1.
    pub(super) fn progress(&self) -> f64 {
        self.rows.get_ref().source.progress()
    }
}
