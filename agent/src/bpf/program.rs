// SPDX-License-Identifier: Apache-2.0
//! What the kernel tells of programs; how long they ran, while somebody wants that to be counted.

use super::checked;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the kernel tells of a program.
///
/// # Errors
/// What the system says.
pub fn info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    // SAFETY: an all-zero `bpf_prog_info` is valid, and asks for no arrays.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { mem::zeroed() };
    let mut bytes = mem::size_of_val(&info) as u32;
    // SAFETY: `info` is as large as stated.
    checked(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut bytes)
    })?;
    Ok(info)
}

/// Makes the kernel count the run times of all its programs, as long as the result is held: each
/// run of any of them then reads the clock twice.
///
/// # Errors
/// What the system says: kernels before 5.8 have no such call, and it takes `CAP_SYS_ADMIN`.
pub fn count_run_times() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    let fd = checked(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })?;
    // SAFETY: the call returned a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Nanoseconds that the program with this id ran, of the times in which that was counted.
///
/// # Errors
/// What the system says.
pub fn run_time_ns(id: u32) -> io::Result<u64> {
    // SAFETY: plain system call.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the call returned a new descriptor that nothing else owns.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(info(program.as_fd())?.run_time_ns)
}
