// SPDX-License-Identifier: Apache-2.0
//! Traces of page accesses, read as a stream of chunks.

mod convert;
mod cptrace;
mod csv_reader;
mod fixed;
mod foreign;
mod format;
mod info;
mod options;
mod record;
mod sink;
mod source;
mod text;
mod writer;

use std::path::Path;

use crate::error::Result;

pub use convert::{Progress, convert};
pub use cptrace::RecordReader;
use foreign::extent::ExtentRequests;
pub use format::{Compression, Encoding, Format};
pub use info::{TraceInfo, footprint, info, info_with_progress};
pub use options::OpenOptions;
pub(crate) use record::page_key;
pub use record::{HEADER_BYTES, Header, MAGIC, RECORD_BYTES, Record, VERSION};
pub use writer::{KeySink, KeyWriter, RecordWriter};

/// Number of requests per chunk that readers aim for.
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
    /// Empties every column, and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.tasks.clear();
        self.times_ns.clear();
    }
}

/// A stream of page accesses that never has the whole trace in memory.
pub trait TraceReader: Send {
    /// Replaces `chunk` by the next requests, at most [`CHUNK_REQUESTS`]. At the end of the trace,
    /// `chunk` is empty.
    ///
    /// # Errors
    /// [`crate::Error::Format`] on truncated or corrupt input, [`crate::Error::Io`] when reading
    /// fails.
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<()>;

    /// Returns the share of the input consumed so far, 0 to 1, for progress bars.
    fn progress(&self) -> f64;
}

/// Opens a trace in the format that its suffix or `options` names.
///
/// # Errors
/// [`crate::Error::Io`] when the file cannot be read; [`crate::Error::Format`] when it is a
/// directory, empty, of unknown suffix, has a broken header, or lacks a CSV column;
/// [`crate::Error::Argument`] when an option does not fit the format.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Box<dyn TraceReader>> {
    let Format { encoding, compression } = options.detect(path)?;
    options.check(encoding)?;
    let expansion = options.expansion(encoding);
    Ok(match encoding {
        Encoding::U64 => Box::new(fixed::U64Reader::open(path, compression)?),
        Encoding::OracleGeneral => Box::new(fixed::open_oracle(path, compression)?),
        Encoding::Lcs => foreign::lcs::open(path, compression)?,
        Encoding::Vscsi => {
            let reader = foreign::vscsi::VscsiReader::open(path, compression)?;
            Box::new(ExtentRequests::new(reader, expansion))
        }
        Encoding::Msr => {
            let reader = foreign::msr::MsrReader::open(path, compression)?;
            Box::new(ExtentRequests::new(reader, expansion))
        }
        Encoding::Arc => {
            let reader = foreign::arc::ArcReader::open(path, compression)?;
            Box::new(ExtentRequests::new(reader, expansion))
        }
        Encoding::Lirs => Box::new(foreign::lirs::LirsReader::open(path, compression)?),
        Encoding::Csv => match options.offset {
            Some(_) => {
                let reader = csv_reader::RangeReader::open(path, compression, options)?;
                Box::new(ExtentRequests::new(reader, expansion))
            }
            None => Box::new(csv_reader::KeyReader::open(path, compression, options.column)?),
        },
        Encoding::Cptrace => Box::new(RecordReader::open_as(path, compression)?),
    })
}
