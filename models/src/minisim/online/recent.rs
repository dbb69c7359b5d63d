// SPDX-License-Identifier: Apache-2.0
//! The sampled pages that were accessed recently, in two generations.

use crate::minisim::sample::Identity;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

type Pages = HashSet<u64, BuildHasherDefault<Identity>>;

/// Bytes of a set per page of its capacity: the hash and a control byte, with at most 7/8 of the
/// slots full.
const BYTES_PER_SLOT: u64 = 10;

/// The set of recent pages, identified by their hash. A generation ends when it has `length`
/// distinct pages. For a page that is in neither of the last two generations, at least `length`
/// other pages have been accessed after it.
#[derive(Default)]
pub(super) struct RecentPages {
    current: Pages,
    previous: Pages,
}

impl RecentPages {
    /// Records an access, and returns the pages that are forgotten because of it.
    pub(super) fn access(&mut self, page: u64, length: usize) -> Vec<u64> {
        self.current.insert(page);
        if self.current.len() < length {
            return Vec::new();
        }
        let old = std::mem::replace(&mut self.previous, std::mem::take(&mut self.current));
        old.into_iter().filter(|page| !self.previous.contains(page)).collect()
    }

    /// Forgets one page.
    pub(super) fn forget(&mut self, page: u64) {
        self.current.remove(&page);
        self.previous.remove(&page);
    }

    /// Forgets the pages from `threshold` on, and returns them.
    pub(super) fn lower(&mut self, threshold: u64) -> Vec<u64> {
        let mut dropped: Pages = Pages::default();
        for set in [&mut self.current, &mut self.previous] {
            dropped.extend(set.extract_if(|&page| page >= threshold));
            set.shrink_to_fit();
        }
        dropped.into_iter().collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.current.capacity() + self.previous.capacity()) as u64 * BYTES_PER_SLOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn forgotten_pages_were_followed_by_enough_others(
            pages in prop::collection::vec(0u64..40, 1..600),
            length in 1usize..30,
        ) {
            let mut recent = RecentPages::default();
            for (i, &page) in pages.iter().enumerate() {
                for old in recent.access(page, length) {
                    let last = pages[..=i].iter().rposition(|&p| p == old).unwrap();
                    let after: HashSet<u64> = pages[last + 1..=i].iter().copied().collect();
                    prop_assert!(after.len() >= length, "{} after {old}", after.len());
                }
                prop_assert!(recent.current.len() < length.max(2) && recent.previous.len() <= length);
            }
        }
    }

    #[test]
    fn a_lower_threshold_drops_every_page_above_it_once() {
        let mut recent = RecentPages::default();
        (0..20).for_each(|page| drop(recent.access(page % 15, 10)));
        let mut dropped = recent.lower(4);
        dropped.sort_unstable();
        assert_eq!(dropped, [4, 10, 11, 12, 13, 14]);
    }
}
