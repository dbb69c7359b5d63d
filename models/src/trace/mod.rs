// SPDX-License-Identifier: Apache-2.0
//! Traces of page accesses, read as a stream of chunks.

use crate::error::Result;

/// Requests per chunk that readers aim for.
pub const CHUNK_REQUESTS: usize = 1 << 16;

/// A run of consecutive requests. `keys` has one page key per request; the other columns are
/// either empty (the format does not carry them) or as long as `keys`.
#[derive(Debug, Default, Clone)]
pub struct Chunk {
    /// Page keys.
    pub keys: Vec<u64>,
    /// Id of the task that made the access.
    pub tasks: Vec<u32>,
    /// Time of the access, nanoseconds since the start of the trace.
    pub times_ns: Vec<u64>,
}

impl Chunk {
    /// Empties every column and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.tasks.clear();
        self.times_ns.clear();
    }
}

/// A stream of page accesses that never holds the whole trace in memory.
pub trait TraceReader: Send {
    /// Replaces `chunk` by the next requests, at most [`CHUNK_REQUESTS`]; leaves it empty at the end.
    ///
    /// # Errors
    /// [`crate::Error::Format`] on truncated or corrupt input, [`crate::Error::Io`] when reading fails.
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()>;

    /// Share of the input consumed so far, 0 to 1, for progress bars.
    fn progress(&self) -> f64;
}
