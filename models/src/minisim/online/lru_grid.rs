// SPDX-License-Identifier: Apache-2.0
//! LRU at every size of a grid over sampled pages, from one stack of bounded depth.

use super::recent::RecentPages;
use crate::count_correction::CountCorrection;
use crate::minisim::cell::{GROUPS, effective_groups};
use crate::stack_distance::LruStack;

/// Weighted hits per size and group of pages. Pages deeper than the largest size miss at every
/// size, so they leave the stack. This loses no information, and it prevents a scan from filling
/// the memory.
pub(super) struct LruGrid {
    stack: LruStack,
    recent: RecentPages,
    /// Sizes in sampled pages, rising. They may be fractions of a page.
    sizes: Vec<f64>,
    /// Weight of the accesses whose smallest hitting size is this one.
    hits: Vec<[f64; GROUPS]>,
    seen: [f64; GROUPS],
    sampled: u64,
    first: u64,
}

impl LruGrid {
    pub(super) fn new(sizes: Vec<f64>) -> Self {
        Self {
            stack: LruStack::default(),
            recent: RecentPages::default(),
            hits: vec![[0.0; GROUPS]; sizes.len()],
            sizes,
            seen: [0.0; GROUPS],
            sampled: 0,
            first: 0,
        }
    }

    /// Feeds an access. Returns the index of the first size at which it hits, or the number of
    /// sizes if it hits at none.
    pub(super) fn access(&mut self, hash: u64, weight: f64) -> usize {
        let group = hash as usize % GROUPS;
        self.seen[group] += weight;
        self.sampled += 1;
        let class = match self.stack.access(hash) {
            0 => {
                self.first += 1;
                self.sizes.len()
            }
            distance => self.hit(f64::from(distance - 1), group, weight),
        };
        let depth = self.sizes.last().map_or(0.0, |size| size.ceil()) as usize + 1;
        for old in self.recent.access(hash, depth) {
            self.stack.remove(old);
        }
        class
    }

    /// Counts a hit. An access with `above` sampled pages above it in the stack hits in any cache
    /// of at least `above + 1` pages. In a cache that is larger than `above` by a fraction of a
    /// page, it hits with that probability.
    fn hit(&mut self, above: f64, group: usize, weight: f64) -> usize {
        let mut before = 0.0;
        let first = self.sizes.partition_point(|&size| size <= above);
        for (size, hits) in self.sizes.iter().zip(&mut self.hits).skip(first) {
            let share = (size - above).min(1.0);
            hits[group] += weight * (share - before);
            if share >= 1.0 {
                break;
            }
            before = share;
        }
        first
    }

    /// Counts an access to a page that is in memory at any size because another cgroup is charged
    /// for it.
    pub(super) fn serve(&mut self, hash: u64, weight: f64) {
        let group = hash as usize % GROUPS;
        self.seen[group] += weight;
        self.sampled += 1;
        if let Some(hits) = self.hits.first_mut() {
            hits[group] += weight;
        }
    }

    /// Removes a page that no longer exists. The gap in the stack closes at once, whereas in a
    /// cache the next inserted page fills it. The stack therefore treats the pages that the removed
    /// page had pushed out as if they were still cached. The simulated policies do not, so the
    /// difference between a policy and this LRU includes the error.
    pub(super) fn forget(&mut self, hash: u64) {
        self.stack.remove(hash);
        self.recent.forget(hash);
    }

    /// Removes the pages from `threshold` on, and returns them. `factor` is the new rate divided by
    /// the old one, and `sizes` are the sizes at the new rate.
    pub(super) fn lower(&mut self, threshold: u64, factor: f64, sizes: Vec<f64>) -> Vec<u64> {
        let dropped = self.recent.lower(threshold);
        dropped.iter().for_each(|&page| self.stack.remove(page));
        self.scale(factor);
        self.sizes = sizes;
        dropped
    }

    pub(super) fn scale(&mut self, factor: f64) {
        self.seen.iter_mut().for_each(|s| *s *= factor);
        self.hits.iter_mut().flatten().for_each(|h| *h *= factor);
    }

    pub(super) fn correction(&self, expected: f64, rate: f64) -> CountCorrection {
        CountCorrection::new(self.seen.iter().copied(), self.seen.iter().sum(), expected, rate)
    }

