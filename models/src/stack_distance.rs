// SPDX-License-Identifier: Apache-2.0
//! Exact LRU stack distances of a stream of page hashes.
//!
//! The algorithm is that of Bennett and Kruskal (IBM J. Res. Dev. 1975) and of Olken (LBL-12370,
//! 1981). Each access gets the next position in the stream. The distance of an access is the number
//! of pages whose last access is not before the previous access to this page. A [`RankBitmap`]
//! keeps the positions of last accesses. When positions run out, they are renumbered, so the memory
//! depends only on the number of distinct pages.

#[cfg(target_arch = "x86_64")]
use crate::cpu_features::with_cpu_features;
use crate::page_index::PageIndex;
use crate::rank_bitmap::RankBitmap;

/// Requests per block: enough to prefetch over, few enough to stay in the L1 cache.
pub const BLOCK_REQUESTS: usize = 256;

/// Number of requests by which the index slot is prefetched ahead.
const PREFETCH_AHEAD: usize = 16;
/// Positions per live page after renumbering. More positions make renumbering rarer. With 8, the
/// bitmap takes one byte per page.
const POSITIONS_PER_PAGE: u64 = 8;
const MIN_POSITIONS: u64 = 4096;

/// The LRU stack. It takes 27 to 54 bytes per page in it, whatever the length of the stream. It can
/// have at most 2^32 - 1 pages, whose index alone would take 128 GiB.
pub struct LruStack {
    index: PageIndex,
    bitmap: RankBitmap,
    old: [u64; BLOCK_REQUESTS],
}

impl Default for LruStack {
    fn default() -> Self {
        Self {
            index: PageIndex::default(),
            bitmap: RankBitmap::with_live(0, MIN_POSITIONS),
            old: [0; BLOCK_REQUESTS],
        }
    }
}

impl LruStack {
    /// Returns the number of pages in the stack.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether the stack is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns whether the page with this hash is in the stack.
    #[must_use]
    pub fn contains(&self, hash: u64) -> bool {
        self.index.contains(hash)
    }

    /// Accesses one page and returns its stack distance: its depth before the access, counted from
    /// 1, which is the size of the smallest LRU cache that would have hit. Returns 0 for a page not
    /// in the stack.
    pub fn access(&mut self, hash: u64) -> u32 {
        let mut distance = [0];
        self.access_all(&[hash], &mut distance);
        distance[0]
    }

    /// Calls [`Self::access`] for each of `hashes` in turn. `distances` is as long as `hashes`.
    pub fn access_all(&mut self, hashes: &[u64], distances: &mut [u32]) {
        let blocks = hashes.chunks(BLOCK_REQUESTS).zip(distances.chunks_mut(BLOCK_REQUESTS));
        for (hashes, distances) in blocks {
            self.make_room(hashes.len());
            #[cfg(target_arch = "x86_64")]
            if self.try_avx512(hashes, distances) || self.try_avx2(hashes, distances) {
                continue;
            }
            self.access_block(hashes, distances);
        }
    }

    /// Removes a page from the stack. The pages below it move up by one.
    pub fn remove(&mut self, hash: u64) {
        if let Some(position) = self.index.remove(hash) {
            self.bitmap.remove(position);
        }
    }

