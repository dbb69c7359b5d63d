// SPDX-License-Identifier: Apache-2.0
//! Traces of the MSR Cambridge servers (Narayanan et al., FAST '08), as SNIA distributes them:
//! comma-separated lines `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`. Timestamps
//! are Windows file times (100 ns), offsets and sizes are bytes, types are `Read` and `Write`. The
//! files have no header, but a first line of column names is accepted.

use std::path::Path;

use super::extent::{Extent, ExtentReader};
use super::lines::Lines;
use crate::error::{Error, Result};
use crate::trace::format::Compression;
use crate::trace::text::{decimal, shown, text_key};

/// Nanoseconds per unit of a Windows file time.
const TICK_NS: u64 = 100;
/// Number of required fields of a line; the response time may be missing.
const FIELDS: usize = 6;
/// First column of a line of column names.
const NAMES: &[u8] = b"timestamp";

/// Reads one range per line.
pub(in crate::trace) struct MsrReader {
    lines: Lines,
}

impl MsrReader {
    pub(in crate::trace) fn open(path: &Path, compression: Compression) -> Result<Self> {
        Ok(Self { lines: Lines::open(path, compression)? })
    }
}

/// Parses the range of a line, or returns what is wrong with the line.
fn parse(line: &[u8]) -> std::result::Result<Extent, String> {
    let mut fields = [&line[..0]; FIELDS];
    let mut count = 0;
    for field in line.split(|&byte| byte == b',') {
        if let Some(place) = fields.get_mut(count) {
            *place = field.trim_ascii();
        }
        count += 1;
    }
    if !(FIELDS..=FIELDS + 1).contains(&count) {
        return Err(format!(
            "has {count} fields, expected the 7 of an msr trace: \
             timestamp,hostname,disk,type,offset,size,response time"
        ));
    }
    let [time, host, disk, kind, offset, size] = fields;
    if !kind.eq_ignore_ascii_case(b"read") && !kind.eq_ignore_ascii_case(b"write") {
        return Err(format!("has the type '{}', expected Read or Write", shown(kind)));
    }
    let number = |name: &str, text: &[u8]| {
        decimal(text).ok_or_else(|| {
            let text = shown(text);
            format!("has the {name} '{text}', expected a whole number of 0 to 2^64 - 1")
        })
    };
    let time_ns = number("timestamp", time)?.saturating_mul(TICK_NS);
    let space = Some(text_key(&[host, b",", disk].concat()));
    Ok(Extent { start: number("offset", offset)?, bytes: number("size", size)?, space, time_ns })
}

/// Returns whether a line has the names of the columns.
fn is_names(line: &[u8]) -> bool {
    line.split(|&byte| byte == b',').next().is_some_and(|name| name.eq_ignore_ascii_case(NAMES))
}

impl ExtentReader for MsrReader {
    const UNIT_BYTES: u64 = 1;
    const HAS_TIMES: bool = true;

    fn next_extent(&mut self) -> Result<Option<Extent>> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let names = self.lines.is_first() && is_names(self.lines.line());
        if names && !self.lines.advance()? {
            return Ok(None);
        }
        match parse(self.lines.line()) {
            Ok(extent) => Ok(Some(extent)),
            Err(message) => Err(self.lines.refuse(&message)),
        }
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
