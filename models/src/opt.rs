// SPDX-License-Identifier: Apache-2.0
//! OPT, the optimal replacement policy, which knows the future (Belady, IBM Syst. J. 1966).
//!
//! OPT here is demand caching, like every other policy in this crate: each miss inserts its page.
//! If the cache is full, the page whose next use is farthest in the future is evicted, but never
//! the one just inserted.

use rayon::prelude::*;

use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::exact::check_sizes;
use crate::hash::page_hash;
use crate::page_index::PageIndex;
use crate::time_set::TimeSet;
use crate::windows::{Measure, Window};

/// Next use of a page that is not used again.
const NEVER: u32 = u32::MAX;
const BLOCK_REQUESTS: usize = 256;
const PREFETCH_AHEAD: usize = 16;

/// A trace prepared for OPT: for each request, the number of the request that next uses its page.
///
/// OPT is offline, so the memory grows with the trace: 4 bytes per request and up to 51 per
/// distinct page. During [`OptTrace::curve`], each size that is simulated at the same time (one per
/// thread of rayon's pool) takes another 0.13 bytes per request. A trace can have at most 2^32 - 1
/// requests.
#[derive(Default)]
pub struct OptTrace {
    last_request: PageIndex,
    next_use: Vec<u32>,
}

impl OptTrace {
    /// Feeds the next accesses.
    ///
    /// # Errors
    /// [`Error::Argument`] when the trace has 2^32 requests or more; none of `keys` is added.
    pub fn access(&mut self, keys: &[u64]) -> Result<()> {
        if self.next_use.len() + keys.len() > NEVER as usize {
            let message = format!("has more than {NEVER} requests, the most that OPT can do");
            return Err(Error::argument("trace", message));
        }
        let mut hashes = [0; BLOCK_REQUESTS];
        for block in keys.chunks(BLOCK_REQUESTS) {
            for (hash, &key) in hashes.iter_mut().zip(block) {
                *hash = page_hash(key);
            }
            self.access_block(&hashes[..block.len()]);
        }
        Ok(())
    }

    fn access_block(&mut self, hashes: &[u64]) {
        self.last_request.reserve(hashes.len());
        let first = self.next_use.len();
        self.next_use.resize(first + hashes.len(), NEVER);
        for (i, &hash) in hashes.iter().enumerate() {
            if let Some(&ahead) = hashes.get(i + PREFETCH_AHEAD) {
                self.last_request.prefetch(ahead);
            }
            let now = first + i;
            let previous = self.last_request.replace(hash, now as u64);
            if previous != 0 {
                self.next_use[previous as usize - 1] = now as u32;
            }
        }
    }

    /// Returns the number of distinct pages accessed.
    #[must_use]
    pub fn footprint_pages(&self) -> u64 {
        self.last_request.len() as u64
    }

    /// Simulates a cache of `size_pages`, at least 1, and calls `miss` with the number of each
    /// request that misses.
    ///
    /// A resident page is identified by the time of its next use. An access therefore hits if the
    /// set of these times contains the present time, and no page needs to be looked up. Resident
    /// pages that are never used again are evicted first and are only counted.
    #[inline]
    fn for_each_miss(&self, size_pages: u64, mut miss: impl FnMut(usize)) {
        let mut next_uses = TimeSet::new(self.next_use.len());
        let (mut resident, mut never_used_again) = (0, 0u64);
        for (now, &next_use) in self.next_use.iter().enumerate() {
            if !next_uses.remove(now) {
                miss(now);
                if resident < size_pages {
                    resident += 1;
                } else if never_used_again > 0 {
                    never_used_again -= 1;
                } else {
                    next_uses.remove_max();
                }
            }
            if next_use == NEVER {
                never_used_again += 1;
            } else {
                next_uses.insert(next_use as usize);
            }
        }
    }

    fn misses(&self, size_pages: u64) -> u64 {
        let mut misses = 0;
        self.for_each_miss(size_pages, |_| misses += 1);
        misses
    }