    /// Returns each group's miss ratio at each size, with the correction SHARDS-adj: misses are
    /// divided by the `expected` weight.
    pub(super) fn ratios(&self, expected: f64) -> Vec<[f64; GROUPS]> {
        let per_group = expected / GROUPS as f64;
        let mut misses = self.seen;
        let at_size = |hits: &[f64; GROUPS]| {
            misses.iter_mut().zip(hits).for_each(|(m, h)| *m = (*m - h).max(0.0));
            misses.map(|m| m / per_group)
        };
        self.hits.iter().map(at_size).collect()
    }

    /// See [`effective_groups`]. The number is low when a few hot pages have most of the accesses.
    pub(super) fn effective_groups(&self) -> f64 {
        effective_groups(&self.seen)
    }

    /// Returns the number of sampled accesses, and how many of them did not find their page in the
    /// stack.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sampled, self.first)
    }

    pub(super) fn pages(&self) -> usize {
        self.stack.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        // The bound stated in the documentation of `LruStack`.
        const STACK_BYTES_PER_PAGE: u64 = 54;
        const SMALLEST_STACK_BYTES: u64 = 4096;
        let counts = (self.hits.len() * size_of::<[f64; GROUPS]>()) as u64;
        let stack = self.stack.len() as u64 * STACK_BYTES_PER_PAGE + SMALLEST_STACK_BYTES;
        stack + counts + self.recent.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::ExactLru;
    use crate::hash::page_hash;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_exact_for_whole_pages_though_its_stack_is_bounded(
            keys in prop::collection::vec(0u64..60, 60..900),
        ) {
            let sizes = [1, 5, 17];
            let mut exact = ExactLru::new(None).unwrap();
            (0..60).chain(keys.iter().copied()).for_each(|key| exact.access(&[key]));
            let mut grid = LruGrid::new(sizes.map(|s| s as f64).to_vec());
            (0..60).chain(keys.iter().copied()).for_each(|key| { grid.access(page_hash(key), 1.0); });
            let total = (keys.len() + 60) as f64;
            let truth = exact.curve(&sizes).unwrap();
            for (ratios, truth) in grid.ratios(total).iter().zip(truth.miss_ratio) {
                let mean = ratios.iter().sum::<f64>() / GROUPS as f64;
                prop_assert!((mean - truth).abs() < 1e-9, "{} {}", mean, truth);
            }
            prop_assert!(grid.pages() <= 2 * 18);
        }
    }

    #[test]
    fn a_page_that_does_not_exist_any_more_makes_room() {
        let misses_at_2 = |forgets: bool| {
            let mut grid = LruGrid::new(vec![2.0]);
            for page in [1, 2, 3] {
                grid.access(page_hash(page), 1.0);
            }
            if forgets {
                grid.forget(page_hash(3));
            }
            grid.access(page_hash(1), 1.0);
            grid.ratios(4.0)[0].iter().sum::<f64>() / GROUPS as f64 * 4.0
        };
        assert_eq!((misses_at_2(false), misses_at_2(true)), (4.0, 3.0));
        let mut grid = LruGrid::new(vec![2.0]);
        grid.access(page_hash(1), 1.0);
        grid.forget(page_hash(1));
        assert_eq!(grid.access(page_hash(1), 1.0), 1, "it is new when it comes again");
    }

    #[test]
    fn pages_kept_by_others_hit_at_every_size_and_take_no_room() {
        let mut grid = LruGrid::new(vec![0.5, 1.0]);
        grid.access(page_hash(1), 1.0);
        (2..4).for_each(|page| grid.serve(page_hash(page), 1.0));
        grid.access(page_hash(1), 1.0);
        let misses: Vec<f64> =
            grid.ratios(4.0).iter().map(|r| r.iter().sum::<f64>() / GROUPS as f64).collect();
        assert_eq!((misses, grid.pages()), (vec![1.5 / 4.0, 0.25], 1));
    }

    #[test]
    fn a_fraction_of_a_page_hits_in_as_many_cases() {
        let mut grid = LruGrid::new(vec![0.25, 1.0, 1.5]);
        let page = page_hash(1);
        (0..2).for_each(|_| {
            grid.access(page, 1.0);
        });
        let miss: Vec<f64> =
            grid.ratios(2.0).iter().map(|r| r.iter().sum::<f64>() / 16.0).collect();
        assert_eq!(miss, [0.875, 0.5, 0.5]);
    }
}
