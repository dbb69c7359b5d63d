// SPDX-License-Identifier: Apache-2.0
//! Writes to cgroup files that may take long.
//!
//! A write to `memory.high` or `memory.reclaim` reclaims in the context of the writer, for as long
//! as that takes. Each write is therefore made by a thread of its own. Between two ticks, the node
//! waits for all writes together for at most one time-out: however many of them are slow, it goes
//! on reading the accesses that it samples. Per cgroup, at most one write that lowers and
//! [`MOST_RAISES`] that raise are under way; in all, [`MOST_PENDING`] of each kind. A raise does
//! not wait for the lowering before it, whose reclaim may take long.
//!
//! A write names its cgroup by id. The directory is opened, its id is compared, and the file is
//! opened relative to it, so that another cgroup that has the same name by now is left alone. Files
//! are opened with `O_NONBLOCK` as well: kernels from 6.16 on then set a limit without reclaiming,
//! and older ones ignore it.

use rustix::fs::{Mode, OFlags, fstat, open, openat};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Why a write did not take place, or is not known to have taken place.
#[derive(Debug)]
pub enum WriteError {
    /// The operating system refused it.
    Refused(PathBuf, io::Error),
    /// It was begun and is still under way.
    Pending(PathBuf),
    /// It was not begun: an earlier write is still under way.
    Busy(PathBuf),
}

/// The purpose of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To take memory from the cgroup.
    Lower,
    /// To give memory to the cgroup, or to set a limit that takes none.
    Raise,
}

impl WriteError {
    /// Whether the cgroup is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let gone = [Some(libc::ENOENT), Some(libc::ENODEV)];
        matches!(self, Self::Refused(_, error) if gone.contains(&error.raw_os_error()))
    }

    /// Whether reclaim ended without freeing all the requested bytes.
    #[must_use]
    pub fn is_short(&self) -> bool {
        matches!(self, Self::Refused(_, error) if error.raw_os_error() == Some(libc::EAGAIN))
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Pending(path) | Self::Busy(path) => {
                write!(f, "{}: a write is still under way", path.display())
            }
        }
    }
}

/// Writes a text to a file of the cgroup with this id.
type Write = dyn Fn(u64, &Path, &str) -> io::Result<()> + Send + Sync;

/// The most writes of one purpose under way, over all cgroups: each takes a thread.
const MOST_PENDING: usize = 16;
/// The most raises of one cgroup under way: the newest must not wait for the one before it.
const MOST_RAISES: usize = 2;

#[derive(Debug)]
struct Pending {
    cgroup_id: u64,
    purpose: Purpose,
    file: PathBuf,
    answer: Receiver<io::Result<()>>,
}

/// All writes of a node.
pub struct Writer {
    timeout: Duration,
    /// The rest of the time-out until the next tick.
    patience: Duration,
    write: Arc<Write>,
    pending: Vec<Pending>,
    /// Results of writes that outlasted the time-out, until they are taken.
    results: HashMap<(u64, Purpose, PathBuf), io::Result<()>>,
}

