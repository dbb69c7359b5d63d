// SPDX-License-Identifier: Apache-2.0
//! Files that processes have open or mapped, according to /proc.

use super::format;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags, fstat, fstatfs, open, readlink};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Magic numbers of file systems without a disk: tmpfs, ramfs, hugetlbfs.
const IN_MEMORY: [u32; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// The suffix that the kernel adds to the path of a file whose name was removed. A file whose name
/// really ends like this counts as removed, too.
const DELETED: &[u8] = b" (deleted)";

/// A file, also opened by this process.
#[derive(Debug)]
pub struct OpenFile {
    /// Its path according to /proc.
    pub path: PathBuf,
    /// The file.
    pub file: File,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Number of files that were not opened, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotOpened {
    /// Removed files that a process still has open.
    pub deleted: u64,
    /// Files that a list cannot name: the path has a newline, is too long, or is not absolute.
    pub unnamed: u64,
    /// Files that the operating system refused to open.
    pub refused: u64,
}

/// The files seen so far: each one once, even if many processes have it open.
#[derive(Debug, Default)]
pub struct OpenFiles {
    seen: HashSet<(u64, u64)>,
    /// The files that were left out.
    pub not_opened: NotOpened,
}

impl OpenFiles {
    /// Calls `visit` for the files of a process that were not seen yet. If a process has ended, or
    /// ends in the meantime, its files are visited as far as possible.
    ///
    /// # Errors
    /// Returns an error if this process may not see the files of others.
    pub fn of_process(&mut self, pid: u32, visit: &mut impl FnMut(OpenFile)) -> Result<()> {
        for name in ["fd", "map_files"] {
            let dir = PathBuf::from(format!("/proc/{pid}/{name}"));
            self.of_links(&dir, visit).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => Error::NoRights(dir),
                _ => Error::io(&dir)(error),
            })?;
        }
        Ok(())
    }

    fn of_links(&mut self, dir: &Path, visit: &mut impl FnMut(OpenFile)) -> io::Result<()> {
        let Some(links) = unless_gone(fs::read_dir(dir))? else {
            return Ok(());
        };
        for link in links {
            let Some(link) = unless_gone(link)? else {
                return Ok(());
            };
            if let Some(file) = self.of_link(&link.path())? {
                visit(file);
            }
        }
        Ok(())
    }

    /// The file behind a link, if it is a regular file on a disk that was not seen yet.
    fn of_link(&mut self, link: &Path) -> io::Result<Option<OpenFile>> {
        let found = match fs::metadata(link) {
            // Only root can follow links of mappings.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
            // For example, a FUSE file system that only its user may access.
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                self.not_opened.refused += 1;
                return Ok(None);
            }
            Err(_) => return Ok(None),
            Ok(found) => found,
        };
        if !found.is_file() || found.len() == 0 {
            return Ok(None);
        }
        if !self.seen.insert((found.dev(), found.ino())) {
            return Ok(None);
        }
        match opened(link, &found) {
            Ok(Some((file, path))) => Ok(self.unless_left_out(file, path)),
            // The link now refers to another file.
            Ok(None) => {
                self.seen.remove(&(found.dev(), found.ino()));
                Ok(None)
            }
            Err(_) => {
                self.not_opened.refused += 1;
                Ok(None)
            }
        }
    }

    fn unless_left_out(&mut self, file: File, path: PathBuf) -> Option<OpenFile> {
        let found = file.metadata().ok()?;
        if fstatfs(&file).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u32))) {
            return None;
        }
        if found.nlink() == 0 || path.as_os_str().as_bytes().ends_with(DELETED) {
            self.not_opened.deleted += 1;
            return None;
        }
        if !format::can_name(&path) {
            self.not_opened.unnamed += 1;
            return None;
        }
        Some(OpenFile { path, file, bytes: found.len() })
    }
}

/// The file behind a link and its path, if it is still the one that was `found` and the process
/// exists. The path is that of the opened file, whatever happened to the link.
fn opened(link: &Path, found: &Metadata) -> io::Result<Option<(File, PathBuf)>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Some(file) = unless_gone(open(link, flags, Mode::empty()).map_err(io::Error::from))? else {
        return Ok(None);
    };
    let now = fstat(&file)?;
    if (now.st_dev, now.st_ino) != (found.dev(), found.ino()) {
        return Ok(None);
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = readlink(own, Vec::new())?.into_bytes();
    Ok(Some((File::from(file), PathBuf::from(OsString::from_vec(path)))))
}

/// Turns an error for a file or process that no longer exists into `None`.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_of(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    #[test]
    fn a_file_is_found_once_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a b");
        fs::write(&path, "text").unwrap();
        let (one, two) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let mut files = OpenFiles::default();
        let found = files.of_link(&link_of(&one)).unwrap().unwrap();
        assert_eq!((found.path, found.bytes), (path, 4));
        assert!(files.of_link(&link_of(&two)).unwrap().is_none());
        assert_eq!(files.not_opened, NotOpened::default());
    }

    #[test]
    fn files_without_a_usable_name_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            fs::write(dir.path().join(name), "text").unwrap();
            File::open(dir.path().join(name)).unwrap()
        };
        let [empty, removed, renamed, line] = ["empty", "removed", "x (deleted)", "a\nb"].map(open);
        File::create(dir.path().join("empty")).unwrap();
        fs::remove_file(dir.path().join("removed")).unwrap();
        let others = [File::open("/dev/null").unwrap(), File::open("/").unwrap()];
        let mut files = OpenFiles::default();
        for file in [&empty, &removed, &renamed, &line].into_iter().chain(&others) {
            assert!(files.of_link(&link_of(file)).unwrap().is_none(), "{file:?}");
        }
        assert_eq!(files.not_opened, NotOpened { deleted: 2, unnamed: 1, refused: 0 });
    }

    #[test]
    fn a_process_that_is_gone_is_no_error() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let mut visit = |file: OpenFile| panic!("{file:?}");
        OpenFiles::default().of_process(pid, &mut visit).unwrap();
        assert!(OpenFiles::default().of_link(Path::new("/proc/self/fd/9999")).unwrap().is_none());
    }
}
