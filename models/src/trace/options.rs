// SPDX-License-Identifier: Apache-2.0
//! What a reader needs to know besides the file.

use std::ops::RangeInclusive;
use std::path::Path;

use super::format::{Encoding, Format};
use super::source::check_file;
use crate::error::{Error, Result};

/// Allowed sizes of a page, bytes.
const PAGE_BYTES: RangeInclusive<u64> = 512..=1 << 30;
/// Pages of ranges, unless said otherwise, bytes.
const DEFAULT_PAGE_BYTES: u64 = 4096;
/// Blocks of the ARC format, which are its pages unless said otherwise, bytes.
pub(super) const ARC_BLOCK_BYTES: u64 = 512;

/// How to read a trace. Options that the format of the file has no use for are refused, but for
/// `column`.
#[derive(Debug, Default, Clone, Copy)]
pub struct OpenOptions<'a> {
    /// Name of the format ([`Format::named`]); the suffix of the file tells it otherwise.
    pub format: Option<&'a str>,
    /// Column of a CSV file that holds the page; other formats do not look at it. Unsigned
    /// decimal and `0x` hexadecimal values that fit 64 bits are page keys as they are, any other
    /// text is hashed to one. With `offset`, it names the file or the device that the offset is in.
    pub column: Option<&'a str>,
    /// Column of a CSV file that holds where a request starts, bytes.
    pub offset: Option<&'a str>,
    /// Column of a CSV file that holds the length of a request, bytes; one byte without it.
    pub length: Option<&'a str>,
    /// Size of a page, bytes, into which ranges are expanded: a power of two, 512 bytes to 1 GiB.
    /// By default 4 KiB, and 512 bytes (its block) in the ARC format.
    pub page_bytes: Option<u64>,
    /// A range is one request whatever its length, and its start is its key.
    pub whole_requests: bool,
}

/// What a range of bytes becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expansion {
    /// A request for each page of so many bytes that it touches.
    Pages(u64),
    /// One request.
    Whole,
}

impl OpenOptions<'_> {
    /// The format of an existing file; what cannot be a trace at all is refused before its suffix.
    pub(super) fn detect(&self, path: &Path) -> Result<Format> {
        check_file(path)?;
        match self.format {
            Some(name) => Format::named(name, path),
            None => Format::from_path(path),
        }
    }

    /// Refuses what a trace of this encoding would not obey.
    pub(super) fn check(&self, encoding: Encoding) -> Result<()> {
        let refuse = |name, what: &str| {
            Err(Error::argument(name, format!("{what}; this is a {} trace", encoding.name())))
        };
        let is_csv = encoding == Encoding::Csv;
        if self.offset.is_some() && !is_csv {
            return refuse("offset", "names a column of a csv trace");
        }
        if self.length.is_some() && !(is_csv && self.offset.is_some()) {
            return refuse("length", "names a column of a csv trace beside that of --offset");
        }
        let has_ranges = encoding.has_ranges() || self.offset.is_some();
        let ranges = "is for byte ranges (vscsi, msr, arc, and csv with --offset)";
        if self.page_bytes.is_some() && !has_ranges {
            return refuse("page_size", ranges);
        }
        if self.whole_requests && !has_ranges {
            return refuse("whole_requests", ranges);
        }
        if self.whole_requests && self.page_bytes.is_some() {
            return Err(Error::argument(
                "page_size",
                "whole requests have no pages; give one of the two",
            ));
        }
        match self.page_bytes {
            Some(bytes) if !(PAGE_BYTES.contains(&bytes) && bytes.is_power_of_two()) => {
                let message = format!("{bytes} bytes: not a power of two of 512 B to 1 GiB");
                Err(Error::argument("page_size", message))
            }
            _ => Ok(()),
        }
    }

    /// What becomes of the ranges of a trace of this encoding.
    pub(super) fn expansion(&self, encoding: Encoding) -> Expansion {
        let default = if encoding == Encoding::Arc { ARC_BLOCK_BYTES } else { DEFAULT_PAGE_BYTES };
        match self.whole_requests {
            true => Expansion::Whole,
            false => Expansion::Pages(self.page_bytes.unwrap_or(default)),
        }
    }
}
