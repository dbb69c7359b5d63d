// SPDX-License-Identifier: Apache-2.0
//! Writes to cgroup files that may not come back soon.
//!
//! A write to `memory.high` or `memory.reclaim` reclaims in the context of the writer, for as long
//! as that takes. So each is made by a thread of its own that is waited for until a time-out;
//! while one is still under way nothing else is written for that cgroup, which bounds the threads
//! by the number of tenants. Files are opened with `O_NONBLOCK` as well: kernels from 6.16 on then
//! set a limit without reclaiming, others do not look at it.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// Why a write did not take place, or is not known to have.
#[derive(Debug)]
pub enum WriteError {
    /// The system said no.
    Refused(PathBuf, io::Error),
    /// This write, or one before it, is still under way.
    Pending(PathBuf),
}

impl WriteError {
    /// Whether the cgroup is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let gone = [Some(libc::ENOENT), Some(libc::ENODEV)];
        matches!(self, Self::Refused(_, error) if gone.contains(&error.raw_os_error()))
    }

    /// Whether reclaim came to its end without reaching what was asked.
    #[must_use]
    pub fn is_short(&self) -> bool {
        matches!(self, Self::Refused(_, error) if error.raw_os_error() == Some(libc::EAGAIN))
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Pending(path) => write!(f, "{}: a write is still under way", path.display()),
        }
    }
}

/// How a text gets into a file.
type Write = fn(&Path, &str) -> io::Result<()>;

/// All writes of a node.
#[derive(Debug)]
pub struct Writer {
    timeout: Duration,
    write: Write,
    pending: HashMap<u64, (PathBuf, Receiver<io::Result<()>>)>,
}

impl Writer {
    /// Waits for at most `timeout` for each write.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self::with(timeout, write_now)
    }

    /// Writes by `write` instead of to the file, which tests need for errors that only a kernel
    /// can give.
    pub(super) fn with(timeout: Duration, write: Write) -> Self {
        Self { timeout, write, pending: HashMap::new() }
    }

    /// Whether a write for this cgroup is still under way.
    pub fn is_pending(&mut self, cgroup_id: u64) -> bool {
        let Some((_, receiver)) = self.pending.get(&cgroup_id) else { return false };
        if matches!(receiver.try_recv(), Err(TryRecvError::Empty)) {
            return true;
        }
        self.pending.remove(&cgroup_id);
        false
    }

    /// Writes `text` to `file` of a cgroup.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&mut self, cgroup_id: u64, file: &Path, text: &str) -> Result<(), WriteError> {
        if self.is_pending(cgroup_id) {
            return Err(WriteError::Pending(file.into()));
        }
        let (sender, receiver) = sync_channel(1);
        let (path, text, write) = (file.to_path_buf(), text.to_owned(), self.write);
        thread::Builder::new()
            .name("cgroup write".into())
            // Nobody may be waiting any more.
            .spawn(move || drop(sender.send(write(&path, &text))))
            .map_err(|error| WriteError::Refused(file.into(), error))?;
        match receiver.recv_timeout(self.timeout) {
            Ok(result) => result.map_err(|error| WriteError::Refused(file.into(), error)),
            Err(RecvTimeoutError::Timeout) => {
                self.pending.insert(cgroup_id, (file.into(), receiver));
                Err(WriteError::Pending(file.into()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(WriteError::Refused(file.into(), io::Error::other("the writing thread died")))
            }
        }
    }
}

fn write_now(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::io::Read;
    use std::time::Instant;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn a_write_is_made_or_its_refusal_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.high");
        let mut writer = Writer::new(Duration::from_secs(5));
        let error = writer.write(1, &file, "5").unwrap_err();
        assert!(error.is_gone() && !error.is_short(), "{error}");
        assert!(error.to_string().contains("memory.high: No such file"), "{error}");
        fs::write(&file, "a longer text").unwrap();
        writer.write(1, &file, "5").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "5");
        let error = writer.write(1, dir.path(), "5").unwrap_err();
        assert!(!error.is_gone(), "{error}");
        let full = dir.path().join("memory.reclaim");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let error = writer.write(1, &full, "5").unwrap_err();
        assert!(error.to_string().contains("memory.reclaim: No space left"), "{error}");
    }

    /// A full pipe stands for a kernel that reclaims for long.
    #[test]
    fn a_write_that_does_not_end_holds_back_others_of_its_cgroup_only() {
        let dir = tempfile::tempdir().unwrap();
        let (slow, quick) = (dir.path().join("slow"), dir.path().join("quick"));
        fs::write(&quick, "").unwrap();
        let name = CString::new(slow.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut reader = OpenOptions::new().read(true).write(true).open(&slow).unwrap();
        let mut writer = Writer::new(SHORT);
        let (sender, receiver) = sync_channel(1);
        writer.pending.insert(7, (slow.clone(), receiver));
        assert!(matches!(writer.write(7, &quick, "1"), Err(WriteError::Pending(_))));
        writer.write(8, &quick, "2").unwrap();
        assert_eq!(fs::read_to_string(&quick).unwrap(), "2");
        sender.send(Ok(())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while writer.is_pending(7) {
            assert!(Instant::now() < deadline);
        }
        writer.write(7, &slow, "3").unwrap();
        let mut text = [0; 1];
        File::read_exact(&mut reader, &mut text).unwrap();
        assert_eq!(&text, b"3");
    }
}
