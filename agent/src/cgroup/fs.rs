// SPDX-License-Identifier: Apache-2.0
//! Files of cgroups. Where the hierarchy is mounted is given, so that tests use a folder.

use super::tree;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How memory files write "no limit".
pub const MAX: &str = "max";

/// The text of a file of a cgroup; what is no UTF-8 in it is replaced.
///
/// # Errors
/// What the system says.
pub fn read(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// A hierarchy of cgroups, version 2. Cgroups are called by their path below the mount, which
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

    /// Path of one of its files.
    #[must_use]
    pub fn file(&self, cgroup: &str, name: &str) -> PathBuf {
        self.dir(cgroup).join(name)
    }

    /// Where the hierarchy is mounted.
    #[must_use]
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Id of a cgroup: the inode number of its directory, never used again until the next boot.
    ///
    /// # Errors
    /// `NotFound` when there is no such cgroup.
    pub fn id(&self, cgroup: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.dir(cgroup))?.ino())
    }

    /// The text of a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, cgroup: &str, name: &str) -> io::Result<String> {
        read(&self.file(cgroup, name))
    }

    /// A file that holds one number, or `max`, which is `None`.
    ///
    /// # Errors
    /// What the system says, or `InvalidData` that names the file.
    pub fn limit(&self, cgroup: &str, name: &str) -> io::Result<Option<u64>> {
        let text = self.read(cgroup, name)?;
        match text.trim() {
            MAX => Ok(None),
            number => number.parse().map(Some).map_err(|_| self.strange(cgroup, name, number)),
        }
    }

    /// A file that holds one number.
    ///
    /// # Errors
    /// As [`CgroupFs::limit`].
    pub fn number(&self, cgroup: &str, name: &str) -> io::Result<u64> {
        self.limit(cgroup, name)?.ok_or_else(|| self.strange(cgroup, name, MAX))
    }

    /// A file of lines "key number"; what is not of that form is left out.
    ///
    /// # Errors
    /// What the system says.
    pub fn keyed(&self, cgroup: &str, name: &str) -> io::Result<BTreeMap<String, u64>> {
        let text = self.read(cgroup, name)?;
        let pair = |line: &str| {
            let (key, value) = line.split_once(' ')?;
            Some((key.to_owned(), value.trim().parse().ok()?))
        };
        Ok(text.lines().filter_map(pair).collect())
    }

    /// The number of one line "key number" of a file.
    ///
    /// # Errors
    /// As [`CgroupFs::limit`]; `InvalidData` too where no line has this key.
    pub fn value_of(&self, cgroup: &str, name: &str, key: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let mut numbers = values.filter_map(|value| value.trim().parse().ok());
        numbers.next().ok_or_else(|| self.strange(cgroup, name, &text))
    }

    /// Sum of `key=number` over all lines of a file, such as `rios` in `io.stat`.
    ///
    /// # Errors
    /// What the system says.
    pub fn sum_of(&self, cgroup: &str, name: &str, key: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let words = text.split_whitespace().filter_map(|word| word.split_once('='));
        Ok(words.filter(|(k, _)| *k == key).filter_map(|(_, v)| v.parse::<u64>().ok()).sum())
    }

    /// Microseconds that some task waited, from a file of pressure.
    ///
    /// # Errors
    /// What the system says.
    pub fn stall_us(&self, cgroup: &str, name: &str) -> io::Result<u64> {
        let text = self.read(cgroup, name)?;
        let some = text.lines().find(|line| line.starts_with("some "));
        let total = some.and_then(|line| line.split_once("total=")).map(|(_, total)| total.trim());
        total.and_then(|t| t.parse().ok()).ok_or_else(|| self.strange(cgroup, name, &text))
    }

    /// Cgroups directly below one, sorted; those that vanish meanwhile are left out.
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
