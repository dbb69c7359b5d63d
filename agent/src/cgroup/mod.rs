// SPDX-License-Identifier: Apache-2.0
//! Control groups version 2. This is the only module that reads their directories and files.

pub mod fs;
pub mod mount;
pub mod tree;

use self::mount::file_system_magic;
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file with the statistics of a cgroup's policy.
pub const STATS_FILE: &str = "memory.cache_ext";

/// The file with the ids of a cgroup's processes. Writing the id of a process to it moves that
/// process.
pub const PROCESSES: &str = "cgroup.procs";
const CGROUP2_SUPER_MAGIC: u32 = 0x6367_7270;
/// Inode number of the root of every kernfs, and therefore the id of the root cgroup.
pub const ROOT_ID: u64 = 1;

/// A cgroup in which the memory controller is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory, without symbolic links.
    pub path: PathBuf,
    /// The kernel's id: the inode number of the directory, which is not used again.
    pub id: u64,
}

impl Cgroup {
    /// The cgroup whose directory is `path`.
    ///
    /// # Errors
    /// Returns an error if it is not a version 2 cgroup, is the root, or has no memory controller.
    pub fn open(path: &Path) -> Result<Self> {
        let path = path.canonicalize().map_err(Error::io(path))?;
        if !path.is_dir() || file_system_magic(&path)? != CGROUP2_SUPER_MAGIC {
            return Err(Error::NotCgroup2(path));
        }
        let id = path.metadata().map_err(Error::io(&path))?.ino();
        if id == ROOT_ID {
            return Err(Error::RootCgroup(path));
        }
        if !path.join("memory.current").exists() {
            return Err(Error::NoMemoryController(path));
        }
        Ok(Self { path, id })
    }

    /// The text of one of its files.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(&self, name: &str) -> io::Result<String> {
        fs::read(&self.path.join(name))
    }

    /// Ids of the processes in it and in the cgroups below it, ascending. What goes away in the
    /// meantime may be left out.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn processes(&self) -> io::Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        let own = tree::Dir { path: self.path.clone(), id: self.id };
        for dir in std::iter::once(Ok(own)).chain(tree::below(&self.path)) {
            match fs::read(&dir?.path.join(PROCESSES)) {
                // In a threaded cgroup, the processes belong to a cgroup above.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                Err(error) if tree::is_removed(&error) => {}
                // 0 stands for a process of another namespace.
                ids => found.extend(
                    ids?.lines().filter_map(|id| id.parse::<u32>().ok()).filter(|&id| id > 0),
                ),
            }
        }
        Ok(found)
    }

    /// Moves the calling process to it.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn join(&self) -> Result<()> {
        let file = self.path.join(PROCESSES);
        std::fs::write(&file, "0").map_err(Error::io(&file))
    }

    /// The file with the statistics of its policy.
    #[must_use]
    pub fn stats_file(&self) -> PathBuf {
        self.path.join(STATS_FILE)
    }
}

/// All cgroups below `root` that have the file of statistics, parents before children. `root`
/// itself is not included, as it cannot have a policy. A cgroup that vanishes in the meantime is
/// left out.
pub fn walk(root: &Path) -> Vec<Cgroup> {
    let dirs = tree::below(root).filter_map(io::Result::ok);
    let with_policies = dirs.filter(|dir| dir.path.join(STATS_FILE).exists());
    let mut found: Vec<Cgroup> =
        with_policies.map(|dir| Cgroup { path: dir.path, id: dir.id }).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The ids among `ids` that no cgroup has any more. They must have been in use before the call: a
/// cgroup that is created in the meantime may be missed.
///
/// Directories are searched instead of opened by their ids: `open_by_handle_at` requires one more
/// capability (`CAP_DAC_READ_SEARCH`) and a system call that seccomp filters for services leave
/// out.
///
/// # Errors
/// Returns an error if a directory cannot be read, as the answer is then unknown.
pub fn gone(ids: impl IntoIterator<Item = u64>, mount: &Path) -> Result<BTreeSet<u64>> {
    let mut left: BTreeSet<u64> = ids.into_iter().collect();
    let root = mount.metadata().map_err(Error::io(mount))?;
    if root.ino() != ROOT_ID {
        // Only a part of the hierarchy is mounted: nothing is known about ids that are not in it.
        return Ok(BTreeSet::new());
    }
    remove_present(&mut left, mount)?;
    Ok(left)
}

/// Removes the ids of the directories below `root` from `ids`.
fn remove_present(ids: &mut BTreeSet<u64>, root: &Path) -> Result<()> {
    for dir in tree::below(root) {
        if ids.is_empty() {
            break;
        }
        ids.remove(&dir.map_err(Error::io(root))?.id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_elsewhere_is_no_cgroup() {
        let dir = tempfile::tempdir().unwrap();
        let error = Cgroup::open(dir.path()).unwrap_err();
        assert!(matches!(&error, Error::NotCgroup2(_)), "{error}");
        let error = Cgroup::open(&dir.path().join("gone")).unwrap_err();
        assert!(matches!(&error, Error::Io { .. }), "{error}");
    }

    #[test]
    fn processes_are_those_of_a_cgroup_and_of_all_below_it() {
        let root = tempfile::tempdir().unwrap();
        for (path, ids) in [("a", "7\n70\n"), ("a/b/c", "8\n0\n"), ("other", "9\n")] {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join(PROCESSES), ids).unwrap();
        }
        let processes = |path: &str| Cgroup { path: root.path().join(path), id: 2 }.processes();
        assert_eq!(processes("a").unwrap(), BTreeSet::from([7, 8, 70]));
        assert_eq!(processes("gone").unwrap(), BTreeSet::new());
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
