// SPDX-License-Identifier: Apache-2.0
//! Lists the pages of a cgroup that are in memory.

use super::format::{Line, ListWriter, MOST_RANGES};
use super::open_files::{OpenFile, OpenFiles};
use super::residency::resident;
use super::{PAGE_BYTES, Range};
use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use super::open_files::NotOpened;

/// Pages that are in memory, by files in the order of their paths. Takes 16 bytes per range.
#[derive(Debug, Default)]
pub struct PageList {
    files: Vec<(PathBuf, Vec<Range>)>,
    ranges: usize,
    /// Files that were left out.
    pub not_opened: NotOpened,
    /// Pages that did not fit into the maximum number of ranges.
    pub no_room: u64,
    /// Pages at the ends of large files that were not checked.
    pub unasked: u64,
}

/// The totals of a written list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Files in the list.
    pub files: u64,
    /// Pages in the list.
    pub pages: u64,
    /// Pages left out because more were in memory than requested.
    pub beyond_most: u64,
    /// Pages that did not fit into the maximum number of ranges.
    pub no_room: u64,
}

impl PageList {
    /// Lists the pages in memory of the files that the processes of `cgroup` and of the cgroups
    /// below it have open or mapped, whichever cgroup the pages are charged to. If `below` contains
    /// directories, only files below one of them count.
    ///
    /// # Errors
    /// Returns an error if processes or their files cannot be inspected, which requires root.
    pub fn of_cgroup(cgroup: &Cgroup, below: &[PathBuf]) -> Result<Self> {
        let mut list = Self::default();
        let mut files = OpenFiles::default();
        let mut refused = 0;
        let mut add = |file: OpenFile| {
            if is_below(&file.path, below) {
                refused += u64::from(list.add(file).is_err());
            }
        };
        for pid in cgroup.processes().map_err(Error::io(&cgroup.path))? {
            files.of_process(pid, &mut add)?;
        }
        list.not_opened = files.not_opened;
        list.not_opened.refused += refused;
        list.files.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(list)
    }

    fn add(&mut self, OpenFile { path, file, bytes }: OpenFile) -> io::Result<()> {
        let found = resident(&file, bytes, MOST_RANGES as usize - self.ranges)?;
        self.no_room += found.left_out;
        self.unasked += found.unasked;
        self.ranges += found.ranges.len();
        if !found.ranges.is_empty() {
            self.files.push((path, found.ranges));
        }
        Ok(())
    }

    /// Number of pages that are in memory.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.files.iter().flat_map(|(_, ranges)| ranges).map(|range| range.pages).sum()
    }

    /// Writes at most `most` of the pages. If there are more, the same share of each part of the
    /// list is left out, in blocks of [`BLOCK_PAGES`](super::BLOCK_PAGES), since it is unknown
    /// which pages were used last.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn write(&self, most: Option<u64>, out: impl Write) -> io::Result<Written> {
        let total = self.pages();
        let mut share = Share { most: most.unwrap_or(total).min(total), total, seen: 0, kept: 0 };
        let mut lines = ListWriter::new(out);
        let mut written = Written { no_room: self.no_room, ..Written::default() };
        for (path, ranges) in &self.files {
            let before = written.pages;
            let mut write = |range: Range| {
                match lines.write(Line { range, path })? {
                    true => written.pages += range.pages,
                    false => written.no_room += range.pages,
                }
                io::Result::Ok(())
            };
            let mut last: Option<Range> = None;
            let blocks = ranges.iter().flat_map(|range| range.blocks());
            for block in blocks.filter(|block| share.keeps(block.pages)) {
                match &mut last {
                    Some(last) if last.end() == block.first => last.pages += block.pages,
                    _ => last.replace(block).map_or(Ok(()), &mut write)?,
                }
            }
            last.map_or(Ok(()), &mut write)?;
            written.files += u64::from(written.pages > before);
        }
        lines.finish()?;
        written.beyond_most = total - share.kept;
        Ok(written)
    }
}

/// Whether a file is below one of the directories, or there are no directories.
fn is_below(file: &Path, dirs: &[PathBuf]) -> bool {
    dirs.is_empty() || dirs.iter().any(|dir| file.starts_with(dir))
}

/// Selects `most` of `total` pages, as evenly as their blocks allow.
#[derive(Debug)]
struct Share {
    most: u64,
    total: u64,
    seen: u64,
    kept: u64,
}

