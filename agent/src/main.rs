// SPDX-License-Identifier: Apache-2.0
//! The command `cachepilot-agent`. `cachepilot policy ...` runs it, too.

mod cli;

use std::process::ExitCode;

/// malloc maps allocations of at least this size separately, and unmaps them when they are freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 128 << 10;

fn main() -> ExitCode {
    #[cfg(target_env = "gnu")]
    // SAFETY: this sets a parameter of malloc while the process has a single thread.
    unsafe {
        // By default glibc raises this threshold to the largest chunk that was freed, and does not
        // return smaller chunks to the system. Curves of tenants come and go, so the process would
        // stay as large as its largest size so far.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
    cli::run(std::env::args_os())
}
