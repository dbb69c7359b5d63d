// SPDX-License-Identifier: Apache-2.0
//! The kernel's log: every case must leave it as it was, but for what policies are ejected for.

use crate::error::{Context, Result, checked};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Lines that mean trouble begin, after the time, with one of these or contain it.
const TROUBLE: [&str; 16] = [
    "WARNING:",
    "BUG:",
    "BUG ",
    "Oops",
    "INFO: task",
    "INFO: rcu",
    "rcu: INFO",
    "rcu_sched",
    "Call Trace",
    "general protection",
    "soft lockup",
    "hung task",
    "possible recursive locking",
    "invalid context",
    "list_add corruption",
    "list_del corruption",
];
/// A warning of the configuration, not of the kernel's state.
const HARMLESS: [&str; 1] = ["cache_ext: policy"];

/// What a trace is of stands before it, and most of what matters of one in its first lines.
const LINES_BEFORE: usize = 6;
const LINES_AFTER: usize = 40;

/// A place in the log.
#[derive(Debug)]
pub struct KernelLog(File);

impl KernelLog {
    /// Its end.
    ///
    /// # Errors
    /// What the system says.
    pub fn end() -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let file = file.context(|| "/dev/kmsg".into())?;
        // SAFETY: takes numbers only.
        checked(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) }, "/dev/kmsg")?;
        Ok(Self(file))
    }

    /// Lines since then.
    pub fn lines(&mut self) -> Vec<String> {
        let mut record = [0; 8192];
        let mut lines = Vec::new();
        // One record a read; an error is the end, or records that were lost meanwhile.
        while let Ok(bytes) = self.0.read(&mut record) {
            let text = String::from_utf8_lossy(&record[..bytes]);
            let line = text.split_once(';').map_or(&*text, |(_, line)| line);
            lines.push(line.lines().next().unwrap_or_default().to_owned());
        }
        lines
    }

    /// Those that mean trouble, with those around the first, which say what it is.
    pub fn trouble(&mut self) -> Vec<String> {
        let bad = |line: &String| {
            TROUBLE.iter().any(|word| line.contains(word))
                && !HARMLESS.iter().any(|start| line.starts_with(start))
        };
        let lines = self.lines();
        let Some(first) = lines.iter().position(bad) else { return Vec::new() };
        let around = first.saturating_sub(LINES_BEFORE)..lines.len().min(first + LINES_AFTER);
        lines[around].to_vec()
    }
}
