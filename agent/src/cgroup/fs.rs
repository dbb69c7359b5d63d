// SPDX-License-Identifier: Apache-2.0
//! Files of cgroups. The mount point is a parameter, so that tests can use a folder.

use super::{CGROUP2_SUPER_MAGIC, ROOT_ID, mount::file_system_magic, tree};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The text for "no limit" in memory files.
pub const MAX: &str = "max";

/// The text of a file of a cgroup. Invalid UTF-8 is replaced.
///
/// # Errors
/// Returns the error of the operating system.
pub fn read(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// A cgroup hierarchy of version 2. Cgroups are identified by their path below the mount, which
/// begins with a slash.
#[derive(Debug, Clone)]
pub struct CgroupFs {
    mount: PathBuf,
}

impl CgroupFs {
    /// The hierarchy mounted at `mount`.
    #[must_use]
    pub fn new(mount: impl Into<PathBuf>) -> Self {
        Self { mount: mount.into() }
    }

    /// Directory of a cgroup.
    #[must_use]
    pub fn dir(&self, cgroup: &str) -> PathBuf {
        self.mount.join(cgroup.trim_start_matches('/'))
    }

    /// Path of a file of a cgroup.
    #[must_use]
    pub fn file(&self, cgroup: &str, name: &str) -> PathBuf {
        self.dir(cgroup).join(name)
    }

    /// The mount point of the hierarchy.
    #[must_use]
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Id of the cgroup at the mount point: [`ROOT_ID`] for the whole hierarchy, another one for a
    /// part of it, such as that of a private cgroup namespace, and 0 if that is unknown.
    #[must_use]
    pub fn root_id(&self) -> u64 {
        match (file_system_magic(&self.mount), fs::metadata(&self.mount)) {
            (Ok(CGROUP2_SUPER_MAGIC), Ok(root)) => root.ino(),
            // A folder of a test.
            (Ok(_), Ok(_)) => ROOT_ID,
            _ => 0,
        }
    }

    /// Id of a cgroup: the inode number of its directory, which is not used again until the next
    /// boot.
    ///
    /// # Errors
    /// Returns `NotFound` if there is no such cgroup.
    pub fn id(&self, cgroup: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.dir(cgroup))?.ino())
    }

    /// The text of a file.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(&self, cgroup: &str, name: &str) -> io::Result<String> {
        read(&self.file(cgroup, name))
    }

    /// The value of a file that contains one number, or `max`, which is `None`.
    ///
    /// # Errors
    /// Returns the error of the operating system, or `InvalidData` with the name of the file.
    pub fn limit(&self, cgroup: &str, name: &str) -> io::Result<Option<u64>> {
        let text = self.read(cgroup, name)?;
        match text.trim() {
            MAX => Ok(None),
            number => number.parse().map(Some).map_err(|_| self.strange(cgroup, name, number)),
        }
    }

    /// The value of a file that contains one number.
    ///
    /// # Errors
    /// As [`CgroupFs::limit`].
    pub fn number(&self, cgroup: &str, name: &str) -> io::Result<u64> {
        self.limit(cgroup, name)?.ok_or_else(|| self.strange(cgroup, name, MAX))
    }

    /// The values of a file with lines "key number". Lines of another form are left out.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn keyed(&self, cgroup: &str, name: &str) -> io::Result<BTreeMap<String, u64>> {
        let text = self.read(cgroup, name)?;
        let pair = |line: &str| {
            let (key, value) = line.split_once(' ')?;
            Some((key.to_owned(), value.trim().parse().ok()?))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    /// The number in the line "key number" of a file.
    ///
    /// # Errors
    /// As [`CgroupFs::limit`]; `InvalidData` also if no line has this key.
    pub fn value_of(&self, cgroup: &str, name: &str, key: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let mut numbers = values.filter_map(|value| value.trim().parse().ok());
        numbers.next().ok_or_else(|| self.strange(cgroup, name, &text))
    }

    /// Sum of `key=number` over all lines of a file, such as `rios` in `io.stat`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn sum_of(&self, cgroup: &str, name: &str, key: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let words = text.split_whitespace().filter_map(|word| word.split_once('='));
        Ok(words.filter(|(k, _)| *k == key).filter_map(|(_, v)| v.parse::<u64>().ok()).sum())
    }

    /// Microseconds in which at least one task waited, from a pressure file.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn stall_us(&self, cgroup: &str, name: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let some = text.lines().find(|line| line.starts_with("some "));
        let total = some.and_then(|line| line.split_once("total=")).map(|(_, total)| total.trim());
        total.and_then(|t| t.parse().ok()).ok_or_else(|| self.strange(cgroup, name, &text))
    }

    /// Cgroups directly below one, sorted. Those that vanish in the meantime are left out.
    #[must_use]
    pub fn children(&self, cgroup: &str) -> Vec<String> {
        let dirs = tree::children(&self.dir(cgroup)).unwrap_or_default();
        let names = dirs.iter().filter_map(|dir| dir.path.file_name()?.to_str());
        let above = cgroup.trim_end_matches('/');
        let mut children: Vec<String> = names.map(|name| format!("{above}/{name}")).collect();
        children.sort();
        children
    }

    fn strange(&self, cgroup: &str, name: &str, text: &str) -> io::Error {
        let file = self.file(cgroup, name);
        let message = format!("{}: {:?} is not what was expected", file.display(), text.trim());
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}