impl Share {
    fn keeps(&mut self, pages: u64) -> bool {
        self.seen += pages;
        let due = u128::from(self.seen) * u128::from(self.most) / u128::from(self.total);
        let keeps = u128::from(self.kept + pages) <= due;
        self.kept += if keeps { pages } else { 0 };
        keeps
    }
}

/// The size of `pages` in MiB.
#[must_use]
pub fn mib(pages: u64) -> f64 {
    (pages * PAGE_BYTES) as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK_PAGES;
    use super::super::residency::tests::{cold_file, touch};
    use super::*;
    use proptest::prelude::*;

    fn list(files: &[(&str, &[(u64, u64)])]) -> PageList {
        let range = |&(first, pages): &(u64, u64)| Range { first, pages };
        let file = |&(path, ranges): &(&str, &[_])| {
            (PathBuf::from(path), ranges.iter().map(range).collect())
        };
        PageList { files: files.iter().map(file).collect(), ..PageList::default() }
    }

    fn text(list: &PageList, most: Option<u64>) -> (String, Written) {
        let mut out = Vec::new();
        let written = list.write(most, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), written)
    }

    #[test]
    fn cached_pages_are_listed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = cold_file(&path, 200);
        touch(&file, (60..140).chain([7]));
        let mut list = PageList::default();
        list.add(OpenFile { path: path.clone(), file, bytes: 200 * PAGE_BYTES }).unwrap();
        let (text, written) = text(&list, None);
        assert_eq!(text, format!("7 1 {0}\n60 80 {0}\n", path.display()));
        assert_eq!(written, Written { files: 1, pages: 81, ..Written::default() });
        assert_eq!(list.pages(), 81);
    }

    #[test]
    fn a_directory_has_what_is_below_it_and_nothing_that_begins_alike() {
        let dirs = ["/data/db", "/x/"].map(PathBuf::from);
        for (file, expected) in [("/data/db/a/b", true), ("/x/y", true), ("/data/db2/a", false)] {
            assert_eq!(is_below(Path::new(file), &dirs), expected, "{file}");
            assert!(is_below(Path::new(file), &[]));
        }
    }

    #[test]
    fn a_list_that_fits_is_complete() {
        let list = list(&[("/a", &[(0, 100), (200, 1)]), ("/b", &[(5, 3)])]);
        let (all, _) = text(&list, None);
        assert_eq!(all, "0 100 /a\n200 1 /a\n5 3 /b\n");
        for most in [104, 105, u64::MAX] {
            assert_eq!(text(&list, Some(most)).0, all);
        }
        assert_eq!(text(&PageList::default(), Some(7)), (String::new(), Written::default()));
    }

    #[test]
    fn a_bound_leaves_out_the_same_share_everywhere() {
        let list = list(&[("/a", &[(0, 8 * 32)]), ("/b", &[(0, 4 * 32)])]);
        let (half, written) = text(&list, Some(6 * 32));
        let a = "32 32 /a\n96 32 /a\n160 32 /a\n224 32 /a\n";
        assert_eq!(half, format!("{a}32 32 /b\n96 32 /b\n"));
        assert_eq!(written, Written { files: 2, pages: 6 * 32, beyond_most: 6 * 32, no_room: 0 });
        let (most, _) = text(&list, Some(9 * 32));
        assert_eq!(most, "32 96 /a\n160 96 /a\n32 96 /b\n");
        assert_eq!(
            text(&list, Some(31)),
            (String::new(), Written { beyond_most: 384, ..Written::default() })
        );
    }

    #[test]
    fn ranges_without_room_are_counted() {
        let mut full = list(&[("/a", &[(0, 1)])]);
        full.no_room = 3;
        assert_eq!(text(&full, None).1, Written { files: 1, pages: 1, beyond_most: 0, no_room: 3 });
    }

    proptest! {
        #[test]
        fn a_bound_is_kept_and_missed_by_less_than_a_block(
            gaps in prop::collection::vec((1u64..100, 1u64..200), 1..50), most in 0u64..6000
        ) {
            let mut end = 0;
            let ranges: Vec<_> = gaps.iter().map(|&(gap, pages)| {
                let first = end + gap;
                end = first + pages;
                (first, pages)
            }).collect();
            let list = list(&[("/a", &ranges)]);
            let (_, written) = text(&list, Some(most));
            let most = most.min(list.pages());
            prop_assert!(written.pages <= most && written.pages + BLOCK_PAGES > most);
            prop_assert_eq!(written.pages + written.beyond_most, list.pages());
        }
    }
}
