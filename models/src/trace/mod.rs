// SPDX-License-Identifier: Apache-2.0
//! Traces of page accesses, read as a stream of chunks.

mod convert;
mod cptrace;
mod csv_reader;
mod fixed;
mod format;
mod info;
mod record;
mod sink;
mod source;
mod writer;

use std::path::Path;

use crate::error::Result;

pub use convert::{Progress, convert};
pub use cptrace::RecordReader;
pub use format::{Encoding, Format};
pub use info::{TraceInfo, footprint, info, info_with_progress};
pub(crate) use record::page_key;
pub use record::{HEADER_BYTES, Header, MAGIC, RECORD_BYTES, Record, VERSION};
pub use writer::{KeyWriter, RecordWriter};

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
    /// Time of the access, nanoseconds since the first request (0 for one stamped earlier).
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

/// What a reader needs to know besides the file.
#[derive(Debug, Default, Clone, Copy)]
pub struct OpenOptions<'a> {
    /// Column of a CSV file that holds the page; other formats do not look at it. Unsigned
    /// decimal and `0x` hexadecimal values that fit 64 bits are page keys as they are, any other
    /// text is hashed to one.
    pub column: Option<&'a str>,
}

/// Opens a trace in the format that its suffix names.
///
/// # Errors
/// [`crate::Error::Io`] when the file cannot be read; [`crate::Error::Format`] when it is a
/// directory, empty, of unknown suffix, has a broken header, or lacks the CSV column.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Box<dyn TraceReader>> {
    let Format { encoding, zstd } = detect(path)?;
    Ok(match encoding {
        Encoding::U64 => Box::new(fixed::U64Reader::open(path, zstd)?),
        Encoding::OracleGeneral => Box::new(fixed::OracleReader::open(path, zstd)?),
        Encoding::Csv => Box::new(csv_reader::CsvReader::open(path, zstd, options.column)?),
        Encoding::Cptrace => Box::new(RecordReader::open(path)?),
    })
}

/// The format of an existing file; what cannot be a trace at all is refused before its suffix.
fn detect(path: &Path) -> Result<Format> {
    source::check_file(path)?;
    Format::from_path(path)
}
