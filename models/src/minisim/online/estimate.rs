// SPDX-License-Identifier: Apache-2.0
//! What was counted as a curve with error bars.

use super::OnlineBank;
use crate::curve::Curve;
use crate::minisim::bars::{size_stderr, t_95};
use crate::minisim::beyond::{Seen, extrapolate};
use crate::minisim::cell::GROUPS;
use crate::minisim::two_phase::Residual;

impl OnlineBank {
    pub(super) fn curve(&self, residuals: &[Residual], lru: &[(f64, f64)]) -> Curve {
        let sizes = &self.config.sizes_pages;
        let rows: Vec<Residual> =
            (0..sizes.len()).map(|i| self.residual_at(i, residuals)).collect();
        let (mut miss_ratio, mut stderr): (Vec<f64>, Vec<f64>) =
            rows.iter().zip(lru).map(|(row, lru)| row.estimate(*lru)).unzip();
        let few_groups = t_95(self.small.effective_groups() - 1.0) / t_95(GROUPS as f64 - 1.0);
        let accesses = self.ageing.effective_accesses().max(1.0);
        for (i, stderr) in stderr.iter_mut().enumerate() {
            // Which accesses came is chance, too.
            let time = miss_ratio[i] * (1.0 - miss_ratio[i]) / accesses;
            let size = size_stderr(sizes, &miss_ratio, i, self.size_error(i, rows[i].slope));
            // Not yet full: what misses was never seen before, and may have been hit in the end.
            let filled = self.pages_seen >= sizes[i] as f64;
            let cold = if filled { 0.0 } else { miss_ratio[i] / 3f64.sqrt() };
            *stderr = (*stderr * few_groups).hypot(size).hypot(cold).hypot(time.max(0.0).sqrt());
        }
        let seen = Seen { pages: self.pages_seen, first_share: self.change.first_share() };
        extrapolate(sizes, seen, &mut miss_ratio, &mut stderr);
        Curve {
            sizes_pages: sizes.clone(),
            miss_ratio,
            stderr,
            requests: self.ageing.accesses(),
            sampled: self.effective_samples() as u64,
            rate: self.small_rate(),
        }
    }

    /// Accesses of the small sample that curves rest on now, by weight.
    #[must_use]
    pub fn effective_samples(&self) -> f64 {
        let measured = self.small.total() / self.ageing.total().max(f64::MIN_POSITIVE);
        self.ageing.effective_accesses() * measured.min(1.0) * self.small_rate()
    }

    /// Relative error of the size that a miniature cache stands for, standard deviation: of the C
    /// pages that a cache of C holds, a binomial number is in the sample, not C R. All groups share
    /// that cache, so their spread does not show it. `slope` of a curve follows the large sample.
    fn size_error(&self, i: usize, slope: f64) -> f64 {
        let size = self.config.sizes_pages[i] as f64;
        let of = |rate: f64| ((1.0 - rate) / (size * rate)).sqrt();
        (slope * of(self.rate())).hypot((1.0 - slope) * of(self.small_rate()))
    }

    /// The residual at a size of the grid, between those of the simulated sizes around it on a
    /// logarithmic scale. Below the smallest it is that of the smallest.
    fn residual_at(&self, i: usize, residuals: &[Residual]) -> Residual {
        let above = self.simulated.partition_point(|&s| s < i);
        if above == 0 || self.simulated[above] == i {
            return residuals[above];
        }
        let log = |i: usize| (self.config.sizes_pages[i] as f64).ln();
        let (low, high) = (self.simulated[above - 1], self.simulated[above]);
        let share = (log(i) - log(low)) / (log(high) - log(low));
        residuals[above - 1].towards(&residuals[above], share)
    }
}
