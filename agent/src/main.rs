// SPDX-License-Identifier: Apache-2.0
//! The command `cachepilot-agent`; also run as `cachepilot policy ...`.

mod cli;

use std::process::ExitCode;

/// From this size on memory is mapped, and given back as soon as it is freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 128 << 10;

fn main() -> ExitCode {
    #[cfg(target_env = "gnu")]
    // SAFETY: a parameter of malloc, set while there is one thread.
    unsafe {
        // Else glibc raises it to the largest chunk that was freed, and keeps what is smaller: curves
        // of tenants come and go, and the process would stay as large as it ever was.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
    cli::run(std::env::args_os())
}
