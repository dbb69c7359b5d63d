// SPDX-License-Identifier: Apache-2.0
//! Directories of the hierarchy.

use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// The directory of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// Its path.
    pub path: PathBuf,
    /// Id of the cgroup.
    pub id: u64,
}

/// Directories directly below one, in no particular order. Both the type and the id come from the
/// directory's own entries, so that none of the children has to be opened.
///
/// # Errors
/// Returns the error of the operating system. A directory that has gone away counts as empty.
pub fn children(dir: &Path) -> io::Result<Vec<Dir>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if is_removed(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = match entry {
            Err(error) if is_removed(&error) => break,
            entry => entry?,
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(Dir { path: entry.path(), id: entry.ino() });
        }
    }
    Ok(found)
}

/// All directories below `root`, parents before children. A directory that goes away in the
/// meantime is left out; one that cannot be read is an error in its place.
pub fn below(root: &Path) -> impl Iterator<Item = io::Result<Dir>> {
    let mut found: Vec<io::Result<Dir>> = Vec::new();
    extend(&mut found, root);
    std::iter::from_fn(move || {
        let next = found.pop()?;
        if let Ok(dir) = &next {
            extend(&mut found, &dir.path);
        }
        Some(next)
    })
}

fn extend(found: &mut Vec<io::Result<Dir>>, dir: &Path) {
    match children(dir) {
        Ok(dirs) => found.extend(dirs.into_iter().map(Ok)),
        Err(error) => found.push(Err(error)),
    }
}

/// Whether an error means that a directory went away while it was being read.
pub(super) fn is_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn parents_come_first_and_files_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        fs::write(root.path().join("a/file"), "").unwrap();
        let found: Vec<Dir> = below(root.path()).map(Result::unwrap).collect();
        let paths: Vec<_> = found.iter().map(|d| d.path.strip_prefix(&root).unwrap()).collect();
        assert_eq!(paths, ["a", "a/b", "a/b/c"].map(Path::new));
        assert!(found.iter().all(|dir| fs::metadata(&dir.path).unwrap().ino() == dir.id));
    }

    #[test]
    fn a_removed_directory_is_empty_and_a_file_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (gone, file) = (root.path().join("gone"), root.path().join("file"));
        fs::write(&file, "").unwrap();
        assert_eq!(children(&gone).unwrap(), []);
        assert_eq!((below(&gone).count(), below(&file).filter(Result::is_err).count()), (0, 1));
    }
}
