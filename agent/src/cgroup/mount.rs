// SPDX-License-Identifier: Apache-2.0
//! The mount point of the hierarchy, and the type of the file system at a path.

use crate::error::{Error, Result};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file of every version 2 cgroup, the root among them.
pub const CONTROLLERS: &str = "cgroup.controllers";

/// The mount point of the version 2 hierarchy, from the text of `/proc/self/mountinfo`.
#[must_use]
pub fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        (kind == "cgroup2").then(|| before.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// The mount point of the version 2 hierarchy on this machine.
///
/// # Errors
/// Returns an error if it is not mounted.
pub fn mounted() -> Result<PathBuf> {
    let file = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(file).map_err(Error::io(file))?;
    mount_point(&text).ok_or(Error::NoCgroup2)
}

/// Whether a folder is in a version 2 hierarchy, or looks like it.
#[must_use]
pub fn is_hierarchy(path: &Path) -> bool {
    path.join(CONTROLLERS).exists()
}

/// The magic number of the file system of `path`.
///
/// # Errors
/// Returns an error if it cannot be queried.
pub fn file_system_magic(path: &Path) -> Result<u32> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|e| Error::format(path, format!("not a path: {e}")))?;
    // SAFETY: an all-zero `statfs` is valid, and the call only writes to it.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string and `found` is writable.
    if unsafe { libc::statfs(name.as_ptr(), &raw mut found) } != 0 {
        return Err(Error::io(path)(io::Error::last_os_error()));
    }
    // Magic numbers have 32 bits; the field is wider on some machines.
    Ok(found.f_type as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        31 23 0:27 / /sys rw,nosuid - sysfs sysfs rw\n\
        32 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 31 0:29 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_mount_of_version_2_is_found_among_others() {
        assert_eq!(mount_point(MOUNTS), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point(&MOUNTS.replace("cgroup2", "cgroup")), None);
        assert_eq!(mount_point("nonsense\n - \n"), None);
    }
}
