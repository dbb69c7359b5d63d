// SPDX-License-Identifier: Apache-2.0
//! Standard errors from the spread of independent sub-samples.

use crate::count_correction::CountCorrection;
use crate::histogram::Histogram;
use crate::stack_distance::LruStack;

/// Number of disjoint sub-samples that a sample is split into by the low bits of the page hash.
pub const SUB_SAMPLES: usize = 16;

struct SubSample {
    stack: LruStack,
    histogram: Histogram,
}

/// The sample, split again into [`SUB_SAMPLES`] parts that each estimate the whole curve.
pub(super) struct SubSamples {
    parts: Vec<SubSample>,
}

/// Unit in which a sub-sample records the depth of an access.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Pages of the sub-sample.
    SampledPages,
    /// Pages of the trace, sampled into this sub-sample at this rate.
    Pages(f64),
}

/// The whole sample, as [`SubSamples::estimate`] needs it.
pub(super) struct Sample<'a> {
    /// Depths of the whole sample.
    pub(super) histogram: &'a Histogram,
    /// The weight that all accesses of the sample should have.
    pub(super) expected_total: f64,
    /// Share of the pages that are in the sample.
    pub(super) rate: f64,
    /// Cache sizes in the unit of the depths of the sample.
    pub(super) sizes: Vec<f64>,
    /// The same sizes in the unit of the depths of the parts.
    pub(super) part_sizes: Vec<f64>,
}

/// Estimated curve, one value per size.
pub(super) struct Estimate {
    pub(super) miss_ratio: Vec<f64>,
    pub(super) stderr: Vec<f64>,
    pub(super) step_stderr: Vec<f64>,
}

impl SubSamples {
    /// Creates empty sub-samples whose histograms have at most `max_bins` bins each.
    pub(super) fn new(max_bins: usize) -> Self {
        let part = || SubSample { stack: LruStack::default(), histogram: Histogram::new(max_bins) };
        Self { parts: (0..SUB_SAMPLES).map(|_| part()).collect() }
    }

    /// Feeds an access to a sampled page.
    pub(super) fn access(&mut self, hash: u64, weight: f64, unit: Unit) {
        let part = &mut self.parts[hash as usize % SUB_SAMPLES];
        match (part.stack.access(hash), unit) {
            (0, _) => part.histogram.add_first_access(weight),
            (distance, Unit::SampledPages) => part.histogram.add(u64::from(distance) - 1, weight),
            (distance, Unit::Pages(rate)) => {
                part.histogram.add(page_depth(distance, rate), weight);
            }
        }
    }

    /// Removes a page from the sample.
    pub(super) fn remove(&mut self, hash: u64) {
        self.parts[hash as usize % SUB_SAMPLES].stack.remove(hash);
    }

    /// Multiplies every weight by `factor`.
    pub(super) fn scale(&mut self, factor: f64) {
        self.parts.iter_mut().for_each(|part| part.histogram.scale(factor));
    }

    /// Returns the curve of the whole sample with its standard errors, see [`CountCorrection`].
    pub(super) fn estimate(&self, sample: &Sample<'_>) -> Estimate {
        let expected = sample.expected_total / SUB_SAMPLES as f64;
        let histograms = self.parts.iter().map(|part| &part.histogram);
        let curves: Vec<Vec<f64>> = histograms
            .clone()
            .map(|histogram| histogram.miss_ratios(&sample.part_sizes, expected))
            .collect();
        let correction = CountCorrection::new(
            histograms.map(Histogram::total),
            sample.histogram.total(),
            sample.expected_total,
            sample.rate,
        );
        let mut miss_ratio = sample.histogram.miss_ratios(&sample.sizes, sample.expected_total);
        let mut stderr = Vec::with_capacity(miss_ratio.len());
        let mut step_stderr = Vec::with_capacity(miss_ratio.len());
        let mut before: Option<Vec<f64>> = None;
        for (point, ratio) in miss_ratio.iter_mut().enumerate() {
            let at_point: Vec<f64> = curves.iter().map(|curve| curve[point]).collect();
            let (delta, error) = correction.correct(&at_point);
            *ratio = (*ratio + delta).clamp(0.0, 1.0);
            stderr.push(error);
            step_stderr.push(match &before {
                Some(before) => correction.step_stderr(before, &at_point),
                None => error,
            });
            before = Some(at_point);
        }
        make_non_increasing(&sample.sizes, &mut miss_ratio);
        Estimate { miss_ratio, stderr, step_stderr }
    }
}

/// Lowers each value to the least value at a smaller size. An LRU curve never rises with the size,
/// but the correction of a sample may make it rise.
fn make_non_increasing(sizes: &[f64], values: &mut [f64]) {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| sizes[a].total_cmp(&sizes[b]));
    let mut least = f64::INFINITY;
    for i in order {
        least = least.min(values[i]);
        values[i] = least;
    }
}

/// Returns the depth, in pages of the trace, of an access at `distance` (from 1) among pages
/// sampled at `rate`. It is the middle of the `1 / rate` depths that the distance stands for.
#[inline]
pub(super) fn page_depth(distance: u32, rate: f64) -> u64 {
    ((f64::from(distance) - 0.5) / rate) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_made_non_increasing_in_the_order_of_sizes() {
        let mut values = [0.2, 0.9, 0.5, 0.3];
        make_non_increasing(&[40.0, 10.0, 20.0, 30.0], &mut values);
        assert_eq!(values, [0.2, 0.9, 0.5, 0.3]);
        let mut values = [0.4, 0.3, 0.5, 0.3];
        make_non_increasing(&[40.0, 10.0, 20.0, 30.0], &mut values);
        assert_eq!(values, [0.3; 4]);
    }

    #[test]
    fn a_depth_is_the_middle_of_what_it_stands_for() {
        assert_eq!(page_depth(1, 1.0), 0);
        assert_eq!(page_depth(7, 1.0), 6);
        assert_eq!(page_depth(1, 0.1), 5);
        assert_eq!(page_depth(3, 0.1), 25);
    }
}
