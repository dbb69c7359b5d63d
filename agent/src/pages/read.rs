// SPDX-License-Identifier: Apache-2.0
//! Reads the pages of a list into the page cache.

use super::format::{Line, ListReader};
use super::{BLOCK_PAGES, PAGE_BYTES, Range};
use crate::error::Result;
use rustix::fs::{Advice, Mode, OFlags, fadvise, open};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Pages of a list, by result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagesRead {
    /// Pages that were read, or were in memory before.
    pub pages: u64,
    /// Pages of files that do not exist.
    pub missing: u64,
    /// Pages of paths that are not regular files.
    pub not_regular: u64,
    /// Pages after the end of a file.
    pub past_end: u64,
    /// Pages that the operating system refused to read.
    pub failed: u64,
    /// The first error.
    pub first_failure: Option<String>,
}

/// Why a file cannot be read.
#[derive(Debug)]
enum Unreadable {
    Missing,
    NotRegular,
    Refused,
}

/// Reads the pages that a list names, with one read of at most [`BLOCK_PAGES`] after the other, so
/// that other processes wait for at most one of them. What cannot be read is skipped and counted.
/// Each page is read into a buffer: when the read returns, it is in memory and charged to the
/// cgroup of the caller, unless it was in memory before. readahead(2) would return earlier, and
/// does not report failures.
///
/// # Errors
/// Returns an error for a damaged list. Everything before that line has been read then.
pub fn read(list: &mut ListReader<impl BufRead>) -> Result<PagesRead> {
    let mut reader = Reader::new();
    while let Some(line) = list.next_line()? {
        reader.read(line);
    }
    Ok(reader.done)
}

/// A file stays open while consecutive lines name it.
struct Reader {
    buffer: Vec<u8>,
    path: PathBuf,
    file: std::result::Result<File, Unreadable>,
    done: PagesRead,
}

impl Reader {
    fn new() -> Self {
        Self {
            buffer: vec![0; (BLOCK_PAGES * PAGE_BYTES) as usize],
            path: PathBuf::new(),
            file: Err(Unreadable::Missing),
            done: PagesRead::default(),
        }
    }

    fn read(&mut self, line: Line<'_>) {
        if self.path != line.path {
            self.path = line.path.to_path_buf();
            self.file = self.open(line.path);
        }
        let count = match &self.file {
            Ok(_) => return self.read_range(line.range),
            Err(Unreadable::Missing) => &mut self.done.missing,
            Err(Unreadable::NotRegular) => &mut self.done.not_regular,
            Err(Unreadable::Refused) => &mut self.done.failed,
        };
        *count = count.saturating_add(line.range.pages);
    }

    fn open(&mut self, path: &Path) -> std::result::Result<File, Unreadable> {
        let opened = open_to_read(path);
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Unreadable::Missing,
            ErrorKind::InvalidInput => Unreadable::NotRegular,
            _ => {
                self.note_failure(&error);
                Unreadable::Refused
            }
        })
    }

    fn read_range(&mut self, range: Range) {
        for block in range.blocks() {
            if !self.read_block(block) {
                let left = range.end() - block.end();
                self.done.past_end = self.done.past_end.saturating_add(left);
                return;
            }
        }
    }

    /// Returns `false` if the file ends before the end of the block.
    fn read_block(&mut self, block: Range) -> bool {
        let Ok(file) = &self.file else {
            return true;
        };
        let mut first = block.first;
        while first < block.end() {
            let left = block.end() - first;
            let buffer = &mut self.buffer[..(left * PAGE_BYTES) as usize];
            match file.read_at(buffer, first * PAGE_BYTES) {
                Ok(0) => {
                    self.done.past_end = self.done.past_end.saturating_add(left);
                    return false;
                }
                Ok(bytes) => {
                    let pages = (bytes as u64).div_ceil(PAGE_BYTES);
                    self.done.pages += pages;
                    first += pages;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.done.failed = self.done.failed.saturating_add(left);
                    self.note_failure(&error);
                    return true;
                }
            }
        }
        true
    }

    fn note_failure(&mut self, error: &io::Error) {
        let path = &self.path;
        let why = || format!("{}: {error}", path.display());
        self.done.first_failure.get_or_insert_with(why);
    }
}

/// Opens a regular file without readahead, so that only what the list names is read. Anything else
/// gives `InvalidInput` and is not opened, as opening it may have effects.
fn open_to_read(path: &Path) -> io::Result<File> {
    let not_regular = || io::Error::from(ErrorKind::InvalidInput);
    if !fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Only its owner or root may open a file in this way, which does not update its access time.
    let file = match open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => open(path, flags, Mode::empty())?,
        opened => opened?,
    };
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    // A file system without such advice reads more than requested, which does no harm.
    let _ = fadvise(&file, 0, None, Advice::Random);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::residency::tests::{cold_file, ranges};
    use super::*;

    fn read_text(text: &str) -> PagesRead {
        read(&mut ListReader::new(text.as_bytes(), Path::new("LIST"))).unwrap()
    }

    #[test]
    fn exactly_the_pages_of_the_list_are_in_memory_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b c"));
        let files = [cold_file(&a, 300), cold_file(&b, 10)];
        let text = format!("2 1 {0}\n30 100 {0}\n299 1 {0}\n4 3 {1}\n", a.display(), b.display());
        let done = read_text(&text);
        assert_eq!(done, PagesRead { pages: 105, ..PagesRead::default() });
        assert_eq!(ranges(&files[0]), [(2, 1), (30, 100), (299, 1)]);
        assert_eq!(ranges(&files[1]), [(4, 3)]);
    }

    #[test]
    fn unreadable_pages_are_skipped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        cold_file(Path::new(&path("short")), 40);
        fs::OpenOptions::new()
            .write(true)
            .open(path("short"))
            .unwrap()
            .set_len(39 * PAGE_BYTES + 1)
            .unwrap();
        let text = [
            format!("0 5 {}\n0 2 {}/below\n", path("none"), path("short")),
            format!("0 11 {}\n0 13 /dev/null\n", dir.path().display()),
            format!("38 9 {0}\n40 100 {0}\n7 1 {0}\n", path("short")),
        ];
        let done = read_text(&text.concat());
        let expected = PagesRead {
            pages: 3,
            missing: 7,
            not_regular: 24,
            past_end: 107,
            ..PagesRead::default()
        };
        assert_eq!(done, expected);
    }

    #[test]
    fn large_counts_saturate() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("0 {} {}\n", i64::MAX / 4096, dir.path().join("none").display());
        assert_eq!(read_text(&line.repeat(9000)).missing, u64::MAX);
    }

    #[test]
    fn a_read_that_fails_is_reported_with_the_reason() {
        // The path can be opened, but no address of this process has page 1.
        let done = read_text("1 2 /proc/self/mem\n");
        assert_eq!((done.pages, done.failed), (0, 2));
        assert!(done.first_failure.unwrap().starts_with("/proc/self/mem: "));
    }

    #[test]
    fn a_damaged_list_is_refused() {
        let mut list = ListReader::new(&b"0 1 /none\nx\n"[..], Path::new("LIST"));
        let error = read(&mut list).unwrap_err();
        assert!(error.to_string().starts_with("LIST: line 2: "), "{error}");
        assert_eq!(error.exit_status(), 2);
    }
}
