// SPDX-License-Identifier: Apache-2.0
//! Giving up root, for the rest of a process.

use crate::error::{Result, checked};

/// Loads programs.
const CAP_PERFMON: u32 = 38;
/// Loads programs and makes maps.
const CAP_BPF: u32 = 39;
const VERSION_3: u32 = 0x2008_0522;

/// Nobody's number.
pub const NOBODY: u32 = 65534;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Becomes nobody, with no privilege at all.
///
/// # Errors
/// What the system says.
pub fn become_nobody() -> Result<()> {
    // SAFETY: these take numbers only, and an empty list.
    unsafe {
        checked(libc::setgroups(0, std::ptr::null()), "setgroups")?;
        checked(libc::setresgid(NOBODY, NOBODY, NOBODY), "setresgid")?;
        checked(libc::setresuid(NOBODY, NOBODY, NOBODY), "setresuid")?;
    }
    Ok(())
}

/// Becomes nobody, who may load programs into the kernel and nothing else.
///
/// # Errors
/// What the system says.
pub fn become_loader() -> Result<()> {
    // SAFETY: takes numbers only.
    unsafe {
        checked(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), "keeping capabilities")?;
    }
    become_nobody()?;
    let high = 1 << (CAP_PERFMON - 32) | 1 << (CAP_BPF - 32);
    let header = Header { version: VERSION_3, pid: 0 };
    let data = [Data::default(), Data { effective: high, permitted: high, inheritable: 0 }];
    // SAFETY: the header and the two halves are what this version of the call takes.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    checked(result, "capset")?;
    Ok(())
}
