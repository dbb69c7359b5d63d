// SPDX-License-Identifier: Apache-2.0
//! Facts that the kernel reports about programs, and their run time, which is counted on request.

use super::checked;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the kernel reports about a program.
///
/// # Errors
/// Returns the error of the operating system.
pub fn info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    // SAFETY: an all-zero `bpf_prog_info` is valid, and requests no arrays.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { mem::zeroed() };
    let mut bytes = mem::size_of_val(&info) as u32;
    // SAFETY: `info` is as large as stated.
    checked(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut bytes)
    })?;
    Ok(info)
}

/// Makes the kernel count the run times of all its programs until the result is dropped. Each run
/// of any program then reads the clock twice.
///
/// # Errors
/// Returns the error of the operating system. Kernels before 5.8 have no such call, and it requires
/// `CAP_SYS_ADMIN`.
pub fn count_run_times() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = checked(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })?;
    // SAFETY: the call returned a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Nanoseconds that the program with this id ran while run times were counted.
///
/// # Errors
/// Returns the error of the operating system.
pub fn run_time_ns(id: u32) -> io::Result<u64> {
    // SAFETY: a plain system call.
    let fd = checked(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the call returned a new descriptor that nothing else owns.
    let program = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(info(program.as_fd())?.run_time_ns)
}
