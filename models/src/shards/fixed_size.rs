// SPDX-License-Identifier: Apache-2.0
//! SHARDS with a bound on the number of sampled pages.

use std::collections::BinaryHeap;

use super::error_bars::{SUB_SAMPLES, Sample, SubSamples, Unit, page_depth};
use super::filter::{BLOCK_KEYS, select};
use super::{Options, check_sampled};
use crate::ageing::Ageing;
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::hash::rate_of;
use crate::histogram::Histogram;
use crate::stack_distance::LruStack;

/// Histogram bins per page of the sample. This resolution is finer than that of the sample.
const BINS_PER_SAMPLE: usize = 2;
const MIN_BINS: usize = 1024;

/// SHARDS with at most `s_max` sampled pages. It starts with all pages. When the sample is full, it
/// lowers the threshold to the largest hash in the sample and drops that page. The memory is at
/// most about 120 bytes per page of `s_max` (1 MiB at 8192), and 200 KiB for a small sample,
/// whatever the trace.
///
/// With a half-life, old accesses fade from the curve, but their pages stay in the sample and the
/// threshold never rises again.
///
/// The paper multiplies all counts by T_new / T_old each time the threshold falls, so at the end a
/// count taken at rate R weighs R_end / R. Here a count weighs 1 / R from the start. This is the
/// same up to a common factor and needs no pass over the histogram.
pub struct FixedSizeShards {
    s_max: usize,
    threshold: u64,
    seed: u64,
    stack: LruStack,
    /// The hash of every page in the stack, largest first.
    largest: BinaryHeap<u64>,
    histogram: Histogram,
    sub_samples: SubSamples,
    ageing: Ageing,
    sampled: u64,
    selected: Box<[u64; BLOCK_KEYS]>,
}

impl FixedSizeShards {
    /// Creates an empty analysis that samples at most `s_max` pages.
    ///
    /// # Errors
    /// [`Error::Argument`] when `s_max` or the half-life is 0.
    pub fn new(s_max: usize, options: Options) -> Result<Self> {
        if s_max == 0 {
            return Err(Error::argument("s_max", "0 pages is outside 1.."));
        }
        let bins = s_max.saturating_mul(BINS_PER_SAMPLE);
        Ok(Self {
            s_max,
            threshold: u64::MAX,
            seed: options.seed,
            stack: LruStack::default(),
            largest: BinaryHeap::new(),
            histogram: Histogram::new(bins.max(MIN_BINS)),
            sub_samples: SubSamples::new((bins / SUB_SAMPLES).max(MIN_BINS)),
            ageing: Ageing::new(options.half_life)?,
            sampled: 0,
            selected: Box::new([0; BLOCK_KEYS]),
        })
    }

    /// Feeds the next accesses.
    pub fn access(&mut self, keys: &[u64]) {
        for block in keys.chunks(BLOCK_KEYS.min(self.ageing.max_step())) {
            let weight = self.ageing.advance(block.len());
            let count = select(block, self.seed, self.threshold, &mut self.selected);
            for i in 0..count {
                let hash = self.selected[i];
                // The threshold may have fallen since the block was filtered.
                if hash < self.threshold {
                    self.access_sampled(hash, weight);
                }
            }
            if let Some(factor) = self.ageing.renormalise() {
                self.histogram.scale(factor);
                self.sub_samples.scale(factor);
            }
        }
    }

    fn access_sampled(&mut self, hash: u64, age_weight: f64) {
        if self.stack.len() == self.s_max && !self.stack.contains(hash) {
            self.lower_threshold(hash);
            if hash >= self.threshold {
                return;
            }
        }
        let rate = self.rate();
        let weight = age_weight / rate;
        match self.stack.access(hash) {
            0 => {
                self.largest.push(hash);
                self.histogram.add_first_access(weight);
            }
            distance => self.histogram.add(page_depth(distance, rate), weight),
        }
        let part_rate = rate / SUB_SAMPLES as f64;
        self.sub_samples.access(hash, weight, Unit::Pages(part_rate));
        self.sampled += 1;
    }

    /// Makes room for a new page: the page with the largest hash among the sample and `incoming` is
    /// dropped, and the threshold becomes that hash.
    fn lower_threshold(&mut self, incoming: u64) {
        match self.largest.peek() {
            Some(&largest) if largest > incoming => {
                self.largest.pop();
                self.stack.remove(largest);
                self.sub_samples.remove(largest);
                self.threshold = largest;
            }
            _ => self.threshold = incoming,
        }
    }

    /// Returns the share of pages that is sampled now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// Returns the number of pages in the sample, at most `s_max`.
    #[must_use]
    pub fn sampled_pages(&self) -> u64 {
        self.stack.len() as u64
    }

    /// Estimates the number of distinct pages accessed.
    #[must_use]
    pub fn footprint_pages(&self) -> u64 {
        (self.stack.len() as f64 / self.rate()).round() as u64
    }

    /// Returns the miss ratio at each of `sizes_pages`, in their order. Sizes beyond the footprint
    /// get the ratio at the footprint, which the sample gives only approximately.
    ///
    /// # Errors
    /// [`Error::Argument`] when no access was sampled.
    pub fn curve(&self, sizes_pages: &[u64]) -> Result<Curve> {
        check_sampled(&self.ageing, self.sampled)?;
        let sizes: Vec<f64> = sizes_pages.iter().map(|&s| s as f64).collect();
        let estimate = self.sub_samples.estimate(&Sample {
            histogram: &self.histogram,
            expected_total: self.ageing.total(),
            rate: self.rate(),
            part_sizes: sizes.clone(),
            sizes,
        });
        Ok(Curve {
            sizes_pages: sizes_pages.to_vec(),
            miss_ratio: estimate.miss_ratio,
            stderr: estimate.stderr,
            step_stderr: estimate.step_stderr,
            requests: self.ageing.accesses(),
            sampled: self.sampled,
            rate: self.rate(),
        })
    }
}
