// SPDX-License-Identifier: Apache-2.0
//! A folder that looks like a cgroup hierarchy, for tests.

use crate::cgroup::fs::CgroupFs;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub const MIB: u64 = 1 << 20;

/// Replaces a file atomically, like the kernel's cgroup files: a concurrent reader never finds half
/// a text.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().unwrap();
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// A hierarchy in a folder. Its files do not react to writes.
pub struct Fake {
    pub dir: tempfile::TempDir,
}

impl Fake {
    /// Creates these cgroups, each with 64 MiB of file pages in use and no limit.
    pub fn new(cgroups: &[&str]) -> Self {
        let fake = Self { dir: tempfile::tempdir().unwrap() };
        for cgroup in cgroups {
            fake.make(cgroup);
        }
        fake
    }

    pub fn make(&self, cgroup: &str) {
        fs::create_dir_all(self.fs().dir(cgroup)).unwrap();
        for (name, text) in [
            ("memory.current", "67108864\n"),
            ("memory.high", "max\n"),
            ("memory.max", "max\n"),
            ("memory.min", "0\n"),
            ("memory.low", "0\n"),
            ("memory.swap.max", "0\n"),
            ("memory.swap.current", "0\n"),
            ("memory.reclaim", ""),
            ("memory.stat", "anon 0\nfile 67108864\nactive_file 67108864\nunevictable 0\n"),
            ("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n"),
            ("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=22\n"),
            ("io.stat", "8:0 rbytes=0 wbytes=0 rios=33 wios=0\n"),
            ("cpu.stat", "usage_usec 44\nuser_usec 40\nsystem_usec 4\n"),
        ] {
            self.write(cgroup, name, text);
        }
    }

    pub fn fs(&self) -> CgroupFs {
        CgroupFs::new(self.dir.path().join("cgroup"))
    }

    pub fn path(&self, cgroup: &str, name: &str) -> PathBuf {
        self.fs().file(cgroup, name)
    }

    pub fn write(&self, cgroup: &str, name: &str, text: &str) {
        fs::write(self.path(cgroup, name), text).unwrap();
    }

    pub fn read(&self, cgroup: &str, name: &str) -> String {
        fs::read_to_string(self.path(cgroup, name)).unwrap().trim().to_owned()
    }

    /// Makes writes to the file fail: a directory in its place refuses even root.
    pub fn refuse(&self, cgroup: &str, name: &str) {
        fs::remove_file(self.path(cgroup, name)).unwrap();
        fs::create_dir(self.path(cgroup, name)).unwrap();
    }

    /// Makes the cgroup use `bytes` of memory.
    pub fn uses(&self, cgroup: &str, bytes: u64) {
        self.write(cgroup, "memory.current", &format!("{bytes}\n"));
    }
}

mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        let fake = Fake::new(&["/a", "/a/b", "/a/c"]);
        let fs = fake.fs();
        fake.write("/a", "memory.high", "max\n");
        fake.write("/a", "io.stat", "8:0 rbytes=1 rios=3 wios=9\n8:16 rios=4 wios=1\n");
        fake.write("/a", "io.pressure", "some avg10=0.00 avg60=0.00 total=77\nfull total=5\n");
        fake.write("/a", "memory.stat", "anon 5\nfile 7\nodd\n");
        fake.write("/a", "cpu.stat", "usage_usec_more 1\nusage_usec 9\nuser_usec 5\n");
        assert_eq!(fs.limit("/a", "memory.high").unwrap(), None);
        assert!(fs.number("/a", "memory.high").unwrap_err().to_string().contains("memory.high"));
        assert_eq!(fs.sum_of("/a", "io.stat", "rios").unwrap(), 7);
        assert_eq!(fs.stall_us("/a", "io.pressure").unwrap(), 77);
        assert_eq!(fs.value_of("/a", "cpu.stat", "usage_usec").unwrap(), 9);
        assert!(fs.value_of("/a", "cpu.stat", "usage").is_err());
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
