// SPDX-License-Identifier: Apache-2.0
//! The set of sampled pages: all pages below a threshold, which is lowered to bound their number.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Pages leave in lots of this share of the bound, so that caches are rarely resized.
const LOT_SHARE: usize = 16;
/// Initial capacity in pages. The bound may be far above the number of pages in the trace.
const FIRST_PAGES: usize = 1 << 16;

/// A hasher that passes the value through. Sampled pages are identified by their hash, which need
/// not be hashed again.
#[derive(Default, Clone)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    /// The high bits of all members are alike, since all are below the threshold. The hash table
    /// uses both ends of the word, so the value is rotated.
    fn write_u64(&mut self, value: u64) {
        self.0 = value.rotate_left(20);
    }
}

/// The pages of a sample of bounded size.
pub(super) struct PageSet {
    pages: HashSet<u64, BuildHasherDefault<Identity>>,
    s_max: usize,
}

impl PageSet {
    pub(super) fn new(s_max: usize) -> Self {
        let room = s_max.min(FIRST_PAGES) + 1;
        let pages = HashSet::with_capacity_and_hasher(room, BuildHasherDefault::default());
        Self { pages, s_max }
    }

    pub(super) fn insert(&mut self, page: u64) {
        self.pages.insert(page);
    }

    pub(super) fn is_over(&self) -> bool {
        self.pages.len() > self.s_max
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Removes the lot of pages with the largest hashes, and returns them. The smallest of them is
    /// the new threshold.
    pub(super) fn lower(&mut self) -> Vec<u64> {
        let lot = (self.s_max / LOT_SHARE).max(1) + self.pages.len().saturating_sub(self.s_max);
        let mut all: Vec<u64> = self.pages.iter().copied().collect();
        let keep = all.len().saturating_sub(lot);
        all.select_nth_unstable(keep);
        let dropped = all.split_off(keep);
        dropped.iter().for_each(|page| {
            self.pages.remove(page);
        });
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::page_hash;

    #[test]
    fn the_largest_hashes_leave() {
        let mut set = PageSet::new(64);
        (0..65).for_each(|page| set.insert(page_hash(page)));
        assert!(set.is_over());
        let dropped = set.lower();
        assert_eq!((dropped.len(), set.len()), (5, 60));
        let least = dropped.iter().min().unwrap();
        assert!(set.pages.iter().all(|page| page < least));
    }
}
