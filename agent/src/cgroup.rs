// SPDX-License-Identifier: Apache-2.0
//! Control groups of the second version, their ids, and which of those are in use no more.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file with the statistics of a cgroup's policy.
pub const STATS_FILE: &str = "memory.cache_ext";

const CGROUP2_SUPER_MAGIC: u32 = 0x6367_7270;
/// Inode number of the root of every kernfs, and thus the id of the root cgroup.
const ROOT_ID: u64 = 1;

/// A cgroup in which the memory controller is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory, without symbolic links.
    pub path: PathBuf,
    /// What the kernel calls it: the inode number of the directory, never used again.
    pub id: u64,
}

impl Cgroup {
    /// The cgroup whose directory is `path`.
    ///
    /// # Errors
    /// When it is none of version 2, is the root, or has no memory controller.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().map_err(Error::io(path))?;
        if !path.is_dir() || file_system_magic(&path)? != CGROUP2_SUPER_MAGIC {
            return Err(Error::NotCgroup2(path));
        }
        let id = fs::metadata(&path).map_err(Error::io(&path))?.ino();
        if id == ROOT_ID {
            return Err(Error::RootCgroup(path));
        }
        if !path.join("memory.current").exists() {
            return Err(Error::NoMemoryController(path));
        }
        Ok(Self { path, id })
    }

    /// The file with the statistics of its policy.
    #[must_use]
    pub fn stats_file(&self) -> PathBuf {
        self.path.join(STATS_FILE)
    }
}

/// Every cgroup below `root` (which is no cgroup that could have a policy) that has the file of
/// statistics, parents before children. One that vanishes meanwhile is left out.
pub fn walk(root: &Path) -> Vec<Cgroup> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            let path = entry.path();
            if let (true, Ok(meta)) = (path.join(STATS_FILE).exists(), entry.metadata()) {
                found.push(Cgroup { path: path.clone(), id: meta.ino() });
            }
            pending.push(path);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Where the version 2 hierarchy is mounted, from the text of `/proc/self/mountinfo`.
#[must_use]
pub fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        (kind == "cgroup2").then(|| before.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Where the version 2 hierarchy is mounted on this machine.
///
/// # Errors
/// When it is mounted nowhere.
pub fn mounted() -> Result<PathBuf> {
    let file = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(file).map_err(Error::io(file))?;
    mount_point(&text).ok_or(Error::NoCgroup2)
}

/// Those of `ids` that no cgroup has any more. They must have been in use before the call: a cgroup
/// that is made meanwhile may be missed.
///
/// Directories are looked through instead of opened by their ids: `open_by_handle_at` takes one more
/// capability (`CAP_DAC_READ_SEARCH`) and a system call that filters for services leave out.
///
/// # Errors
/// When a directory cannot be read, so that nobody knows.
pub fn gone(ids: impl IntoIterator<Item = u64>, mount: &Path) -> Result<BTreeSet<u64>> {
    let mut left: BTreeSet<u64> = ids.into_iter().collect();
    let root = fs::metadata(mount).map_err(Error::io(mount))?;
    if root.ino() != ROOT_ID {
        // A part of the hierarchy: of ids that are not in it nothing is known.
        return Ok(BTreeSet::new());
    }
    remove_present(&mut left, mount)?;
    Ok(left)
}

/// Removes the ids of the directories below `root` from `ids`.
fn remove_present(ids: &mut BTreeSet<u64>, root: &Path) -> Result<()> {
    let mut pending = vec![root.to_path_buf()];
    while let (Some(dir), false) = (pending.pop(), ids.is_empty()) {
        let entries = match fs::read_dir(&dir) {
            Err(error) if is_removed(&error) => continue,
            entries => entries.map_err(Error::io(&dir))?,
        };
        for entry in entries {
            let entry = match entry {
                Err(error) if is_removed(&error) => break,
                entry => entry.map_err(Error::io(&dir))?,
            };
            // Both are told by the directory's own content.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                ids.remove(&entry.ino());
                pending.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Whether a directory went away while it was being read.
fn is_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// The number by which the file system of `path` is known.
///
/// # Errors
/// When it cannot be asked.
pub fn file_system_magic(path: &Path) -> Result<u32> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|e| Error::format(path, format!("not a path: {e}")))?;
    // SAFETY: an all-zero `statfs` is valid, and the call only writes to it.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string and `found` is writable.
    if unsafe { libc::statfs(name.as_ptr(), &raw mut found) } != 0 {
        return Err(Error::io(path)(io::Error::last_os_error()));
    }
    // The magic numbers have 32 bits; the field is wider on some machines.
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

    #[test]
    fn a_directory_elsewhere_is_no_cgroup() {
        let dir = tempfile::tempdir().unwrap();
        let error = Cgroup::open(dir.path()).unwrap_err();
        assert!(matches!(&error, Error::NotCgroup2(_)), "{error}");
        let error = Cgroup::open(&dir.path().join("gone")).unwrap_err();
        assert!(matches!(&error, Error::Io { .. }), "{error}");
    }

    #[test]
    fn only_directories_with_the_file_of_statistics_are_walked_to() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b", "a/inner", "bare/inner"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        for path in ["b", "a", "bare/inner"] {
            fs::write(root.path().join(path).join(STATS_FILE), "policy none\n").unwrap();
        }
        let found = walk(root.path());
        let paths: Vec<_> = found.iter().map(|c| c.path.strip_prefix(&root).unwrap()).collect();
        assert_eq!(paths, ["a", "b", "bare/inner"].map(Path::new));
        assert!(found.iter().all(|c| fs::metadata(&c.path).unwrap().ino() == c.id));
    }

    #[test]
    fn ids_of_directories_that_are_there_are_in_use() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/inner")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let id = |name: &str| fs::metadata(root.path().join(name)).unwrap().ino();
        let mut ids = BTreeSet::from([id("a"), id("a/inner"), id("file"), u64::MAX]);
        let left = BTreeSet::from([id("file"), u64::MAX]);
        remove_present(&mut ids, root.path()).unwrap();
        assert_eq!(ids, left);
        let missing = root.path().join("missing");
        remove_present(&mut ids, &missing).unwrap();
        assert_eq!(ids, left);
        assert!(gone([7], &missing).is_err());
    }

    #[test]
    fn in_a_part_of_the_hierarchy_nothing_is_known_to_be_gone() {
        let part = tempfile::tempdir().unwrap();
        assert_eq!(gone([7, u64::MAX], part.path()).unwrap(), BTreeSet::new());
    }
}