    /// Returns what a cache of `size_pages` misses of the requests that `measure` counts: the
    /// total, and each window. The last number is the misses during the warm-up.
    ///
    /// # Errors
    /// [`Error::Argument`] when the size is outside 1..=footprint or the warm-up takes every
    /// request.
    pub fn measured(
        &self,
        size_pages: u64,
        measure: Measure,
    ) -> Result<(Window, Vec<Window>, u64)> {
        check_sizes(&[size_pages], self.footprint_pages())?;
        let requests = self.next_use.len() as u64;
        let mut windows = measure.windows_of(requests)?;
        let first = measure.warmup_requests;
        let mut all = Window { requests: requests - first, misses: 0 };
        let mut warm = 0;
        self.for_each_miss(size_pages, |now| {
            let Some(since) = (now as u64).checked_sub(first) else {
                warm += 1;
                return;
            };
            all.misses += 1;
            if let Some(length) = measure.window_requests {
                windows[(since / length) as usize].misses += 1;
            }
        });
        Ok((all, windows, warm))
    }

    /// Returns the miss ratio at each of `sizes_pages`, in their order. `stderr` is 0. Takes one
    /// pass over the trace per size, in parallel on rayon's pool.
    ///
    /// # Errors
    /// [`Error::Argument`] when there was no access or a size is outside 1..=footprint.
    pub fn curve(&self, sizes_pages: &[u64]) -> Result<Curve> {
        check_sizes(sizes_pages, self.footprint_pages())?;
        let requests = self.next_use.len() as u64;
        let miss_ratio = |&size: &u64| self.misses(size) as f64 / requests as f64;
        Ok(Curve {
            sizes_pages: sizes_pages.to_vec(),
            miss_ratio: sizes_pages.par_iter().map(miss_ratio).collect(),
            stderr: vec![0.0; sizes_pages.len()],
            step_stderr: vec![0.0; sizes_pages.len()],
            requests,
            sampled: requests,
            rate: 1.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counts misses by definition: on a full cache, it looks ahead for every resident page.
    fn naive_misses(keys: &[u64], size: usize) -> u64 {
        let mut cache: Vec<u64> = Vec::new();
        let mut misses = 0;
        for (now, &key) in keys.iter().enumerate() {
            if cache.contains(&key) {
                continue;
            }
            misses += 1;
            if cache.len() == size {
                let next_use = |page: &u64| keys[now..].iter().position(|k| k == page);
                let distance = |page: &u64| next_use(page).unwrap_or(usize::MAX);
                let victim = (0..size).max_by_key(|&i| distance(&cache[i])).unwrap();
                cache.swap_remove(victim);
            }
            cache.push(key);
        }
        misses
    }

    proptest! {
        #[test]
        fn equals_naive_belady(
            keys in prop::collection::vec(0u64..24, 1..500),
            batch in 1usize..300,
        ) {
            let mut opt = OptTrace::default();
            for chunk in keys.chunks(batch) {
                opt.access(chunk).unwrap();
            }
            for size in 1..=opt.footprint_pages() {
                prop_assert_eq!(opt.misses(size), naive_misses(&keys, size as usize));
            }
        }
    }

    #[test]
    fn a_loop_keeps_all_but_one() {
        let mut opt = OptTrace::default();
        let keys: Vec<u64> = (0..1000u64).map(|i| i % 10).collect();
        opt.access(&keys).unwrap();
        let curve = opt.curve(&[10, 1]).unwrap();
        assert_eq!(curve.miss_ratio, [0.01, 1.0]);
        assert_eq!((curve.requests, curve.rate), (1000, 1.0));
    }

    #[test]
    fn sizes_outside_the_footprint_are_refused() {
        let mut opt = OptTrace::default();
        assert!(opt.curve(&[1]).is_err());
        opt.access(&[1, 2]).unwrap();
        let message = opt.curve(&[3]).unwrap_err().to_string();
        assert_eq!(message, "size: 3 pages is outside 1..=2 (the footprint)");
    }
}
