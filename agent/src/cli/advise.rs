// SPDX-License-Identifier: Apache-2.0
//! `advise`: advice to the kernel on the cached pages of a file. It does not require root.

use super::Failure;
use super::args::{AdviceOption, AdviseOptions};
use cachepilot_agent::Error;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// From include/uapi/linux/cache_ext.h in the patched kernel.
const FADV_CACHE_EVICT: i32 = 0x100;
const FADV_CACHE_KEEP: i32 = 0x101;

pub fn run(options: &AdviseOptions) -> Result<(), Failure> {
    let advice = match options.advice {
        AdviceOption::Evict => FADV_CACHE_EVICT,
        AdviceOption::Keep => FADV_CACHE_KEEP,
        AdviceOption::Prefetch => libc::POSIX_FADV_WILLNEED,
    };
    let file = File::open(&options.file).map_err(Error::io(&options.file))?;
    // SAFETY: the call takes numbers only.
    let error =
        unsafe { libc::posix_fadvise(file.as_raw_fd(), options.offset, options.length, advice) };
    match error {
        0 => Ok(()),
        libc::EINVAL => Err(refused(
            options,
            "no such advice here: it takes a kernel with cache_ext, and a disk",
        )),
        libc::EOPNOTSUPP => Err(refused(options, "no policy of this cgroup can keep pages")),
        error => Err(refused(options, &io::Error::from_raw_os_error(error).to_string())),
    }
}

fn refused(options: &AdviseOptions, why: &str) -> Failure {
    Error::io(&options.file)(io::Error::other(why.to_owned())).into()
}
