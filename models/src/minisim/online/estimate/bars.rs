// SPDX-License-Identifier: Apache-2.0
//! Corrections that widen error bars: few effective groups, and a sample whose size stands for a
//! cache size only approximately.

use crate::minisim::cell::GROUPS;
use std::f64::consts::TAU;

/// Half-width of a 95% interval, in standard errors.
pub(super) const Z_95: f64 = 1.96;

/// Two-sided 95% quantile of Student's t, accurate to 3% from 2 degrees of freedom on.
fn t_95(freedom: f64) -> f64 {
    let inverse = freedom.max(2.0).recip();
    1.96 + 2.4 * inverse + 4.4 * inverse * inverse
}

/// Returns the factor by which a standard error grows when its groups are worth only `effective`
/// equal groups instead of [`GROUPS`].
pub(super) fn few_groups(effective: f64) -> f64 {
    t_95(effective - 1.0) / t_95(GROUPS as f64 - 1.0)
}

/// Returns the standard error of `miss_ratio[i]` when the logarithm of the cache size that it
/// stands for has the standard error `sigma`.
///
/// It is the largest difference of the curve from `miss_ratio[i]` over the 95% interval of the
/// size, divided by [`Z_95`]. For a smooth curve this is its slope times `sigma`. A cliff counts
/// from as far away as it may lie: between two sizes the curve may be a single jump, so an interval
/// that reaches half way (on a logarithmic scale) to the next size counts the full ratio of that
/// size.
pub(super) fn size_stderr(sizes: &[u64], miss_ratio: &[f64], i: usize, sigma: f64) -> f64 {
    let log: Vec<f64> = sizes.iter().map(|&size| (size as f64).ln()).collect();
    let (low, high) = (log[i] - Z_95 * sigma, log[i] + Z_95 * sigma);
    let half_way = |j: usize| (log[j] + log[if j < i { j + 1 } else { j - 1 }]) / 2.0;
    let reached = |&j: &usize| j != i && (low..=high).contains(&half_way(j));
    let inside = (0..log.len()).filter(reached).map(|j| miss_ratio[j]);
    let ends = [low, high].map(|at| interpolate(&log, miss_ratio, at));
    let off = inside.chain(ends).map(|miss| (miss - miss_ratio[i]).abs());
    off.fold(0.0, f64::max) / Z_95
}

/// Number of directions in which both sizes of a step are moved.
const DIRECTIONS: u32 = 16;

/// Returns the standard error of the difference between `miss_ratio[i - 1]` and `miss_ratio[i]`,
/// where `variance` is the variance, per page, of the sizes in pages that they stand for.
///
/// The pages of the smaller cache are in the larger one too. Chance in those pages moves both
/// sizes; chance in the other pages moves only the larger size. The result is the largest change of
/// the difference on the 95% ellipse of both sizes, divided by [`Z_95`]; cliffs count as in
/// [`size_stderr`]. For a curve of straight pieces with slopes p and q at sizes a and b in pages,
/// the variance is ((q - p)^2 a + q^2 (b - a)) times `variance`.
pub(super) fn size_step(sizes: &[u64], miss_ratio: &[f64], i: usize, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 0.0;
    }
    let log: Vec<f64> = sizes.iter().map(|&size| (size as f64).ln()).collect();
    let (low, high) = (sizes[i - 1] as f64, sizes[i] as f64);
    let (common, own) = ((low * variance).sqrt(), ((high - low) * variance).sqrt());
    let step = miss_ratio[i - 1] - miss_ratio[i];
    let off = |direction: u32| {
        let (sin, cos) = (f64::from(direction) / f64::from(DIRECTIONS) * TAU).sin_cos();
        let moved = Z_95 * common * cos;
        let at = |size: f64| size.max(1.0).ln();
        let (low, high) = (at(low + moved), at(high + moved + Z_95 * own * sin));
        let linear = interpolate(&log, miss_ratio, low) - interpolate(&log, miss_ratio, high);
        let cliff = nearest(&log, miss_ratio, low) - nearest(&log, miss_ratio, high);
        (linear - step).abs().max((cliff - step).abs())
    };
    (0..DIRECTIONS).map(off).fold(0.0, f64::max) / Z_95
}

fn nearest(x: &[f64], y: &[f64], at: f64) -> f64 {
    let above = x.partition_point(|&x| x < at).clamp(1, x.len() - 1);
    y[if at - x[above - 1] < x[above] - at { above - 1 } else { above }]
}

/// Interpolates linearly between the points, and extrapolates with the slope of the two outermost
/// points. The result is clamped to 0..=1.
fn interpolate(x: &[f64], y: &[f64], at: f64) -> f64 {
    if x.len() < 2 {
        return y[0];
    }
    let above = x.partition_point(|&x| x < at).clamp(1, x.len() - 1);
    let share = (at - x[above - 1]) / (x[above] - x[above - 1]);
    (y[above - 1] + (y[above] - y[above - 1]) * share).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, table) in [(2.0, 4.303), (3.0, 3.182), (7.0, 2.365), (15.0, 2.131)] {
            assert!((t_95(freedom) / table - 1.0).abs() < 0.03, "{freedom}: {}", t_95(freedom));
        }
    }

    #[test]
    fn a_smooth_curve_counts_by_its_slope_and_a_cliff_from_afar() {
        let sizes = [1, 2, 4, 8, 16];
        let straight = [0.8, 0.6, 0.4, 0.2, 0.0];
        let slope = 0.2 / 2f64.ln();
        for sigma in [0.01, 0.1, 0.5] {
            let off = size_stderr(&sizes, &straight, 2, sigma);
            assert!((off - slope * sigma).abs() < 1e-9, "{off}");
        }
        let cliff = [1.0, 1.0, 1.0, 0.0, 0.0];
        assert_eq!(size_stderr(&sizes, &cliff, 0, 0.3), 0.0);
        assert!(size_stderr(&sizes, &cliff, 1, 0.4) * 1.96 > 0.1);
        assert!((size_stderr(&sizes, &cliff, 2, 0.2) * 1.96 - 1.0).abs() < 1e-9);
        assert!((size_stderr(&sizes, &cliff, 2, 0.4) * 1.96 - 1.0).abs() < 1e-9);
        assert_eq!(size_stderr(&[7], &[0.3], 0, 0.4), 0.0);
    }
}
