// SPDX-License-Identifier: Apache-2.0
//! Corrects the miss ratios of every policy over a small sample with those of LRU over a large one.

use crate::count_correction::CountCorrection;
use crate::minisim::cell::{GROUPS, group_estimate};
use std::array::from_fn;

/// The ratios per group of a policy over the small sample, minus the part that follows from LRU
/// over the same sample. This is two-phase (double) sampling with a regression estimator (Cochran,
/// Sampling Techniques, 3rd ed., ch. 12.6). A page that is too hot in the small sample is too hot
/// for LRU as well, and the large sample shows how large that part of the error is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Residual {
    /// Share of LRU's deviation that the policy shares, 0 to 1.
    pub(super) slope: f64,
    /// Mean of the policy's ratio minus `slope` times LRU's.
    pub(super) mean: f64,
    /// Standard error of `mean`.
    pub(super) stderr: f64,
    /// Values per group whose mean is `mean`, before the correction for the size of the sample.
    pub(super) groups: [f64; GROUPS],
    /// Difference of `mean` between the simulated sizes on both sides; 0 at and below the smallest
    /// simulated size. At any other simulated size, it is the difference from the simulated size
    /// below.
    pub(super) jump: f64,
}

impl Residual {
    /// Computes the residual of one policy at one size. The slope is `otherwise` if LRU has the
    /// same ratio in all groups, so that the groups give no slope.
    fn new(
        policy: &[f64; GROUPS],
        lru: &[f64; GROUPS],
        correction: &CountCorrection,
        otherwise: f64,
    ) -> Self {
        let slope = slope(policy, lru).unwrap_or(otherwise);
        let mut rest = *policy;
        rest.iter_mut().zip(lru).for_each(|(p, l)| *p -= slope * l);
        let (mean, stderr) = group_estimate(&rest, correction);
        Self { slope, mean, stderr, groups: rest, jump: 0.0 }
    }

    /// Returns the residuals of one policy at rising sizes. At a size where LRU hits all or
    /// nothing, the slope is that of the size below, so that a curve that follows LRU goes on to do
    /// so between two sizes.
    pub(super) fn row(
        policy: impl Iterator<Item = [f64; GROUPS]>,
        lru: &[[f64; GROUPS]],
        correction: &CountCorrection,
    ) -> Vec<Self> {
        let mut below = 0.0;
        let at = |(policy, lru): ([f64; GROUPS], &[f64; GROUPS])| {
            let residual = Self::new(&policy, lru, correction, below);
            below = residual.slope;
            residual
        };
        policy.zip(lru).map(at).collect()
    }

    /// Returns the residual `share` of the way to `other`. The ratio may jump anywhere between the
    /// two sizes, which adds the standard deviation of a uniform distribution times the share of
    /// the nearer end.
    fn towards(&self, other: &Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        let jump = (other.mean - self.mean).abs();
        let distance = 2.0 * share.min(1.0 - share) / 12f64.sqrt();
        Self {
            slope: mix(self.slope, other.slope),
            mean: mix(self.mean, other.mean),
            stderr: mix(self.stderr, other.stderr).hypot(jump * distance),
            groups: from_fn(|group| mix(self.groups[group], other.groups[group])),
            jump,
        }
    }

    /// Returns the miss ratio of the policy and its standard error, given those of LRU over the
    /// large sample.
    pub(super) fn estimate(&self, (lru, lru_stderr): (f64, f64)) -> (f64, f64) {
        let ratio = (self.mean + self.slope * lru).clamp(0.0, 1.0);
        (ratio, self.stderr.hypot(self.slope * lru_stderr))
    }
}

/// Returns the residuals at all `sizes` from those at the `simulated` ones. They are interpolated
/// on a logarithmic scale of the size. Sizes below the smallest simulated one get its residual.
pub(super) fn at_all(sizes: &[u64], simulated: &[usize], residuals: &[Residual]) -> Vec<Residual> {
    let log = |i: usize| (sizes[i] as f64).ln();
    let at = |i: usize| {
        let above = simulated.partition_point(|&s| s < i);
        if above == 0 {
            return residuals[0];
        }
        let (low, high) = (simulated[above - 1], simulated[above]);
        let share = (log(i) - log(low)) / (log(high) - log(low));
        residuals[above - 1].towards(&residuals[above], share)
    };
    (0..sizes.len()).map(at).collect()
}

fn slope(policy: &[f64; GROUPS], lru: &[f64; GROUPS]) -> Option<f64> {
    let mean = |values: &[f64; GROUPS]| values.iter().sum::<f64>() / GROUPS as f64;
    let (policy_mean, lru_mean) = (mean(policy), mean(lru));
    let squares: f64 = lru.iter().map(|l| (l - lru_mean).powi(2)).sum();
    if squares <= f64::EPSILON {
        return None;
    }
    let pairs = policy.iter().zip(lru);
    let products: f64 = pairs.map(|(p, l)| (p - policy_mean) * (l - lru_mean)).sum();
    Some((products / squares).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even() -> CountCorrection {
        CountCorrection::new([1.0; GROUPS].into_iter(), 16.0, 16.0, 0.01)
    }

    proptest! {
        #[test]
        fn a_policy_that_is_lru_has_the_ratio_of_the_large_sample(
            lru in prop::array::uniform16(0.0..1.0f64),
            large in 0.0..1.0f64,
        ) {
            let (ratio, stderr) = Residual::new(&lru, &lru, &even(), 0.0).estimate((large, 0.01));
            prop_assert!((ratio - large).abs() < 1e-9);
            prop_assert!((stderr - 0.01).abs() < 1e-9);
        }

        #[test]
        fn sizes_without_an_lru_estimate_are_left_alone(policy in prop::array::uniform16(0.0..1.0f64)) {
            let (ratio, _) = Residual::new(&policy, &[1.0; GROUPS], &even(), 0.0).estimate((1.0, 0.0));
            prop_assert!((ratio - policy.iter().sum::<f64>() / 16.0).abs() < 1e-9);
        }
    }

    #[test]
    fn between_two_sizes_the_error_is_at_least_that_of_a_jump() {
        let at =
            |mean| Residual { slope: 0.0, mean, stderr: 0.0, groups: [mean; GROUPS], jump: 0.0 };
        assert_eq!(at(0.2).towards(&at(0.8), 0.0).stderr, 0.0);
        let middle = at(0.2).towards(&at(0.8), 0.5);
        assert!((middle.mean - 0.5).abs() < 1e-12 && middle.stderr > 0.17);
    }
}
