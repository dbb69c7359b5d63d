// SPDX-License-Identifier: Apache-2.0
//! Writers of page ids and of records.

use std::path::Path;

use super::format::{Compression, Encoding, Format};
use super::record::{Header, Record};
use super::sink::Sink;
use crate::error::{Error, Result};

/// Number of keys converted to bytes at a time.
const KEYS_PER_WRITE: usize = 1024;

/// Writes `.u64` and `.u64.zst`. The file appears when [`KeyWriter::finish`] succeeds. After an
/// error, or if the writer is dropped before that, no file remains.
pub struct KeyWriter {
    sink: Sink,
    requests: u64,
}

impl KeyWriter {
    /// Starts the file `path`.
    ///
    /// # Errors
    /// [`Error::Format`] when the path has another suffix, [`Error::Io`] when the folder cannot be
    /// written.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { sink: create(path, Encoding::U64)?, requests: 0 })
    }

    /// Appends one request per key.
    ///
    /// # Errors
    /// [`Error::Io`] when writing fails.
    pub fn write(&mut self, keys: &[u64]) -> Result<()> {
        let mut bytes = [0; KEYS_PER_WRITE * 8];
        for block in keys.chunks(KEYS_PER_WRITE) {
            let bytes = &mut bytes[..block.len() * 8];
            for (to, key) in bytes.chunks_exact_mut(8).zip(block) {
                to.copy_from_slice(&key.to_le_bytes());
            }
            self.sink.write(bytes)?;
        }
        self.requests += keys.len() as u64;
        Ok(())
    }

    /// Completes the file. Returns the number of requests in it.
    ///
    /// # Errors
    /// [`Error::Format`] when there are none, since no reader accepts an empty trace; [`Error::Io`]
    /// when writing fails.
    pub fn finish(self) -> Result<u64> {
        finish(self.sink, self.requests)
    }
}

/// Writes `.cptrace` and `.cptrace.zst`. The file appears when [`RecordWriter::finish`] succeeds.
/// After an error, or if the writer is dropped before that, no file remains.
pub struct RecordWriter {
    sink: Sink,
    header: Header,
    requests: u64,
}

impl RecordWriter {
    /// Starts the file `path` with `header`.
    ///
    /// # Errors
    /// As [`KeyWriter::create`].
    pub fn create(path: &Path, header: Header) -> Result<Self> {
        let mut sink = create(path, Encoding::Cptrace)?;
        sink.write(&header.encode())?;
        Ok(Self { sink, header, requests: 0 })
    }

    /// Appends `records`.
    ///
    /// # Errors
    /// [`Error::Argument`] when a record has a field that the header says is absent,
    /// [`Error::Io`] when writing fails.
    pub fn write(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            if let Some(message) = self.header.contradiction(record) {
                let number = self.requests;
                return Err(Error::argument("record", format!("record {number} {message}")));
            }
            self.sink.write(&record.encode())?;
            self.requests += 1;
        }
        Ok(())
    }

    /// Completes the file. Returns the number of records in it.
    ///
    /// # Errors
    /// As [`KeyWriter::finish`].
    pub fn finish(self) -> Result<u64> {
        finish(self.sink, self.requests)
    }
}

/// Writes page keys in any format that this crate writes: that of [`KeyWriter`], or that of
/// [`RecordWriter`] as opaque keys without times, tasks and directions.
pub struct KeySink(Target);

enum Target {
    Keys(KeyWriter),
    Records(RecordWriter),
}

impl KeySink {
    /// Starts the file `path`.
    ///
    /// # Errors
    /// [`Error::Format`] when the suffix names a format that this crate does not write,
    /// [`Error::Io`] when the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        match Format::from_path(path)?.encoding {
            Encoding::U64 => Ok(Self(Target::Keys(KeyWriter::create(path)?))),
            Encoding::Cptrace => {
                Ok(Self(Target::Records(RecordWriter::create(path, Header::KEYS_ALONE)?)))
            }
            _ => Err(cannot_write(path)),
        }
    }

    /// Appends one request per key.
    ///
    /// # Errors
    /// [`Error::Io`] when writing fails.
    pub fn write(&mut self, keys: &[u64]) -> Result<()> {
        match &mut self.0 {
            Target::Keys(writer) => writer.write(keys),
            Target::Records(writer) => keys
                .iter()
                .try_for_each(|&index| writer.write(&[Record { index, ..Record::default() }])),
        }
    }

    /// Completes the file. Returns the number of requests in it.
    ///
    /// # Errors
    /// As [`KeyWriter::finish`].
    pub fn finish(self) -> Result<u64> {
        match self.0 {
            Target::Keys(writer) => writer.finish(),
            Target::Records(writer) => writer.finish(),
        }
    }
}

/// Creates the error for the suffix of a format that is only read.
pub(super) fn cannot_write(path: &Path) -> Error {
    Error::format(path, "cannot write this format; known: .u64, .cptrace, also .zst")
}

fn create(path: &Path, encoding: Encoding) -> Result<Sink> {
    let format = Format::from_path(path)?;
    if format.encoding == encoding && format.compression != Compression::Gzip {
        return Sink::create(path, format.compression == Compression::Zstd);
    }
    let expected = encoding.name();
    Err(Error::format(path, format!("cannot write {format} here, expected .{expected}[.zst]")))
}

fn finish(sink: Sink, requests: u64) -> Result<u64> {
    if requests == 0 {
        return Err(Error::format(sink.path(), "no requests to write"));
    }
    sink.finish()?;
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_trace_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("a.u64.zst");
        let records = folder.path().join("a.cptrace");
        assert!(KeyWriter::create(&keys).unwrap().finish().is_err());
        assert!(RecordWriter::create(&records, Header::FULL).unwrap().finish().is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_writer_takes_only_its_own_suffix() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "a.cptrace", "a.oracleGeneral", "a", "a.u64.gz"] {
            assert!(KeyWriter::create(&folder.path().join(name)).is_err(), "{name}");
        }
        assert!(RecordWriter::create(&folder.path().join("a.u64"), Header::FULL).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn records_must_fit_the_header() {
        let bare =
            Header { opaque_keys: true, has_times: false, has_tasks: false, has_directions: false };
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RecordWriter::create(&folder.path().join("a.cptrace"), bare).unwrap();
        writer.write(&[Record { index: 5, cgroup: 6, ..Record::default() }]).unwrap();
        for (record, word) in [
            (Record { inode: 1, ..Record::default() }, "opaque"),
            (Record { device: 1, ..Record::default() }, "opaque"),
            (Record { generation: 1, ..Record::default() }, "opaque"),
            (Record { time_ns: 1, ..Record::default() }, "time"),
            (Record { task: 1, ..Record::default() }, "task"),
            (Record { write: true, ..Record::default() }, "write"),
        ] {
            let message = writer.write(&[record]).unwrap_err().to_string();
            assert!(message.contains("record 1") && message.contains(word), "{message}");
        }
    }
}
