// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves, and grids of the cache sizes at which they are computed.

use serde::{Deserialize, Serialize};

/// Miss ratio as a function of cache size. The lists have one entry per size, in the order in which
/// the sizes were requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Cache sizes, pages.
    pub sizes_pages: Vec<u64>,
    /// Share of requests that miss, 0 to 1.
    pub miss_ratio: Vec<f64>,
    /// Standard error of `miss_ratio`; 0 where it is exact. See [`Curve::error_bar`].
    pub stderr: Vec<f64>,
    /// Standard error of the difference between a miss ratio and the previous one in the list; for
    /// the first entry, that of the miss ratio itself. Most of `stderr` is common to all sizes and
    /// cancels in the difference.
    pub step_stderr: Vec<f64>,
    /// Requests seen, sampled or not.
    pub requests: u64,
    /// Requests that the curve is computed from.
    pub sampled: u64,
    /// Share of pages sampled, in (0, 1]. For fixed-size SHARDS it is the rate at the end.
    pub rate: f64,
}

/// Two-sided 95% quantile of Student's t with 15 degrees of freedom (16 sub-samples, see
/// [`crate::shards::SUB_SAMPLES`]).
const T_95: f64 = 2.131;
/// An event that never occurs in a sample of n has, at 95% confidence, a probability of at most 3 /
/// n (the rule of three: Hanley, Lippman-Hand, JAMA 1983).
const RULE_OF_THREE: f64 = 3.0;

impl Curve {
    /// Returns the half-width of the error bar at `point`: nominally at 95% of points, the true
    /// miss ratio lies within `miss_ratio` plus or minus this value. It is 0 for an exact curve.
    ///
    /// The value is t * `stderr`, with Student's t for the number of sub-samples. It is at least 3
    /// (1 - R) / sampled, because sub-samples that all lack a rare event agree with each other and
    /// are wrong.
    #[must_use]
    pub fn error_bar(&self, point: usize) -> f64 {
        (T_95 * self.stderr[point]).max(self.least_bar())
    }

    /// Returns the half-width of the error bar of the difference between `point` and the point
    /// before it, computed as in [`Self::error_bar`]. The lower bound applies too: accesses that
    /// are not in the sample may hit at one of the two sizes only. At the first point it is the
    /// error bar of the miss ratio itself.
    #[must_use]
    pub fn step_bar(&self, point: usize) -> f64 {
        (T_95 * self.step_stderr[point]).max(self.least_bar())
    }

    fn least_bar(&self) -> f64 {
        RULE_OF_THREE * (1.0 - self.rate) / self.sampled.max(1) as f64
    }
}

/// Returns `points` sizes in pages, evenly spaced from `footprint / points` to `footprint` and
/// rounded up. Duplicates are removed, so a footprint smaller than `points` gives fewer sizes.
#[must_use]
pub fn size_grid(footprint: u64, points: usize) -> Vec<u64> {
    let points = points as u64;
    let share = |i: u64| (u128::from(footprint) * u128::from(i)).div_ceil(u128::from(points));
    let mut sizes: Vec<u64> = (1..=points).map(|i| share(i) as u64).collect();
    sizes.retain(|&size| size > 0);
    sizes.dedup();
    sizes
}

/// Returns `points` sizes in pages from `smallest` to `footprint`, with a constant factor between
/// neighbours, rounded and without duplicates. The result is empty if `smallest` exceeds the
/// footprint.
#[must_use]
pub fn geometric_size_grid(smallest: u64, footprint: u64, points: usize) -> Vec<u64> {
    let smallest = smallest.max(1);
    if smallest > footprint || points == 0 {
        return Vec::new();
    }
    let ratio = footprint as f64 / smallest as f64;
    let steps = (points.max(2) - 1) as f64;
    let size = |i: usize| (smallest as f64 * ratio.powf(i as f64 / steps)).round() as u64;
    let mut sizes: Vec<u64> = (0..points - 1).map(size).collect();
    sizes.push(footprint);
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn grids_ascend_to_the_footprint(
            footprint in 1u64..1_000_000,
            smallest in 1u64..1000,
            points in 1usize..200,
        ) {
            let mut grids = vec![size_grid(footprint, points)];
            if smallest <= footprint {
                grids.push(geometric_size_grid(smallest, footprint, points));
            }
            for grid in grids {
                prop_assert!(grid.len() <= points);
                prop_assert!(grid.windows(2).all(|w| w[0] < w[1]), "{:?}", grid);
                prop_assert!(grid[0] >= 1);
                prop_assert_eq!(*grid.last().unwrap(), footprint);
            }
        }
    }

    #[test]
    fn grids_without_sizes_are_empty() {
        assert!(size_grid(0, 10).is_empty());
        assert!(size_grid(10, 0).is_empty());
        assert!(geometric_size_grid(20, 10, 5).is_empty());
        assert!(geometric_size_grid(1, 10, 0).is_empty());
    }

    #[test]
    fn even_grid_is_even() {
        assert_eq!(size_grid(100, 4), [25, 50, 75, 100]);
        assert_eq!(geometric_size_grid(1, 1000, 4), [1, 10, 100, 1000]);
    }
}
