// SPDX-License-Identifier: Apache-2.0
//! Weighted histogram of LRU depths with a bounded number of bins.

/// Weight of accesses by stack depth. Depth 0 is the top of the stack, so an access at depth `d`
/// hits in a cache of more than `d` pages. Bins start one unit wide. A depth beyond `max_bins` bins
/// doubles the width of all bins. Weights are sums of f64; unit weights are exact up to 2^53
/// accesses.
#[derive(Debug, Clone)]
pub struct Histogram {
    bins: Vec<f64>,
    width_shift: u32,
    max_bins: usize,
    first_accesses: f64,
    total: f64,
}

impl Histogram {
    /// Creates a histogram of at most `max_bins` (at least 2) bins.
    #[must_use]
    pub fn new(max_bins: usize) -> Self {
        let max_bins = max_bins.max(2);
        Self { bins: Vec::new(), width_shift: 0, max_bins, first_accesses: 0.0, total: 0.0 }
    }

    /// Adds one access found at `depth`.
    #[inline]
    pub fn add(&mut self, depth: u64, weight: f64) {
        while (depth >> self.width_shift) >= self.max_bins as u64 {
            self.double_width();
        }
        let bin = (depth >> self.width_shift) as usize;
        if bin >= self.bins.len() {
            self.bins.resize((bin + 1).next_power_of_two().min(self.max_bins), 0.0);
        }
        self.bins[bin] += weight;
        self.total += weight;
    }

    /// Adds one access to a page that was not in the stack.
    #[inline]
    pub fn add_first_access(&mut self, weight: f64) {
        self.first_accesses += weight;
        self.total += weight;
    }

    /// Adds a batch of distances as returned by [`crate::stack_distance::LruStack`]: 1 for the top
    /// of the stack, 0 for a first access. All distances must be at most `deepest`.
    #[inline]
    pub fn add_distances(&mut self, distances: &[u32], deepest: usize, weight: f64) {
        if self.width_shift != 0 || deepest > self.max_bins {
            for &distance in distances {
                match distance {
                    0 => self.add_first_access(weight),
                    d => self.add(u64::from(d) - 1, weight),
                }
            }
            return;
        }
        if deepest > self.bins.len() {
            self.bins.resize(deepest.next_power_of_two().min(self.max_bins), 0.0);
        }
        let mut first_accesses = 0u32;
        for &distance in distances {
            match self.bins.get_mut((distance as usize).wrapping_sub(1)) {
                Some(bin) => *bin += weight,
                None => first_accesses += 1,
            }
        }
        self.first_accesses += f64::from(first_accesses) * weight;
        self.total += distances.len() as f64 * weight;
    }

    /// Multiplies every weight by `factor`.
    pub fn scale(&mut self, factor: f64) {
        self.bins.iter_mut().for_each(|bin| *bin *= factor);
        self.first_accesses *= factor;
        self.total *= factor;
    }

    /// Returns the weight of all accesses added.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Returns the number of bins in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Returns whether no depth has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Returns the miss ratio of an LRU cache of each of `sizes` (in units of depth), in their
    /// order.
    ///
    /// `expected_total` is what the weight of all accesses should be. The difference from
    /// [`Self::total`] is added to the first bin, which is the count correction SHARDS-adj of
    /// Waldspurger et al., FAST '15, section 3.3. Depths are assumed to be spread evenly within a
    /// bin. An `expected_total` of 0 (no access at all) gives miss ratios of 1.
    #[must_use]
    pub fn miss_ratios(&self, sizes: &[f64], expected_total: f64) -> Vec<f64> {
        if expected_total <= 0.0 {
            return vec![1.0; sizes.len()];
        }
        let mut hits = expected_total - self.total;
        let mut cumulative = Vec::with_capacity(self.bins.len() + 1);
        cumulative.push(0.0);
        for bin in &self.bins {
            hits += bin;
            cumulative.push(hits);
        }
        if self.bins.is_empty() {
            cumulative.push(hits);
        }
        let bin_width = (1u64 << self.width_shift) as f64;
        let miss_ratio = |&size: &f64| {
            let at = (size / bin_width).clamp(0.0, (cumulative.len() - 1) as f64);
            let left = (at as usize).min(cumulative.len() - 2);
            let share = at - left as f64;
            let hits = cumulative[left] * (1.0 - share) + cumulative[left + 1] * share;
            ((expected_total - hits) / expected_total).clamp(0.0, 1.0)
        };
        sizes.iter().map(miss_ratio).collect()
    }

    fn double_width(&mut self) {
        let pairs = self.bins.len().div_ceil(2);
        for i in 0..pairs {
            self.bins[i] = self.bins[2 * i] + self.bins.get(2 * i + 1).copied().unwrap_or(0.0);
        }
        self.bins.truncate(pairs);
        self.width_shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_exact_at_bin_edges(
            depths in prop::collection::vec(0u64..3000, 1..400),
            first in 0u32..5,
            max_bins in 2usize..4096,
        ) {
            let mut histogram = Histogram::new(max_bins);
            depths.iter().for_each(|&d| histogram.add(d, 1.0));
            (0..first).for_each(|_| histogram.add_first_access(1.0));
            prop_assert!(histogram.len() <= max_bins);
            let total = depths.len() as f64 + f64::from(first);
            prop_assert_eq!(histogram.total(), total);
            let width = 1u64 << histogram.width_shift;
            let sizes: Vec<f64> = (0..8).map(|i| (i * width) as f64).collect();
            for (&size, ratio) in sizes.iter().zip(histogram.miss_ratios(&sizes, total)) {
                let hits = depths.iter().filter(|&&d| (d as f64) < size).count() as f64;
                prop_assert!((ratio - (1.0 - hits / total)).abs() < 1e-12);
            }
        }

        #[test]
        fn batches_add_up_to_singles(
            distances in prop::collection::vec(0u32..500, 0..300),
            max_bins in 2usize..600,
        ) {
            let mut batch = Histogram::new(max_bins);
            batch.add_distances(&distances, 500, 0.5);
            let mut single = Histogram::new(max_bins);
            for &d in &distances {
                if d == 0 { single.add_first_access(0.5) } else { single.add(u64::from(d) - 1, 0.5) }
            }
            let sizes = [0.0, 1.0, 3.5, 100.0, 499.0, 1e9];
            let total = 0.5 * distances.len() as f64 + 0.1;
            let (a, b) = (batch.miss_ratios(&sizes, total), single.miss_ratios(&sizes, total));
            prop_assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12), "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn the_difference_to_the_expected_weight_goes_to_the_first_bin() {
        let mut histogram = Histogram::new(16);
        histogram.add(3, 6.0);
        histogram.add_first_access(2.0);
        let ratios = histogram.miss_ratios(&[0.0, 1.0, 3.0, 4.0], 10.0);
        assert_eq!(ratios, [1.0, 0.8, 0.8, 0.2]);
    }
}
