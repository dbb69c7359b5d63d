// SPDX-License-Identifier: Apache-2.0
//! The source of accesses: a trace file, or an array that Python already has.

use super::array::Held;
use super::options::TraceOptions;
use super::progress::Progress;
use crate::error::Result;
use crate::policy::Requests;
use crate::trace::{CHUNK_REQUESTS, Chunk, OpenOptions, open};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::path::PathBuf;

/// The argument `source`: page keys as `numpy.uint64`, or the path of a trace.
#[derive(FromPyObject)]
pub(super) enum SourceArgument<'py> {
    Keys(Bound<'py, PyArray1<u64>>),
    Path(PathBuf),
}

/// A source that can be read without the interpreter lock.
pub(super) enum Source {
    Keys(Held<u64>),
    File { path: PathBuf, options: TraceOptions },
}

impl SourceArgument<'_> {
    /// Keeps the array or the path. Returns an error for an array with gaps between its elements.
    pub(super) fn held(self, options: Option<TraceOptions>) -> PyResult<Source> {
        Ok(match self {
            Self::Keys(keys) => Source::Keys(Held::new(&keys)?),
            Self::Path(path) => Source::File { path, options: options.unwrap_or_default() },
        })
    }
}

impl Source {
    /// Feeds all requests to `each`, in order.
    pub(super) fn for_each(
        &self,
        progress: &mut Progress,
        mut each: impl FnMut(Requests<'_>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Keys(all) => all.for_each_piece(|from, piece| {
                let mut done = from;
                for keys in piece.chunks(CHUNK_REQUESTS) {
                    each(Requests::of_keys(keys))?;
                    done += keys.len();
                    progress.report(done as f64 / all.len() as f64)?;
                }
                Ok(())
            }),
            Self::File { path, options } => {
                let options: OpenOptions<'_> = options.into();
                let mut reader = open(path, &options)?;
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
