// SPDX-License-Identifier: Apache-2.0
//! The canary: a cgroup and a file that exist during the examination.

use crate::cgroup::{self, Cgroup, PROCESSES};
use crate::error::{Error, Result};
use memmap2::{Advice, MmapOptions};
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Pages of the canary's file.
pub const FILE_PAGES: u64 = 1024;
/// Pages that the canary reads, with one call each.
pub const READ_PAGES: u64 = 512;
/// Pages that it reads through a mapping.
pub const MAPPED_PAGES: u64 = 64;
/// Pages that it writes.
pub const WRITTEN_PAGES: u64 = 64;
/// Pages that it sends from one file to another.
pub const SENT_PAGES: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// A cgroup and a file, which are removed when this value is dropped.
#[derive(Debug)]
pub struct Canary {
    /// The cgroup.
    pub cgroup: Cgroup,
    /// The file, which is in no page cache.
    pub file: PathBuf,
}

impl Canary {
    /// Creates a cgroup below the root of the hierarchy, and a file in `dir`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn new(dir: &Path) -> Result<Self> {
        let name = format!("cachepilot-doctor-{}", id());
        let path = cgroup::mount::mounted()?.join(&name);
        fs::create_dir(&path).map_err(Error::io(&path))?;
        let file = dir.join(name);
        // From here on, dropping the value cleans up.
        let canary = Self { cgroup: Cgroup { path: path.clone(), id: 0 }, file };
        let cgroup = Cgroup::open(&path)?;
        canary.fill().map_err(Error::io(&canary.file))?;
        let mut canary = canary;
        canary.cgroup = cgroup;
        Ok(canary)
    }

    /// Writes the file again from the beginning, and drops it from the page cache.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn fill(&self) -> io::Result<()> {
        let mut file = File::create(&self.file)?;
        file.write_all(&vec![1; FILE_PAGES as usize * PAGE])?;
        file.sync_all()?;
        forget_cached(&file)
    }

    /// Runs the canary's accesses in its cgroup, in a process of its own.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn sing(&self) -> io::Result<()> {
        let procs = self.cgroup.path.join(PROCESSES);
        let mut command = Command::new("/proc/self/exe");
        command.arg("doctor-canary").arg(&self.file).stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: between fork and exec the child opens, writes and closes one file.
        unsafe {
            command.pre_exec(move || fs::write(&procs, "0"));
        }
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        // Anything that cannot be removed now is empty and harmless.
        let _ = fs::remove_file(&self.file);
        let deadline = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.cgroup.path).is_err() && Instant::now() < deadline {
            // The kernel is still tearing down the canary's process.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The canary's accesses, run in its own process: each kind of access, at least a known number of
/// times.
///
/// # Errors
/// Returns the error of the operating system.
pub fn run_canary(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    advise(&file, libc::POSIX_FADV_RANDOM)?;
    let mut page = [0; PAGE];
    // Every second page, so that no page is read right after itself or its neighbour.
    for at in (0..READ_PAGES).map(|n| n * 2) {
        file.read_exact_at(&mut page, at * PAGE as u64)?;
    }
    for at in (0..WRITTEN_PAGES).map(|n| n * 2 + 1) {
        file.write_all_at(&page, at * PAGE as u64)?;
    }
    // SAFETY: nobody else changes the file, which is removed with the canary.
    let memory = unsafe { MmapOptions::new().len(FILE_PAGES as usize * PAGE).map(&file) }?;
    memory.advise(Advice::Random)?;
    for at in (0..MAPPED_PAGES as usize).map(|n| (n + WRITTEN_PAGES as usize) * 2 + 1) {
        black_box(memory[at * PAGE]);
    }
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    let bytes = SENT_PAGES as usize * PAGE;
    let mut from = 0;
    // SAFETY: both files are open, and the offset is a valid pointer.
    let sent = unsafe { libc::sendfile(null.as_raw_fd(), file.as_raw_fd(), &raw mut from, bytes) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Asks the kernel to drop a file from the page cache.
pub fn forget_cached(file: &File) -> io::Result<()> {
    file.sync_all()?;
    advise(file, libc::POSIX_FADV_DONTNEED)
}

fn advise(file: &File, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: a plain system call on an open file.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
