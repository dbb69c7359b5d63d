// SPDX-License-Identifier: Apache-2.0
//! Policies as the kernel sees them: programs, a struct_ops map, a link, tunables in a map.

pub mod link;
pub mod messages;
pub mod object;
pub mod ops_layout;
pub mod support;
pub mod tunables;

use std::io;

/// The result of a libbpf call that returns a negative error number.
pub fn checked(status: i32) -> io::Result<i32> {
    if status < 0 { Err(io::Error::from_raw_os_error(-status)) } else { Ok(status) }
}
