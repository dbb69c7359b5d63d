// SPDX-License-Identifier: Apache-2.0
//! The exact LRU miss ratio curve.

use crate::ageing::Ageing;
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::hash::page_hash;
use crate::histogram::Histogram;
use crate::stack_distance::{BLOCK_REQUESTS, LruStack};

/// Computes exact LRU miss ratios of a stream of page keys (Mattson et al., IBM Syst. J. 1970).
/// Each access takes O(log pages) time. The memory is about 40 to 70 bytes per distinct page,
/// whatever the length of the stream.
pub struct ExactLru {
    stack: LruStack,
    histogram: Histogram,
    ageing: Ageing,
}

impl ExactLru {
    /// Creates an empty analysis. `half_life` is the number of accesses after which the weight of
    /// an access halves; with `None`, all accesses weigh the same.
    ///
    /// # Errors
    /// [`Error::Argument`] when the half-life is 0.
    pub fn new(half_life: Option<u64>) -> Result<Self> {
        Ok(Self {
            stack: LruStack::default(),
            histogram: Histogram::new(usize::MAX),
            ageing: Ageing::new(half_life)?,
        })
    }

    /// Feeds the next accesses.
    pub fn access(&mut self, keys: &[u64]) {
        let mut hashes = [0; BLOCK_REQUESTS];
        let mut distances = [0; BLOCK_REQUESTS];
        for block in keys.chunks(BLOCK_REQUESTS.min(self.ageing.max_step())) {
            let (hashes, distances) = (&mut hashes[..block.len()], &mut distances[..block.len()]);
            for (hash, &key) in hashes.iter_mut().zip(block) {
                *hash = page_hash(key);
            }
            self.stack.access_all(hashes, distances);
            let weight = self.ageing.advance(block.len());
            self.histogram.add_distances(distances, self.stack.len(), weight);
            if let Some(factor) = self.ageing.renormalise() {
                self.histogram.scale(factor);
            }
        }
    }

    /// Returns the number of distinct pages accessed.
    #[must_use]
    pub fn footprint_pages(&self) -> u64 {
        self.stack.len() as u64
    }

    /// Returns the miss ratio at each of `sizes_pages`, in their order. `stderr` is 0.
    ///
    /// # Errors
    /// [`Error::Argument`] when there was no access or a size is outside 1..=footprint.
    pub fn curve(&self, sizes_pages: &[u64]) -> Result<Curve> {
        let footprint = self.footprint_pages();
        check_sizes(sizes_pages, footprint)?;
        let sizes: Vec<f64> = sizes_pages.iter().map(|&s| s as f64).collect();
        Ok(Curve {
            sizes_pages: sizes_pages.to_vec(),
            // Passing the histogram's own total makes the correction for sampling exactly 0.
            miss_ratio: self.histogram.miss_ratios(&sizes, self.histogram.total()),
            stderr: vec![0.0; sizes.len()],
            step_stderr: vec![0.0; sizes.len()],
            requests: self.ageing.accesses(),
            sampled: self.ageing.accesses(),
            rate: 1.0,
        })
    }
}

/// Checks that all sizes are within 1..=`footprint` pages.
///
/// # Errors
/// [`Error::Argument`] that names the size and the allowed range.
pub fn check_sizes(sizes_pages: &[u64], footprint: u64) -> Result<()> {
    if footprint == 0 {
        return Err(Error::argument("trace", "has no accesses, so it has no curve"));
    }
    match sizes_pages.iter().find(|&&size| size == 0 || size > footprint) {
        Some(size) => {
            let message = format!("{size} pages is outside 1..={footprint} (the footprint)");
            Err(Error::argument("size", message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::curve::size_grid;

    /// Simulates an LRU cache directly. Each access has a weight.
    fn lru_miss_ratio(keys: &[u64], size: usize, weights: &[f64]) -> f64 {
        let mut cache: Vec<u64> = Vec::new();
        let mut missed = 0.0;
        for (&key, weight) in keys.iter().zip(weights) {
            match cache.iter().position(|&k| k == key) {
                Some(at) => drop(cache.remove(at)),
                None => missed += weight,
            }
            cache.insert(0, key);
            cache.truncate(size);
        }
        missed / weights.iter().sum::<f64>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn equals_lru_simulation_at_every_size(
            keys in prop::collection::vec(0u64..40, 1..1500),
            batch in 1usize..600,
        ) {
            let mut exact = ExactLru::new(None).unwrap();
            keys.chunks(batch).for_each(|chunk| exact.access(chunk));
            let curve = exact.curve(&size_grid(exact.footprint_pages(), 40)).unwrap();
            let weights = vec![1.0; keys.len()];
            for (&size, ratio) in curve.sizes_pages.iter().zip(&curve.miss_ratio) {
                prop_assert!((ratio - lru_miss_ratio(&keys, size as usize, &weights)).abs() < 1e-12);
            }
            prop_assert_eq!(curve.requests, keys.len() as u64);
        }

        #[test]
        fn aged_equals_a_simulation_with_decayed_weights(
            keys in prop::collection::vec(0u64..30, 1..1500),
            half_life in 1u64..2000,
        ) {
            let mut exact = ExactLru::new(Some(half_life)).unwrap();
            exact.access(&keys);
            let curve = exact.curve(&size_grid(exact.footprint_pages(), 30)).unwrap();
            let newest = keys.len() as f64;
            let weights: Vec<f64> =
                (0..keys.len()).map(|i| ((i as f64 - newest) / half_life as f64).exp2()).collect();
            for (&size, ratio) in curve.sizes_pages.iter().zip(&curve.miss_ratio) {
                let expected = lru_miss_ratio(&keys, size as usize, &weights);
                prop_assert!((ratio - expected).abs() < 0.011, "{} {}", ratio, expected);
            }
        }

        #[test]
        fn after_a_phase_change_the_aged_curve_is_that_of_the_new_phase(
            old in prop::collection::vec(0u64..50, 2000..3000),
            new in prop::collection::vec(100u64..180, 4000..5000),
        ) {
            let mut aged = ExactLru::new(Some(400)).unwrap();
            let mut unaged = ExactLru::new(None).unwrap();
            let mut fresh = ExactLru::new(Some(400)).unwrap();
            aged.access(&old);
            unaged.access(&old);
            aged.access(&new);
            unaged.access(&new);
            fresh.access(&new);
            let sizes = size_grid(fresh.footprint_pages(), 20);
            let (aged, fresh) = (aged.curve(&sizes).unwrap(), fresh.curve(&sizes).unwrap());
            for (a, f) in aged.miss_ratio.iter().zip(&fresh.miss_ratio) {
                prop_assert!((a - f).abs() < 0.002, "{} {}", a, f);
            }
        }
    }

    #[test]
    fn sizes_outside_the_footprint_are_refused() {
        let mut exact = ExactLru::new(None).unwrap();
        let empty = exact.curve(&[1]).unwrap_err().to_string();
        assert_eq!(empty, "trace: has no accesses, so it has no curve");
        exact.access(&[5, 6, 5]);
        assert_eq!(exact.footprint_pages(), 2);
        for size in [0, 3] {
            let message = exact.curve(&[1, size]).unwrap_err().to_string();
            assert_eq!(message, format!("size: {size} pages is outside 1..=2 (the footprint)"));
        }
        assert_eq!(exact.curve(&[2, 1]).unwrap().miss_ratio, [2.0 / 3.0, 1.0]);
    }
}
