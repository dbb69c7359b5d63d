// SPDX-License-Identifier: Apache-2.0
//! Files of the agent's own state, and what becomes of those that are damaged.
//!
//! A damaged file never stops the agent: what tenants have must be released whatever the disk does.

use crate::error::{Error, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What was found in the place of a file.
#[derive(Debug)]
pub enum Found<T> {
    /// There is no such file.
    Nothing,
    /// The content of the file.
    Content(T),
    /// The file cannot be read, or cannot be parsed; with the reason.
    Damaged(String),
}

/// Reads and parses a file of the state.
///
/// # Errors
/// Returns [`Error::Io`] if this process may not read the file. Such a file is not damaged: the
/// program was started as the wrong user.
pub fn read<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> std::result::Result<T, String>,
) -> Result<Found<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Error::io(path)(error));
        }
        Err(error) => return Ok(Found::Damaged(format!("cannot be read ({error})"))),
    };
    Ok(parse(&bytes).map_or_else(Found::Damaged, Found::Content))
}

/// Copies a damaged file, so that somebody can look at it, and logs an error with the name of the
/// copy. If its content cannot be read, the copy is a second name of the same file. The file itself
/// stays until [`replace`], so that a start that fails does not lose it.
pub fn copy_aside(path: &Path, reason: &str) {
    let aside = aside(path);
    let copied = fs::copy(path, &aside).map(|_| ()).or_else(|error| {
        if path.is_file() {
            // The part that could be read is in the way of the second name. A directory cannot have
            // one: `replace` puts it aside.
            let _ = fs::remove_file(&aside);
        }
        fs::hard_link(path, &aside).map_err(|_| error)
    });
    match copied {
        Ok(()) => tracing::error!("{}: {reason}; a copy is {}", path.display(), aside.display()),
        Err(error) => tracing::error!("{}: {reason}; no copy: {error}", path.display()),
    }
}

/// Renames `new` over `path`. A directory in the place of `path`, over which no file can be
/// renamed, is put aside.
///
/// # Errors
/// Returns the error of the operating system. What was at `path` is still there then.
pub fn replace(new: &Path, path: &Path) -> io::Result<()> {
    match fs::rename(new, path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => {}
        renamed => return renamed,
    }
    // Both change places in one step: at no time is there nothing, which a start would take for a
    // state that was never written.
    let exchange = || renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE);
    exchange()?;
    let aside = aside(path);
    match fs::rename(new, &aside) {
        Ok(()) => {
            tracing::error!("{}: is now {}", path.display(), aside.display());
            Ok(())
        }
        Err(error) => {
            exchange()?;
            Err(error)
        }
    }
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("json.damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_the_place_of_a_file_is_put_aside_when_the_file_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("a.json"), dir.path().join("a.new"));
        fs::create_dir_all(path.join("below")).unwrap();
        let found = read(&path, |_| Ok(())).unwrap();
        assert!(matches!(&found, Found::Damaged(why) if why.contains("directory")), "{found:?}");
        copy_aside(&path, "a test");
        assert!(path.join("below").is_dir());
        fs::write(&new, "1").unwrap();
        replace(&new, &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
        assert!(dir.path().join("a.json.damaged/below").is_dir() && !new.exists());
    }

    #[test]
    fn what_cannot_be_put_aside_stays_and_what_is_new_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("a.json"), dir.path().join("a.new"));
        for full in [&path, &dir.path().join("a.json.damaged")] {
            fs::create_dir_all(full.join("below")).unwrap();
        }
        fs::write(&new, "1").unwrap();
        assert!(replace(&new, &path).is_err());
        assert!(path.join("below").is_dir());
        assert_eq!(fs::read_to_string(&new).unwrap(), "1");
    }

    #[test]
    fn only_a_file_that_is_there_and_readable_is_parsed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let parse = |bytes: &[u8]| match bytes {
            b"1" => Ok(1),
            _ => Err("not 1".to_owned()),
        };
        assert!(matches!(read(&path, parse), Ok(Found::Nothing)));
        fs::write(&path, "1").unwrap();
        assert!(matches!(read(&path, parse), Ok(Found::Content(1))));
        fs::write(&path, "2").unwrap();
        assert!(matches!(read(&path, parse), Ok(Found::Damaged(why)) if why == "not 1"));
    }

    #[test]
    fn a_file_whose_read_fails_gets_a_second_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("a.json"), dir.path().join("a.json.damaged"));
        // A read of this file fails with EIO at its beginning.
        std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
        let found = read(&path, |_| Ok(())).unwrap();
        assert!(matches!(&found, Found::Damaged(why) if why.contains("os error 5")), "{found:?}");
        for _ in 0..2 {
            copy_aside(&path, "a test");
            assert_eq!(fs::read_link(&aside).unwrap(), Path::new("/proc/self/mem"));
        }
        assert!(path.is_symlink());
    }

    #[test]
    fn a_loop_of_links_is_damaged_and_does_not_stop_the_write() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("a.json"), dir.path().join("a.new"));
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(matches!(read(&path, |_| Ok(())), Ok(Found::Damaged(_))));
        copy_aside(&path, "a test");
        fs::write(&new, "1").unwrap();
        replace(&new, &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    }
}
