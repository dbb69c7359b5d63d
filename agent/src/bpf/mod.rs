// SPDX-License-Identifier: Apache-2.0
//! What every BPF object needs (programs, maps, links), and the sampler of page cache accesses.

pub mod event;
pub mod layout;
pub mod link;
pub mod messages;
pub mod program;
#[cfg(test)]
mod relocation_tests;
pub mod ring;
pub mod sampler;
pub mod shares;
pub mod source;
pub mod watch;

use std::io;

/// Converts the result of a libbpf call, which is a negative error number on failure.
pub fn checked(status: i32) -> io::Result<i32> {
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(status) }
}
