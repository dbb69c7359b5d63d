// SPDX-License-Identifier: Apache-2.0
//! Processes in cgroups: what they add to the page cache is charged there.

use crate::cgroup::Cgroup;
use crate::error::{Context, Error, Result, checked};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, RawFd};

/// A process that runs a closure.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    report: File,
}

fn pipe() -> Result<(File, File)> {
    let mut ends: [RawFd; 2] = [0; 2];
    // SAFETY: the array has room for both ends.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, "pipe")?;
    // SAFETY: the call returned two descriptors that nothing else owns.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

/// Starts a process in the cgroup, which runs the closure there.
///
/// # Errors
/// What the system says.
pub fn spawn(cgroup: &Cgroup, work: impl FnOnce() -> Result<()>) -> Result<Child> {
    let (report, mut reporter) = pipe()?;
    // SAFETY: this program has one thread when it forks, so that the child may do anything.
    let pid = checked(unsafe { libc::fork() }, "fork")?;
    if pid > 0 {
        return Ok(Child { pid, report });
    }
    let outcome = cgroup.write("cgroup.procs", "0").and_then(|()| work());
    let status = match outcome {
        Ok(()) => 0,
        Err(error) => {
            let written = reporter.write_all(error.to_string().as_bytes());
            i32::from(written.is_err()) + 1
        }
    };
    // SAFETY: ends the child without what the parent would do at its end.
    unsafe { libc::_exit(status) }
}

/// Runs a closure in a process in the cgroup and waits for it.
///
/// # Errors
/// Those of the closure, and how the process ended.
pub fn run(cgroup: &Cgroup, work: impl FnOnce() -> Result<()>) -> Result<()> {
    spawn(cgroup, work)?.wait()
}

/// Keeps this process on the first processor: what it reads comes to the LRU in that order.
///
/// # Errors
/// What the system says.
pub fn stay_on_one_cpu() -> Result<()> {
    stay_on_cpu(0)
}

/// Keeps this process on a processor.
///
/// # Errors
/// What the system says.
pub fn stay_on_cpu(cpu: u32) -> Result<()> {
    let mask = 1_u64 << cpu;
    // SAFETY: the mask has as many bytes as are given.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of::<u64>(), &raw const mask) };
    checked(result, "sched_setaffinity")?;
    Ok(())
}

impl Child {
    /// Waits for its end.
    ///
    /// # Errors
    /// Those of the closure, and how the process ended.
    pub fn wait(mut self) -> Result<()> {
        let mut text = String::new();
        self.report.read_to_string(&mut text).context(|| "report of a child".into())?;
        let status = self.reap()?;
        if status == 0 {
            return Ok(());
        }
        Err(Error::Check(if text.is_empty() {
            format!("a child ended as {status:#x}")
        } else {
            text
        }))
    }

    /// Ends it at once, with SIGKILL.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(self) -> Result<()> {
        // SAFETY: a child that was not waited for keeps its id.
        checked(unsafe { libc::kill(self.pid, libc::SIGKILL) }, "kill")?;
        self.reap().map(|_| ())
    }

    fn reap(&self) -> Result<i32> {
        let mut status = 0;
        // SAFETY: the status has room.
        checked(unsafe { libc::waitpid(self.pid, &raw mut status, 0) }, "waitpid")?;
        Ok(status)
    }
}
