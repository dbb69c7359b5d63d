// SPDX-License-Identifier: Apache-2.0
//! The bytes of a trace file, decompressed if its suffix says so.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::format::Compression;
use crate::error::{Error, Result};

/// Number of bytes read from the operating system at a time.
const READ_BYTES: usize = 128 << 10;

/// Counts the bytes read from a file.
struct Counted {
    file: File,
    read_bytes: u64,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        self.read_bytes += n as u64;
        Ok(n)
    }
}

enum Stream {
    Plain(BufReader<Counted>),
    Zstd(zstd::Decoder<'static, BufReader<Counted>>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted>>>),
}

/// The bytes of one trace file in sequence, with errors that name the file and the position.
pub(super) struct Source {
    path: PathBuf,
    stream: Stream,
    file_bytes: u64,
    /// Number of decompressed bytes returned.
    offset: u64,
    /// Set by the first error. Bytes after a damaged place must not be used as data.
    failed: bool,
}

impl Source {
    /// Opens `path`, which is compressed as `compression` says.
    pub(super) fn open(path: &Path, compression: Compression) -> Result<Self> {
        let file_bytes = check_file(path)?;
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let buffered = BufReader::with_capacity(READ_BYTES, Counted { file, read_bytes: 0 });
        let stream = match compression {
            Compression::None => Stream::Plain(buffered),
            Compression::Zstd => {
                Stream::Zstd(zstd::Decoder::with_buffer(buffered).map_err(|e| Error::io(path, e))?)
            }
            Compression::Gzip => Stream::Gzip(Box::new(MultiGzDecoder::new(buffered))),
        };
        Ok(Self { path: path.to_path_buf(), stream, file_bytes, offset: 0, failed: false })
    }

    /// Returns the number of decompressed bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the unit of [`Self::offset`], for messages.
    pub(super) fn unit(&self) -> &'static str {
        match self.stream {
            Stream::Plain(_) => "byte",
            Stream::Zstd(_) | Stream::Gzip(_) => "decompressed byte",
        }
    }

    /// Returns the share of the file consumed, 0 to 1, in compressed bytes.
    pub(super) fn progress(&self) -> f64 {
        if self.file_bytes == 0 {
            return 0.0;
        }
        (self.consumed_bytes() as f64 / self.file_bytes as f64).min(1.0)
    }

    /// Returns the number of bytes of the file that the decoder has consumed.
    fn consumed_bytes(&self) -> u64 {
        let buffered = match &self.stream {
            Stream::Plain(reader) => reader,
            Stream::Zstd(decoder) => decoder.get_ref(),
            Stream::Gzip(decoder) => decoder.get_ref(),
        };
        buffered.get_ref().read_bytes - buffered.buffer().len() as u64
    }

    /// Returns an error if an earlier read failed.
    pub(super) fn check_good(&mut self) -> Result<()> {
        if self.failed {
            return Err(self.format("an earlier read of this file failed"));
        }
        Ok(())
    }

    /// Fills `buf`, or less at the end of the stream. Returns the number of bytes read.
    pub(super) fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.check_good()?;
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.explain(e)),
            }
        }
        Ok(filled)
    }

    /// Creates an [`Error::Format`] on this file, and ends the stream.
    pub(super) fn format(&mut self, message: impl Into<String>) -> Error {
        self.failed = true;
        Error::format(&self.path, message)
    }

    /// Creates the error for a stream that ended before its first request.
    pub(super) fn no_requests(&mut self) -> Error {
        let what = match self.stream {
            Stream::Plain(_) => "no requests in it",
            Stream::Zstd(_) => "no requests in its zstd stream",
            Stream::Gzip(_) => "no requests in its gzip stream",
        };
        self.format(format!("empty trace: {what}"))
    }

    /// Converts an error of the stream into one that distinguishes a damaged file from a failing
    /// disk, and ends the stream.
    pub(super) fn explain(&mut self, e: io::Error) -> Error {
        self.failed = true;
        let (kind, unit) = match self.stream {
            Stream::Plain(_) => return Error::io(&self.path, e),
            Stream::Zstd(_) => ("zstd", "frame"),
            Stream::Gzip(_) => ("gzip", "member"),
        };
        if e.raw_os_error().is_some() {
            return Error::io(&self.path, e);
        }
        let at = self.consumed_bytes();
        if e.kind() == ErrorKind::UnexpectedEof {
            let message = format!("truncated: the file ends inside a {kind} {unit} at byte {at}");
            return self.format(message);
        }
        self.format(format!("corrupt {kind} data, or garbage after it, near byte {at}: {e}"))
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = match &mut self.stream {
            Stream::Plain(reader) => reader.read(buf),
            Stream::Zstd(decoder) => decoder.read(buf),
            Stream::Gzip(decoder) => decoder.read(buf),
        }?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// Returns the size of the file in bytes, or an error if the file cannot be a trace whatever its
/// suffix.
pub(super) fn check_file(path: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if metadata.is_dir() {
        return Err(Error::format(path, "is a directory, expected a trace file"));
    }
    if metadata.is_file() && metadata.len() == 0 {
        return Err(Error::format(path, "empty file"));
    }
    Ok(metadata.len())
}
