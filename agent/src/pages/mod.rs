// SPDX-License-Identifier: Apache-2.0
//! Pages of files that are in memory: lists those of a cgroup, and reads a list into the page
//! cache, so that a tenant that moves to another node starts with a warm page cache there.

pub mod format;
pub mod list;
mod open_files;
pub mod read;
mod residency;

pub use crate::curves::PAGE_BYTES;

/// Pages of a block, 128 KiB: the most that is read at a time, and the unit in which a bounded list
/// includes or leaves out pages.
pub const BLOCK_PAGES: u64 = 32;

/// Consecutive pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first page; a file begins with page 0.
    pub first: u64,
    /// Number of pages, at least 1.
    pub pages: u64,
}

impl Range {
    /// The page after the last.
    #[must_use]
    pub fn end(self) -> u64 {
        self.first + self.pages
    }

    /// The parts of the range that are in one block each; blocks begin at multiples of
    /// [`BLOCK_PAGES`].
    pub fn blocks(self) -> impl Iterator<Item = Self> {
        self.parts(BLOCK_PAGES)
    }

    /// The parts of the range between multiples of `pages`.
    pub fn parts(self, pages: u64) -> impl Iterator<Item = Self> {
        let mut first = self.first;
        std::iter::from_fn(move || {
            let end = self.end().min((first / pages + 1) * pages);
            let part = Self { first, pages: end.checked_sub(first).filter(|&pages| pages > 0)? };
            first = end;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_where_blocks_begin() {
        let blocks = |first, pages| -> Vec<_> {
            Range { first, pages }.blocks().map(|block| (block.first, block.pages)).collect()
        };
        assert_eq!(blocks(0, 32), [(0, 32)]);
        assert_eq!(blocks(31, 2), [(31, 1), (32, 1)]);
        assert_eq!(blocks(30, 70), [(30, 2), (32, 32), (64, 32), (96, 4)]);
    }
}
