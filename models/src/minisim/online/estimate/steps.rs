// SPDX-License-Identifier: Apache-2.0
//! Standard error of the difference between two sizes of a curve. It is far smaller than that of
//! each size: a page that is too hot in the sample is too hot at all sizes, and cancels in the
//! difference.

use super::bars::few_groups;
use crate::count_correction::CountCorrection;
use crate::minisim::cell::{GROUPS, effective_groups, group_step};
use crate::minisim::online::two_phase::Residual;
use std::array::from_fn;

/// The samples that curves are made of, see [`crate::minisim::OnlineBank`].
pub(super) struct Samples {
    /// Miss ratios of LRU per group of the large sample, at each size.
    pub(super) lru: Vec<[f64; GROUPS]>,
    pub(super) large: CountCorrection,
    pub(super) small: CountCorrection,
}

type Pair = [[f64; GROUPS]; 2];

impl Samples {
    /// Returns the standard error of the difference between size `i` of a curve and the size below.
    ///
    /// It combines the spread of the groups' differences for the part that follows LRU, from the
    /// large sample, and for the rest, from the small sample. If the rest jumps between two
    /// simulated sizes, the jump may lie in this step or in another; this adds the standard
    /// deviation of a Bernoulli variable.
    pub(super) fn step(&self, rows: &[Residual], i: usize) -> f64 {
        let [follows, rest] = self.pairs(rows, i - 1, i);
        let large = group_step(&follows[0], &follows[1], &self.large) * too_few(&follows);
        let small = group_step(&rest[0], &rest[1], &self.small) * too_few(&rest);
        let own = (rows[i - 1].mean - rows[i].mean).abs();
        let jump = (own * (rows[i].jump - own)).max(0.0).sqrt();
        large.hypot(small).hypot(jump)
    }

    /// Raises the standard errors of steps so that the sum of their squares over any span is at
    /// least the variance of the difference across that span. Neighbouring steps may err together,
    /// in a group that has too many accesses that hit from either size on.
    pub(super) fn add_up(&self, rows: &[Residual], steps: &mut [f64]) {
        for span in 2..steps.len() {
            for high in span..steps.len() {
                let low = high - span;
                let least = self.variance(rows, low, high);
                let squares: f64 = steps[low + 1..=high].iter().map(|step| step * step).sum();
                if squares < least && squares > 0.0 {
                    let factor = (least / squares).sqrt();
                    steps[low + 1..=high].iter_mut().for_each(|step| *step *= factor);
                }
            }
        }
    }

    fn variance(&self, rows: &[Residual], low: usize, high: usize) -> f64 {
        let [follows, rest] = self.pairs(rows, low, high);
        let large = self.large.step_stderr(&follows[0], &follows[1]) * too_few(&follows);
        let small = self.small.step_stderr(&rest[0], &rest[1]) * too_few(&rest);
        large.powi(2) + small.powi(2)
    }

    /// Returns the ratios per group at two sizes, for the part that follows LRU and for the rest.
    fn pairs(&self, rows: &[Residual], low: usize, high: usize) -> [Pair; 2] {
        let follows = |i: usize| self.lru[i].map(|lru| lru * rows[i].slope);
        [[follows(low), follows(high)], [rows[low].groups, rows[high].groups]]
    }
}

/// See [`few_groups`].
fn too_few([before, here]: &Pair) -> f64 {
    few_groups(effective_groups(&from_fn(|group| before[group] - here[group])))
}
