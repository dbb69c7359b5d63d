// SPDX-License-Identifier: Apache-2.0
//! Which pages of a file are in memory, as mincore(2) tells.

use super::{PAGE_BYTES, Range};
use memmap2::MmapOptions;
use std::fs::File;
use std::io;

/// So much of a file is mapped at a time, 1 GiB.
const WINDOW_PAGES: u64 = 1 << 18;

/// Pages of a file that are in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// In rising order; no two of them touch.
    pub ranges: Vec<Range>,
    /// Pages for whose ranges there was no room.
    pub left_out: u64,
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

/// Those of the first `bytes` of a file, as at most `room` ranges. Of a file that the caller neither
/// owns nor may write the kernel says that all is in memory, unless the caller is root.
///
/// # Errors
/// What the system says, as of a file that cannot be mapped.
pub fn resident(file: &File, bytes: u64, room: usize) -> io::Result<Resident> {
    resident_by_windows(file, bytes, room, WINDOW_PAGES)
}

fn resident_by_windows(file: &File, bytes: u64, room: usize, window: u64) -> io::Result<Resident> {
    let end = bytes.div_ceil(PAGE_BYTES);
    let mut found = Resident::default();
    let mut told = vec![0; window.min(end) as usize];
    let mut first = 0;
    while first < end {
        let told = &mut told[..window.min(end - first) as usize];
        ask(file, first, told)?;
        for (page, byte) in (first..).zip(told.iter()) {
            // The other bits are reserved.
            if byte & 1 == 1 {
                found.add(page, room);
            }
        }
        first += window;
    }
    Ok(found)
}

/// Sets the lowest bit of each byte whose page is in memory.
fn ask(file: &File, first: u64, told: &mut [u8]) -> io::Result<()> {
    let bytes = told.len() * PAGE_BYTES as usize;
    let memory =
        MmapOptions::new().offset(first * PAGE_BYTES).len(bytes).map_raw_read_only(file)?;
    // SAFETY: the mapping is of `bytes`, and `told` has a byte for each of its pages. Nothing is read
    // from the mapping, so that it does not matter who cuts the file off.
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

    /// A file of so many pages, of which none is in memory.
    pub fn cold_file(path: &Path, pages: u64) -> File {
        std::fs::write(path, vec![7; (pages * PAGE_BYTES) as usize]).unwrap();
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        file
    }

    /// Reads them without readahead.
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
    fn a_file_that_cannot_be_mapped_is_an_error() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(resident(&file, 1, 1).is_err());
    }
}