impl Writer {
    /// A writer that waits at most `timeout` for all writes between two ticks.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self::with(timeout, write_now)
    }

    /// A writer that calls `write` instead of writing to the file.
    pub(in crate::node::kernel) fn with(
        timeout: Duration,
        write: impl Fn(u64, &Path, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let (pending, results) = (Vec::new(), HashMap::new());
        Self { timeout, patience: timeout, write: Arc::new(write), pending, results }
    }

    /// Replaces the function that writes, and the time-out.
    #[cfg(test)]
    pub(in crate::node::kernel) fn write_by(
        &mut self,
        timeout: Duration,
        write: impl Fn(u64, &Path, &str) -> io::Result<()> + Send + Sync + 'static,
    ) {
        (self.timeout, self.patience, self.write) = (timeout, timeout, Arc::new(write));
    }

    /// Begins a new tick: the whole time-out is available again.
    pub fn renew(&mut self) {
        self.patience = self.timeout;
    }

    /// Forgets results of writes for cgroups that are gone.
    pub fn forget(&mut self, is_there: impl Fn(u64) -> bool) {
        self.results.retain(|&(id, ..), _| is_there(id));
    }

    /// Whether a write for this cgroup and purpose is still under way.
    pub fn is_busy(&mut self, cgroup_id: u64, purpose: Purpose) -> bool {
        self.collect();
        self.count(|one| (one.cgroup_id, one.purpose) == (cgroup_id, purpose)) > 0
    }

    /// Whether a write to this file of a cgroup is still under way.
    pub fn is_writing(&mut self, cgroup_id: u64, file: &Path) -> bool {
        self.collect();
        self.count(|one| one.cgroup_id == cgroup_id && one.file == file) > 0
    }

    /// Takes the result of the last write to this file for this cgroup and purpose, if that write
    /// outlasted the time-out and has ended.
    pub fn take_result(
        &mut self,
        cgroup_id: u64,
        purpose: Purpose,
        file: &Path,
    ) -> Option<io::Result<()>> {
        self.collect();
        self.results.remove(&(cgroup_id, purpose, file.into()))
    }

    fn count(&self, is_meant: impl Fn(&Pending) -> bool) -> usize {
        self.pending.iter().filter(|one| is_meant(one)).count()
    }

    /// Stores the results of writes that have ended.
    fn collect(&mut self) {
        let results = &mut self.results;
        self.pending.retain(|one| match one.answer.try_recv() {
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => false,
            Ok(result) => {
                results.insert((one.cgroup_id, one.purpose, one.file.clone()), result);
                false
            }
        });
    }

    fn has_room(&self, cgroup_id: u64, purpose: Purpose) -> bool {
        let of_both = self.count(|one| (one.cgroup_id, one.purpose) == (cgroup_id, purpose));
        let most = if purpose == Purpose::Raise { MOST_RAISES } else { 1 };
        of_both < most && self.count(|one| one.purpose == purpose) < MOST_PENDING
    }

    /// Writes `text` to `file` of a cgroup.
    ///
    /// # Errors
    /// Returns [`WriteError`]. The result of a write that is still under way is available from
    /// [`Writer::take_result`] later.
    pub fn write(
        &mut self,
        cgroup_id: u64,
        purpose: Purpose,
        file: &Path,
        text: &str,
    ) -> Result<(), WriteError> {
        self.collect();
        if !self.has_room(cgroup_id, purpose) {
            return Err(WriteError::Busy(file.into()));
        }
        self.results.remove(&(cgroup_id, purpose, file.into()));
        let (sender, answer) = sync_channel(1);
        let (path, text, write) = (file.to_path_buf(), text.to_owned(), Arc::clone(&self.write));
        let spawned = thread::Builder::new()
            .name("cgroup write".into())
            // Sending fails if nobody waits for the result any more.
            .spawn(move || drop(sender.send(write(cgroup_id, &path, &text))));
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread for a write; once more later");
            return Err(WriteError::Busy(file.into()));
        }
        let began = Instant::now();
        let answered = answer.recv_timeout(self.patience);
        self.patience = self.patience.saturating_sub(began.elapsed());
        match answered {
            Ok(result) => result.map_err(|error| WriteError::Refused(file.into(), error)),
            Err(RecvTimeoutError::Timeout) => {
                self.pending.push(Pending { cgroup_id, purpose, file: file.into(), answer });
                Err(WriteError::Pending(file.into()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(WriteError::Refused(file.into(), io::Error::other("the writing thread died")))
            }
        }
    }
}

/// Writes to the file if its directory belongs to the cgroup with this id.
pub(in crate::node::kernel) fn write_now(
    cgroup_id: u64,
    path: &Path,
    text: &str,
) -> io::Result<()> {
    let no_file = || io::Error::from_raw_os_error(libc::EINVAL);
    let dir = path.parent().ok_or_else(no_file)?;
    let name = path.file_name().ok_or_else(no_file)?;
    let dir = open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if fstat(&dir)?.st_ino != cgroup_id {
        // The error that opening the directory by its id would give.
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    // `TRUNC` matters only for the files of tests: a cgroup file has no length.
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&dir, name, flags, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
