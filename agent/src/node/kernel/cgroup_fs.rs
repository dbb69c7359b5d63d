// SPDX-License-Identifier: Apache-2.0
//! Files of cgroups. Where the hierarchy is mounted is given, so that tests use a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How memory files write "no limit".
pub const MAX: &str = "max";

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
        fs::read_to_string(self.file(cgroup, name))
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
        let entries = fs::read_dir(self.dir(cgroup)).into_iter().flatten().flatten();
        let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let names = dirs.filter_map(|e| e.file_name().into_string().ok());
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

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        let fake = Fake::new(&["/a", "/a/b", "/a/c"]);
        let fs = fake.fs();
        fake.write("/a", "memory.high", "max\n");
        fake.write("/a", "io.stat", "8:0 rbytes=1 rios=3 wios=9\n8:16 rios=4 wios=1\n");
        fake.write("/a", "io.pressure", "some avg10=0.00 avg60=0.00 total=77\nfull total=5\n");
        fake.write("/a", "memory.stat", "anon 5\nfile 7\nodd\n");
        assert_eq!(fs.limit("/a", "memory.high").unwrap(), None);
        assert!(fs.number("/a", "memory.high").unwrap_err().to_string().contains("memory.high"));
        assert_eq!(fs.sum_of("/a", "io.stat", "rios").unwrap(), 7);
        assert_eq!(fs.stall_us("/a", "io.pressure").unwrap(), 77);
        assert_eq!(fs.keyed("/a", "memory.stat").unwrap().len(), 2);
        assert_eq!(fs.children("/a"), ["/a/b", "/a/c"]);
        assert_eq!(fs.children("/"), ["/a"]);
        assert!(fs.id("/nope").is_err());
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_file() {
        let fake = Fake::new(&["/a"]);
        fake.write("/a", "memory.high", "lots\n");
        let error = fake.fs().limit("/a", "memory.high").unwrap_err().to_string();
        assert!(error.contains("/a/memory.high") && error.contains("lots"), "{error}");
    }
}
