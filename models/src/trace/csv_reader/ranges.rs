// SPDX-License-Identifier: Apache-2.0
//! Reads columns of a CSV file as ranges of bytes: the start and the length of a request, and its
//! file or device.

use std::path::Path;

use super::rows::{Column, Rows};
use crate::error::{Error, Result};
use crate::trace::OpenOptions;
use crate::trace::foreign::extent::{Extent, ExtentReader};
use crate::trace::format::Compression;
use crate::trace::text::key_of;

/// Reads one range per row.
pub(in crate::trace) struct RangeReader {
    rows: Rows,
    offset: Column,
    length: Option<Column>,
    space: Option<Column>,
}

impl RangeReader {
    /// Opens `path`, and finds the columns that `options` names in its header.
    pub(in crate::trace) fn open(
        path: &Path,
        compression: Compression,
        options: &OpenOptions,
    ) -> Result<Self> {
        let rows = Rows::open(path, compression)?;
        let column = |name: Option<&str>| name.map(|name| rows.column(name)).transpose();
        let (length, space) = (column(options.length)?, column(options.column)?);
        let offset = rows.column(options.offset.unwrap_or_default())?;
        Ok(Self { rows, offset, length, space })
    }
}

impl ExtentReader for RangeReader {
    const UNIT_BYTES: u64 = 1;
    const HAS_TIMES: bool = false;

    fn next_extent(&mut self) -> Result<Option<Extent>> {
        if !self.rows.next_row()? {
            return Ok(None);
        }
        let start = self.rows.number(&self.offset)?;
        let bytes = self.length.as_ref().map_or(Ok(1), |column| self.rows.number(column))?;
        let space = match &self.space {
            Some(column) => Some(key_of(self.rows.value(column)?)),
            None => None,
        };
        Ok(Some(Extent { start, bytes, space, time_ns: 0 }))
    }

    fn refuse(&mut self, message: &str) -> Error {
        self.rows.refuse(message)
    }

    fn no_requests(&mut self) -> Error {
        self.rows.no_requests()
    }

    fn progress(&self) -> f64 {
        self.rows.progress()
    }
}
