// SPDX-License-Identifier: Apache-2.0
//! Which pages are in the sample: all below a threshold, which a bound on their number lowers.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Pages leave in lots of this share of the bound, so that caches are resized seldom.
const LOT_SHARE: usize = 16;
/// Pages that there is room for at once; the bound may be far above what the trace has.
const FIRST_PAGES: usize = 1 << 16;

/// Sampled pages are named by their hash, which needs no hashing again.
#[derive(Default, Clone)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    /// The high bits of all members are alike (they are below the threshold), the table uses both
    /// ends of the word.
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

    /// Removes the lot of pages with the largest hashes and returns them; the smallest of them is
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
