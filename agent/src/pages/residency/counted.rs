// SPDX-License-Identifier: Apache-2.0
//! The number of pages of a part of a file that are in memory, by cachestat(2), from Linux 6.5 on.

use super::super::{PAGE_BYTES, Range};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The number of the system call, the same on all but one of the architectures that Rust supports.
const SYS_CACHESTAT: libc::c_long = 451;
/// Number of pieces into which a part with cached pages is divided.
const PARTS: u64 = 64;

#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    _others: [u64; 4],
}

/// Number of pages of a part of a file that are in memory.
///
/// # Errors
/// Returns the error of the operating system, for example from a kernel without this call.
pub fn cached_pages(file: &File, part: Range) -> io::Result<u64> {
    let range = CachestatRange { offset: part.first * PAGE_BYTES, bytes: part.pages * PAGE_BYTES };
    let mut told = Cachestat::default();
    // SAFETY: both are structures in the kernel's layout, and live until the call returns.
    match unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut told, 0) } {
        0 => Ok(told.cached),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Pieces of `part` that contain cached pages, of at most `window` pages each, in ascending order.
///
/// # Errors
/// The errors of `cached_pages`.
pub fn with_cached_pages(
    part: Range,
    window: u64,
    cached_pages: &impl Fn(Range) -> io::Result<u64>,
) -> io::Result<Vec<Range>> {
    if cached_pages(part)? == 0 {
        return Ok(Vec::new());
    }
    if part.pages <= window {
        return Ok(vec![part]);
    }
    let pages = part.pages.div_ceil(PARTS).next_multiple_of(window);
    let mut found = Vec::new();
    for part in part.parts(pages) {
        found.extend(with_cached_pages(part, window, cached_pages)?);
    }
    Ok(found)
}