    /// Runs [`Self::access_block`] with AVX-512 instructions. Returns false if the processor lacks
    /// them.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn try_avx512(&mut self, hashes: &[u64], distances: &mut [u32]) -> bool {
        with_cpu_features!(
            ["avx512f", "avx512bw", "avx512vl", "avx512vpopcntdq", "popcnt", "bmi1", "bmi2"],
            fn(
                stack: &mut LruStack = self,
                hashes: &[u64] = hashes,
                distances: &mut [u32] = distances
            ) -> () { stack.access_block(hashes, distances) }
        )
        .is_some()
    }

    /// Runs [`Self::access_block`] with AVX2 instructions. Returns false if the processor lacks
    /// them.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn try_avx2(&mut self, hashes: &[u64], distances: &mut [u32]) -> bool {
        with_cpu_features!(
            ["avx2", "popcnt", "bmi1", "bmi2"],
            fn(
                stack: &mut LruStack = self,
                hashes: &[u64] = hashes,
                distances: &mut [u32] = distances
            ) -> () { stack.access_block(hashes, distances) }
        )
        .is_some()
    }

    /// Accesses one block. The positions that the block will get are known beforehand. Therefore
    /// the index is updated for the whole block first and the bitmap after it, each with its own
    /// prefetching.
    #[inline(always)]
    fn access_block(&mut self, hashes: &[u64], distances: &mut [u32]) {
        for &hash in hashes.iter().take(PREFETCH_AHEAD) {
            self.index.prefetch(hash);
        }
        let first = self.bitmap.next();
        for (i, &hash) in hashes.iter().enumerate() {
            if let Some(&ahead) = hashes.get(i + PREFETCH_AHEAD) {
                self.index.prefetch(ahead);
            }
            self.old[i] = self.index.replace(hash, first + i as u64);
        }
        self.bitmap.replace_all(&self.old[..hashes.len()], distances);
    }

    fn make_room(&mut self, requests: usize) {
        self.index.reserve(requests);
        if self.bitmap.room() < requests as u64 {
            self.renumber();
        }
    }

    /// Renumbers the live pages to the positions `0..len`, in the same order.
    fn renumber(&mut self) {
        let ranks = self.bitmap.block_ranks();
        let bitmap = &self.bitmap;
        self.index.renumber(|position| bitmap.rank(&ranks, position));
        let live = self.index.len() as u64;
        let capacity = (live * POSITIONS_PER_PAGE).max(MIN_POSITIONS);
        self.bitmap = RankBitmap::with_live(live, capacity);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::page_hash;

    /// Computes distances by definition: the position in an explicit list, most recent first.
    fn naive(keys: &[u64]) -> Vec<u32> {
        let mut stack: Vec<u64> = Vec::new();
        let mut distances = Vec::new();
        for &key in keys {
            let depth = stack.iter().position(|&k| k == key);
            if let Some(depth) = depth {
                stack.remove(depth);
            }
            distances.push(depth.map_or(0, |d| d as u32 + 1));
            stack.insert(0, key);
        }
        distances
    }

    fn fast(keys: &[u64], batch: usize) -> Vec<u32> {
        let hashes: Vec<u64> = keys.iter().map(|&k| page_hash(k)).collect();
        let mut distances = vec![9; keys.len()];
        let mut stack = LruStack::default();
        for (h, d) in hashes.chunks(batch).zip(distances.chunks_mut(batch)) {
            stack.access_all(h, d);
        }
        distances
    }

    fn skewed_keys() -> impl Strategy<Value = Vec<u64>> {
        (1u64..2000, 1u32..4).prop_flat_map(|(pages, skew)| {
            prop::collection::vec(
                (0.0..1.0f64).prop_map(move |u| (u.powi(skew as i32) * pages as f64) as u64),
                0..9000,
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn equals_the_definition_across_renumbering(keys in skewed_keys(), batch in 1usize..700) {
            prop_assert_eq!(fast(&keys, batch), naive(&keys));
        }

        #[test]
        fn equals_the_definition_with_removals(
            ops in prop::collection::vec((any::<bool>(), 0u64..60), 0..9000),
        ) {
            let mut stack = LruStack::default();
            let mut model: Vec<u64> = Vec::new();
            for (remove, key) in ops {
                let depth = model.iter().position(|&k| k == key);
                if let Some(depth) = depth {
                    model.remove(depth);
                }
                if remove {
                    stack.remove(page_hash(key));
                } else {
                    let distance = stack.access(page_hash(key));
                    prop_assert_eq!(distance, depth.map_or(0, |d| d as u32 + 1));
                    model.insert(0, key);
                }
                prop_assert_eq!(stack.len(), model.len());
            }
        }
    }

    #[test]
    fn one_page_repeated_is_always_at_depth_1() {
        let distances = fast(&[42; 20_000], 256);
        assert_eq!(distances[0], 0);
        assert!(distances[1..].iter().all(|&d| d == 1));
    }

    #[test]
    fn a_loop_finds_every_page_at_the_bottom() {
        let pages = 5000;
        let keys: Vec<u64> = (0..pages * 12).map(|i| i % pages).collect();
        let distances = fast(&keys, 4096);
        assert!(distances[..pages as usize].iter().all(|&d| d == 0));
        assert!(distances[pages as usize..].iter().all(|&d| u64::from(d) == pages));
    }

    /// Computes distances with one of the compiled versions. Returns `None` if the processor lacks
    /// the instructions.
    fn by(
        version: impl Fn(&mut LruStack, &[u64], &mut [u32]) -> bool,
        hashes: &[u64],
    ) -> Option<Vec<u32>> {
        let mut distances = vec![0; hashes.len()];
        let mut stack = LruStack::default();
        for (h, d) in hashes.chunks(BLOCK_REQUESTS).zip(distances.chunks_mut(BLOCK_REQUESTS)) {
            stack.make_room(h.len());
            if !version(&mut stack, h, d) {
                return None;
            }
        }
        Some(distances)
    }

    #[test]
    fn every_compiled_version_gives_the_same_distances() {
        let keys: Vec<u64> = (0..30_000u64).map(|i| page_hash(i) % (1 + i % 900)).collect();
        let hashes: Vec<u64> = keys.iter().map(|&k| page_hash(k)).collect();
        let portable = |stack: &mut LruStack, hashes: &[u64], distances: &mut [u32]| {
            stack.access_block(hashes, distances);
            true
        };
        let portable = by(portable, &hashes).unwrap();
        assert_eq!(fast(&keys, 1000), portable);
        #[cfg(target_arch = "x86_64")]
        for version in [LruStack::try_avx512, LruStack::try_avx2] {
            if let Some(distances) = by(version, &hashes) {
                assert_eq!(distances, portable);
            }
        }
    }
}
