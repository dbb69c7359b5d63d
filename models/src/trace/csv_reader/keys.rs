// SPDX-License-Identifier: Apache-2.0
//! Reads one named column of a CSV file as page keys.

use std::path::Path;

use super::rows::{Column, Rows};
use crate::error::{Error, Result};
use crate::trace::format::Compression;
use crate::trace::text::key_of;
use crate::trace::{CHUNK_REQUESTS, Chunk, TraceReader};

/// Reads one request per row.
pub(in crate::trace) struct KeyReader {
    rows: Rows,
    column: Column,
    any: bool,
}

impl KeyReader {
    /// Opens `path` and finds `column` in its header.
    pub(in crate::trace) fn open(
        path: &Path,
        compression: Compression,
        column: Option<&str>,
    ) -> Result<Self> {
        let rows = Rows::open(path, compression)?;
        let Some(column) = column else {
            let listed = rows.listed();
            let message = format!("a CSV trace needs a column (--column or --offset); {listed}");
            return Err(Error::format(path, message));
        };
        Ok(Self { column: rows.column(column)?, rows, any: false })
    }
}

impl TraceReader for KeyReader {
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        while chunk.keys.len() < CHUNK_REQUESTS && self.rows.next_row()? {
            chunk.keys.push(key_of(self.rows.value(&self.column)?));
        }
        self.any |= !chunk.keys.is_empty();
        if self.any { Ok(()) } else { Err(self.rows.no_requests()) }
    }

    fn progress(&self) -> f64 {
        self.rows.progress()
    }
}
