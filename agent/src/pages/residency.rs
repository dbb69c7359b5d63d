// SPDX-License-Identifier: Apache-2.0
//! Which pages of a file are in memory, according to mincore(2). Its time grows with the size of
//! the file, so in a large file only the parts in which cachestat(2) counts pages are checked.

mod counted;

use self::counted::{cached_pages, with_cached_pages};
use super::{PAGE_BYTES, Range};
use memmap2::MmapOptions;
use std::fs::File;
use std::io;

/// Number of pages that are mapped at a time, 1 GiB.
const WINDOW_PAGES: u64 = 1 << 18;
/// The most windows that are checked if the kernel has no cachestat(2), 1 TiB.
const MOST_WINDOWS: u64 = 1024;

/// Pages of a file that are in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// The ranges in ascending order; no two of them are adjacent.
    pub ranges: Vec<Range>,
    /// Pages whose ranges did not fit.
    pub left_out: u64,
    /// Pages at the end of a large file that were not checked, whether in memory or not.
    pub unasked: u64,
}

impl Resident {
    fn add(&mut self, page: u64, room: usize) {
        let is_full = self.ranges.len() >= room;
        match self.ranges.last_mut() {
            Some(last) if last.end() == page => last.pages += 1,
            _ if !is_full => self.ranges.push(Range { first: page, pages: 1 }),
            _ => self.left_out += 1,
        }
    }
}

/// The pages in memory of the first `bytes` of a file, as at most `room` ranges. If the caller
/// neither owns the file nor may write to it, and is not root, the kernel reports that all pages
/// are in memory.
///
/// # Errors
/// Returns the error of the operating system, for example for a file that cannot be mapped.
pub fn resident(file: &File, bytes: u64, room: usize) -> io::Result<Resident> {
    resident_by_windows(file, bytes, room, WINDOW_PAGES)
}

fn resident_by_windows(file: &File, bytes: u64, room: usize, window: u64) -> io::Result<Resident> {
    let pages = bytes.div_ceil(PAGE_BYTES);
    let (windows, unasked) = windows(pages, window, |range| cached_pages(file, range));
    let mut found = Resident { unasked, ..Resident::default() };
    let mut told = vec![0; window.min(pages) as usize];
    for Range { first, pages } in windows {
        let told = &mut told[..pages as usize];
        ask(file, first, told)?;
        for (page, byte) in (first..).zip(told.iter()) {
            // The other bits are reserved.
            if byte & 1 == 1 {
                found.add(page, room);
            }
        }
    }
    Ok(found)
}

/// Parts of a file to check, of at most `window` pages each, in ascending order; and the number of
/// pages after them that are not checked. `pages` is the size of the file.
fn windows(
    pages: u64,
    window: u64,
    cached_pages: impl Fn(Range) -> io::Result<u64>,
) -> (Vec<Range>, u64) {
    let all = Range { first: 0, pages };
    if pages > window
        && let Ok(found) = with_cached_pages(all, window, &cached_pages)
    {
        return (found, 0);
    }
    let asked = pages.min(MOST_WINDOWS * window);
    (all.parts(window).take(MOST_WINDOWS as usize).collect(), pages - asked)
}

/// Sets the lowest bit of each byte whose page is in memory.
fn ask(file: &File, first: u64, told: &mut [u8]) -> io::Result<()> {
    let bytes = told.len() * PAGE_BYTES as usize;
    let memory =
        MmapOptions::new().offset(first * PAGE_BYTES).len(bytes).map_raw_read_only(file)?;
    // SAFETY: the mapping is of `bytes`, and `told` has a byte for each of its pages. Nothing is
    // read from the mapping, so it does not matter whether another process truncates the file.
    match unsafe { libc::mincore(memory.as_mut_ptr().cast(), bytes, told.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    /// A file of this many pages, none of which is in memory.
    pub fn cold_file(path: &Path, pages: u64) -> File {
        std::fs::write(path, vec![7; (pages * PAGE_BYTES) as usize]).unwrap();
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        file
    }

    /// Reads pages without readahead.
    pub fn touch(file: &File, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            file.read_exact_at(&mut [0], page * PAGE_BYTES).unwrap();
        }
    }

    pub fn ranges(file: &File) -> Vec<(u64, u64)> {
        let found = resident(file, file.metadata().unwrap().len(), usize::MAX).unwrap();
        found.ranges.iter().map(|range| (range.first, range.pages)).collect()
    }

    #[test]
    fn exactly_what_was_read_is_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let file = cold_file(&dir.path().join("file"), 100);
        assert_eq!(ranges(&file), []);
        touch(&file, (3..10).chain([40, 99]));
        assert_eq!(ranges(&file), [(3, 7), (40, 1), (99, 1)]);
        let bytes = 100 * PAGE_BYTES;
        for window in [1, 7, 8, 50, 1000] {
            let found = resident_by_windows(&file, bytes, usize::MAX, window).unwrap();
            assert_eq!(found, resident(&file, bytes, usize::MAX).unwrap(), "{window}");
        }
        let found = resident(&file, bytes, 1).unwrap();
        assert_eq!((found.ranges.len(), found.left_out), (1, 2));
        assert_eq!(resident(&file, 0, 1).unwrap(), Resident::default());
    }

    #[test]
    fn only_parts_of_a_large_file_with_cached_pages_are_examined() {
        let dir = tempfile::tempdir().unwrap();
        let file = cold_file(&dir.path().join("file"), 100);
        touch(&file, (3..10).chain([40, 99]));
        let firsts = |cached: &dyn Fn(Range) -> io::Result<u64>| {
            let (windows, unasked) = windows(100, 8, cached);
            (windows.iter().map(|range| range.first).collect::<Vec<_>>(), unasked)
        };
        let every: Vec<u64> = (0..100).step_by(8).collect();
        let asked = firsts(&|range| cached_pages(&file, range));
        let counts = cached_pages(&file, Range { first: 0, pages: 100 }).is_ok();
        assert_eq!(asked, (if counts { vec![0, 8, 40, 96] } else { every.clone() }, 0));
        // Kernels before 6.5 behave like this.
        let not_there = |_: Range| Err(io::Error::from_raw_os_error(libc::ENOSYS));
        assert_eq!(firsts(&not_there), (every, 0));
        let (windows, unasked) = windows(8 * MOST_WINDOWS + 5, 8, not_there);
        assert_eq!((windows.len() as u64, unasked), (MOST_WINDOWS, 5));
    }

    #[test]
    fn a_file_of_holes_takes_no_time_by_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        cold_file(&path, 100);
        let bytes = 8 << 40;
        let file = File::options().read(true).write(true).open(&path).unwrap();
        if file.set_len(bytes).is_err()
            || cached_pages(&file, Range { first: 0, pages: 1 }).is_err()
        {
            return;
        }
        touch(&file, [7]);
        let began = std::time::Instant::now();
        let found = resident(&file, bytes, usize::MAX).unwrap();
        assert_eq!((found.ranges, found.unasked), (vec![Range { first: 7, pages: 1 }], 0));
        assert!(began.elapsed() < std::time::Duration::from_millis(500), "{:?}", began.elapsed());
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_an_error() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(resident(&file, 1, 1).is_err());
    }
}
