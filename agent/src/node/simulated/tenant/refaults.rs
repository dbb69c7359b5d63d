// SPDX-License-Identifier: Apache-2.0
//! Pages evicted not long ago: a miss on one of them is a refault. As in `mm/workingset.c` of
//! Linux, the distance is counted in evictions, and it is short if it is at most the present size
//! of the cache.

use cachepilot_models::hash::page_hash;
use cachepilot_models::page_index::PageIndex;
use std::collections::VecDeque;

/// The last evicted pages, as many as fit into the cache.
#[derive(Default)]
pub(super) struct Refaults {
    /// The number of the eviction of each page, by the page's hash.
    evicted: PageIndex,
    /// Hashes in the order of eviction; the first one has the number `first`. A page that was read
    /// again stays here until its number is dropped.
    order: VecDeque<u64>,
    first: u64,
}

impl Refaults {
    /// Records the eviction of a page from a cache of `capacity` pages.
    pub(super) fn insert(&mut self, key: u64, capacity: u64) {
        let hash = page_hash(key);
        self.evicted.reserve(1);
        self.evicted.replace(hash, self.first + self.order.len() as u64);
        self.order.push_back(hash);
        self.trim(capacity);
    }

    /// Forgets all but the last `capacity` evictions.
    pub(super) fn trim(&mut self, capacity: u64) {
        while self.order.len() as u64 > capacity {
            let Some(hash) = self.order.pop_front() else { return };
            // If the page was evicted again since, its newer number stays.
            match self.evicted.remove(hash) {
                Some(number) if number != self.first => {
                    self.evicted.reserve(1);
                    self.evicted.replace(hash, number);
                }
                _ => {}
            }
            self.first += 1;
        }
    }

    /// Whether a missed page was evicted not long ago. Forgets its eviction.
    pub(super) fn take(&mut self, key: u64) -> bool {
        self.evicted.remove(page_hash(key)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_tail_of_a_list(ops in prop::collection::vec((0u64..20, any::<bool>()), 1..300)) {
            let mut refaults = Refaults::default();
            let mut list: Vec<Option<u64>> = Vec::new();
            for (key, evict) in ops {
                let start = list.len().saturating_sub(5);
                if evict {
                    // A page is evicted twice only if it was read again in between.
                    if list[start..].contains(&Some(key)) {
                        continue;
                    }
                    refaults.insert(key, 5);
                    list.push(Some(key));
                } else {
                    let found = list[start..].iter().position(|&k| k == Some(key));
                    prop_assert_eq!(refaults.take(key), found.is_some());
                    if let Some(at) = found {
                        list[start + at] = None;
                    }
                }
                prop_assert!(refaults.order.len() <= 5 && refaults.evicted.len() <= 5);
            }
        }
    }
}
