// SPDX-License-Identifier: Apache-2.0
//! SHARDS at a fixed rate.

use super::error_bars::{SUB_SAMPLES, Sample, SubSamples, Unit};
use super::filter::{BLOCK_KEYS, select};
use super::{Options, check_sampled};
use crate::ageing::Ageing;
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::hash::threshold;
use crate::histogram::Histogram;
use crate::stack_distance::LruStack;

/// SHARDS with a fixed share of pages sampled. It takes 70 to 140 bytes per sampled page.
pub struct FixedRateShards {
    rate: f64,
    threshold: u64,
    seed: u64,
    stack: LruStack,
    histogram: Histogram,
    sub_samples: SubSamples,
    ageing: Ageing,
    sampled: u64,
    selected: Box<[u64; BLOCK_KEYS]>,
    distances: Box<[u32; BLOCK_KEYS]>,
}

impl FixedRateShards {
    /// Creates an empty analysis that samples pages at `rate`. A rate of 1 gives the exact curve.
    ///
    /// # Errors
    /// [`Error::Argument`] when the rate is outside (0, 1] or the half-life is 0.
    pub fn new(rate: f64, options: Options) -> Result<Self> {
        let threshold = checked_threshold(rate)?;
        Ok(Self {
            rate,
            threshold,
            seed: options.seed,
            stack: LruStack::default(),
            histogram: Histogram::new(usize::MAX),
            sub_samples: SubSamples::new(usize::MAX),
            ageing: Ageing::new(options.half_life)?,
            sampled: 0,
            selected: Box::new([0; BLOCK_KEYS]),
            distances: Box::new([0; BLOCK_KEYS]),
        })
    }

    /// Feeds the next accesses.
    pub fn access(&mut self, keys: &[u64]) {
        for block in keys.chunks(BLOCK_KEYS.min(self.ageing.max_step())) {
            let weight = self.ageing.advance(block.len());
            let count = select(block, self.seed, self.threshold, &mut self.selected);
            if count > 0 {
                self.access_selected(count, weight);
            }
            if let Some(factor) = self.ageing.renormalise() {
                self.histogram.scale(factor);
                self.sub_samples.scale(factor);
            }
        }
    }

    fn access_selected(&mut self, count: usize, weight: f64) {
        let (hashes, distances) = (&self.selected[..count], &mut self.distances[..count]);
        self.stack.access_all(hashes, distances);
        self.histogram.add_distances(distances, self.stack.len(), weight);
        for &hash in hashes {
            self.sub_samples.access(hash, weight, Unit::SampledPages);
        }
        self.sampled += count as u64;
    }

    /// Returns the number of pages sampled so far.
    #[must_use]
    pub fn sampled_pages(&self) -> u64 {
        self.stack.len() as u64
    }

    /// Estimates the number of distinct pages accessed.
    #[must_use]
    pub fn footprint_pages(&self) -> u64 {
        (self.stack.len() as f64 / self.rate).round() as u64
    }

    /// Returns the miss ratio at each of `sizes_pages` (real pages, not sampled ones), in their
    /// order. Sizes beyond the footprint get the ratio at the footprint, which the sample gives
    /// only approximately.
    ///
    /// # Errors
    /// [`Error::Argument`] when no access was sampled.
    pub fn curve(&self, sizes_pages: &[u64]) -> Result<Curve> {
        check_sampled(&self.ageing, self.sampled)?;
        let sizes: Vec<f64> = sizes_pages.iter().map(|&s| s as f64 * self.rate).collect();
        let estimate = self.sub_samples.estimate(&Sample {
            histogram: &self.histogram,
            expected_total: self.ageing.total() * self.rate,
            rate: self.rate,
            part_sizes: sizes.iter().map(|size| size / SUB_SAMPLES as f64).collect(),
            sizes,
        });
        Ok(Curve {
            sizes_pages: sizes_pages.to_vec(),
            miss_ratio: estimate.miss_ratio,
            stderr: estimate.stderr,
            step_stderr: estimate.step_stderr,
            requests: self.ageing.accesses(),
            sampled: self.sampled,
            rate: self.rate,
        })
    }
}

/// Returns the hash threshold for `rate`.
///
/// # Errors
/// [`Error::Argument`] when the rate is outside (0, 1].
fn checked_threshold(rate: f64) -> Result<u64> {
    if rate > 0.0 && rate <= 1.0 {
        return Ok(threshold(rate));
    }
    Err(Error::argument("rate", format!("{rate} is outside (0, 1]")))
}
