// SPDX-License-Identifier: Apache-2.0
//! The bytes of a trace file, decompressed when its suffix says so.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Bytes asked of the operating system at a time.
const READ_BYTES: usize = 128 << 10;

/// Counts what is read from a file.
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
}

/// Sequential bytes of one trace file, with errors that name the file and the place.
pub(super) struct Source {
    path: PathBuf,
    stream: Stream,
    file_bytes: u64,
    /// Decompressed bytes handed out.
    offset: u64,
    /// Set by the first error: what follows a broken place must not pass for data.
    failed: bool,
}

impl Source {
    /// Opens `path`, which holds a zstd stream when `zstd` is set.
    pub(super) fn open(path: &Path, zstd: bool) -> Result<Self> {
        let file_bytes = check_file(path)?;
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let buffered = BufReader::with_capacity(READ_BYTES, Counted { file, read_bytes: 0 });
        let stream = if zstd {
            Stream::Zstd(zstd::Decoder::with_buffer(buffered).map_err(|e| Error::io(path, e))?)
        } else {
            Stream::Plain(buffered)
        };
        Ok(Self { path: path.to_path_buf(), stream, file_bytes, offset: 0, failed: false })
    }

    /// Decompressed bytes handed out so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What [`Self::offset`] counts, for messages.
    pub(super) fn unit(&self) -> &'static str {
        match self.stream {
            Stream::Plain(_) => "byte",
            Stream::Zstd(_) => "decompressed byte",
        }
    }

    /// Share of the file consumed, 0 to 1, in compressed bytes.
    pub(super) fn progress(&self) -> f64 {
        if self.file_bytes == 0 {
            return 0.0;
        }
        (self.consumed_bytes() as f64 / self.file_bytes as f64).min(1.0)
    }

    /// Bytes of the file that the decoder has taken.
    fn consumed_bytes(&self) -> u64 {
        let buffered = match &self.stream {
            Stream::Plain(reader) => reader,
            Stream::Zstd(decoder) => decoder.get_ref(),
        };
        buffered.get_ref().read_bytes - buffered.buffer().len() as u64
    }

    /// Fills `buf` unless the stream ends before; returns the bytes read.
    pub(super) fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        if self.failed {
            return Err(self.format("an earlier read of this file failed"));
        }
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

    /// An [`Error::Format`] on this file; ends the stream.
    pub(super) fn format(&mut self, message: impl Into<String>) -> Error {
        self.failed = true;
        Error::format(&self.path, message)
    }

    /// The error for a stream that ended before its first request.
    pub(super) fn no_requests(&mut self) -> Error {
        let what = match self.stream {
            Stream::Plain(_) => "no requests in it",
            Stream::Zstd(_) => "no requests in its zstd stream",
        };
        self.format(format!("empty trace: {what}"))
    }

    /// Turns what the stream said into an error that tells a broken file from a failing disk;
    /// ends the stream.
    pub(super) fn explain(&mut self, e: io::Error) -> Error {
        self.failed = true;
        if e.raw_os_error().is_some() || matches!(self.stream, Stream::Plain(_)) {
            return Error::io(&self.path, e);
        }
        if e.kind() == ErrorKind::UnexpectedEof {
            let end = self.consumed_bytes();
            return self
                .format(format!("truncated: the file ends inside a zstd frame at byte {end}"));
        }
        let near = self.consumed_bytes();
        self.format(format!("corrupt zstd data, or garbage after it, near byte {near}: {e}"))
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = match &mut self.stream {
            Stream::Plain(reader) => reader.read(buf),
            Stream::Zstd(decoder) => decoder.read(buf),
        }?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// Size of the file in bytes, or the error for what cannot be a trace whatever its suffix.
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
