// SPDX-License-Identifier: Apache-2.0
//! A file that gets its name only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Compression level of traces: the default of zstd, which is faster than any recorder writes.
const ZSTD_LEVEL: i32 = 3;
/// Number of bytes passed to the operating system at a time.
const WRITE_BYTES: usize = 128 << 10;

enum Stream {
    Plain(BufWriter<File>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

/// Deletes a file when dropped, unless it has been renamed.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // Ignored, because the error that led here is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writer of a trace to `path`. It writes to a temporary file in the same folder, which
/// [`Sink::finish`] renames. If it is dropped before that, no file remains.
pub(super) struct Sink {
    path: PathBuf,
    stream: Stream,
    temporary: Temporary,
}

impl Sink {
    /// Starts a file, compressed if `zstd` is set.
    pub(super) fn create(path: &Path, zstd: bool) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::format(path, "is a directory, cannot write a trace there"));
        }
        let (file, temporary) = temporary_beside(path).map_err(|e| Error::io(path, e))?;
        let temporary = Temporary(Some(temporary));
        let buffered = BufWriter::with_capacity(WRITE_BYTES, file);
        let stream = if zstd {
            let encoder = encoder(buffered).map_err(|e| Error::io(path, e))?;
            Stream::Zstd(Box::new(encoder))
        } else {
            Stream::Plain(buffered)
        };
        Ok(Self { path: path.to_path_buf(), stream, temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.stream {
            Stream::Plain(writer) => writer.write_all(bytes),
            Stream::Zstd(encoder) => encoder.write_all(bytes),
        };
        written.map_err(|e| Error::io(&self.path, e))
    }

    /// Completes the file and renames it to its final name, replacing any earlier file.
    pub(super) fn finish(self) -> Result<()> {
        let Self { path, stream, mut temporary } = self;
        publish(stream, &mut temporary, &path).map_err(|e| Error::io(&path, e))
    }
}

fn publish(stream: Stream, temporary: &mut Temporary, path: &Path) -> io::Result<()> {
    let buffered = match stream {
        Stream::Plain(writer) => writer,
        Stream::Zstd(encoder) => encoder.finish()?,
    };
    let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Without this, a power failure after the rename could leave an empty file with the final name.
    file.sync_all()?;
    if let Some(from) = &temporary.0 {
        fs::rename(from, path)?;
    }
    temporary.0 = None;
    Ok(())
}

/// Creates a zstd encoder whose frames have a checksum, so that readers notice any flipped bit.
fn encoder(buffered: BufWriter<File>) -> io::Result<zstd::Encoder<'static, BufWriter<File>>> {
    let mut encoder = zstd::Encoder::new(buffered, ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Creates a new file with a unique name in the folder of `path`.
fn temporary_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".cachepilot-{}-{number}.tmp", process::id());
        let temporary = path.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // A killed process that had the same process id left this file.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_appears_before_finish() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.u64");
        fs::write(&path, b"old").unwrap();
        let mut sink = Sink::create(&path, false).unwrap();
        sink.write(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        sink.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.u64"]);
    }

    #[test]
    fn a_dropped_sink_leaves_nothing() {
        for zstd in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut sink = Sink::create(&folder.path().join("a.u64"), zstd).unwrap();
            sink.write(&[7; 1 << 20]).unwrap();
            assert_eq!(names(folder.path()).len(), 1);
            drop(sink);
            assert!(names(folder.path()).is_empty());
        }
    }

    #[test]
    fn a_failed_rename_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.u64");
        let sink = Sink::create(&path, false).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(sink.finish().unwrap_err().to_string().contains("a.u64"));
        assert_eq!(names(folder.path()), ["a.u64"]);
    }

    #[test]
    fn a_stale_temporary_file_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.u64");
        let stale: Vec<PathBuf> = (0..1000)
            .map(|n| folder.path().join(format!(".cachepilot-{}-{n}.tmp", process::id())))
            .collect();
        stale.iter().for_each(|path| fs::write(path, b"stale").unwrap());
        Sink::create(&path, false).unwrap().finish().unwrap();
        assert!(stale.iter().all(|path| fs::read(path).unwrap() == b"stale"));
        assert!(path.exists());
    }

    #[test]
    fn folders_and_missing_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("no/a.u64")] {
            let message = Sink::create(&path, false).err().unwrap().to_string();
            assert!(message.starts_with(&path.display().to_string()), "{message}");
        }
        assert!(names(folder.path()).is_empty());
    }
}
