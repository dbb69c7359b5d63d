// SPDX-License-Identifier: Apache-2.0
//! Options for reading a trace, in addition to the file.

use std::ops::RangeInclusive;
use std::path::Path;

use super::format::{Encoding, Format};
use super::source::check_file;
use crate::error::{Error, Result};

/// Allowed page sizes, bytes.
const PAGE_BYTES: RangeInclusive<u64> = 512..=1 << 30;
/// Default size of the pages of ranges, bytes.
const DEFAULT_PAGE_BYTES: u64 = 4096;
/// Size of the blocks of the ARC format, bytes. It is also the default page size of that format.
pub(super) const ARC_BLOCK_BYTES: u64 = 512;

/// How to read a trace. An option that does not apply to the format of the file is an error, except
/// `column`.
#[derive(Debug, Default, Clone, Copy)]
pub struct OpenOptions<'a> {
    /// Name of the format ([`Format::named`]). Without it, the suffix of the file names the format.
    pub format: Option<&'a str>,
    /// Column of a CSV file that identifies the page; other formats ignore it. Unsigned decimal and
    /// `0x` hexadecimal values that fit 64 bits are page keys as they are, and any other text is
    /// hashed to a key. If `offset` is set, this column names the file or the device that the
    /// offset is in.
    pub column: Option<&'a str>,
    /// Column of a CSV file with the start of a request, bytes.
    pub offset: Option<&'a str>,
    /// Column of a CSV file with the length of a request, bytes. Without it, the length is one
    /// byte.
    pub length: Option<&'a str>,
    /// Size in bytes of the pages that ranges are expanded into: a power of two from 512 bytes to 1
    /// GiB. The default is 4 KiB, and 512 bytes (one block) in the ARC format.
    pub page_bytes: Option<u64>,
    /// Whether a range is one request whatever its length, with its start as its key.
    pub whole_requests: bool,
}

/// What a range of bytes is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expansion {
    /// A request for each page of this many bytes that the range touches.
    Pages(u64),
    /// One request.
    Whole,
}

impl OpenOptions<'_> {
    /// Returns the format of an existing file. A file that cannot be a trace at all gives an error
    /// before its suffix is looked at.
    pub(super) fn detect(&self, path: &Path) -> Result<Format> {
        check_file(path)?;
        match self.format {
            Some(name) => Format::named(name, path),
            None => Format::from_path(path),
        }
    }

    /// Checks that the options apply to a trace of this encoding.
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

    /// Returns what the ranges of a trace of this encoding are converted to.
    pub(super) fn expansion(&self, encoding: Encoding) -> Expansion {
        let default = if encoding == Encoding::Arc { ARC_BLOCK_BYTES } else { DEFAULT_PAGE_BYTES };
        match self.whole_requests {
            true => Expansion::Whole,
            false => Expansion::Pages(self.page_bytes.unwrap_or(default)),
        }
    }
}
