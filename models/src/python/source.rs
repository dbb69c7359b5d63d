// SPDX-License-Identifier: Apache-2.0
//! Where accesses come from: a trace file, or an array that Python already holds.

use super::ModelsError;
use super::progress::Progress;
use crate::error::Result;
use crate::policy::Requests;
use crate::trace::{CHUNK_REQUESTS, Chunk, OpenOptions, open};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// The argument `source`: page keys as `numpy.uint64`, or the path of a trace.
#[derive(FromPyObject)]
pub(super) enum SourceArgument<'py> {
    Keys(PyReadonlyArray1<'py, u64>),
    Path(PathBuf),
}

/// A source without the interpreter's lock.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Keys(&'a [u64]),
    File { path: &'a Path, column: Option<&'a str> },
}

impl SourceArgument<'_> {
    /// Borrows the array or the path; an array with gaps between its elements is refused.
    pub(super) fn borrow<'a>(&'a self, column: Option<&'a str>) -> PyResult<Source<'a>> {
        match self {
            Self::Keys(keys) => {
                let keys = keys.as_slice().map_err(|e| ModelsError::new_err(e.to_string()))?;
                Ok(Source::Keys(keys))
            }
            Self::Path(path) => Ok(Source::File { path, column }),
        }
    }
}

impl Source<'_> {
    /// Feeds all requests, in order, to `each`.
    pub(super) fn for_each(
        self,
        progress: &mut Progress,
        mut each: impl FnMut(Requests<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Keys(all) => {
                let mut done = 0;
                for keys in all.chunks(CHUNK_REQUESTS) {
                    each(Requests::of_keys(keys))?;
                    done += keys.len();
                    progress.report(done as f64 / all.len() as f64)?;
                }
                Ok(())
            }
            Self::File { path, column } => {
                let mut reader = open(path, &OpenOptions { column })?;
                let mut chunk = Chunk::default();
                loop {
                    reader.next_chunk(&mut chunk)?;
                    if chunk.keys.is_empty() {
                        return Ok(());
                    }
                    each(chunk.requests())?;
                    progress.report(reader.progress())?;
                }
            }
        }
    }
}
