// SPDX-License-Identifier: Apache-2.0
//! Converts the counts of an [`OnlineBank`] into curves with error bars.

mod bars;
mod beyond;
mod steps;

use super::OnlineBank;
use super::two_phase::{Residual, at_all};
use crate::curve::Curve;
use crate::error::Result;
use crate::minisim::cell::group_estimate;
use crate::shards::check_sampled;
use bars::{few_groups, size_stderr, size_step};
use beyond::{Seen, extrapolate};
use steps::Samples;

impl OnlineBank {
    /// Returns one curve per policy, in the order of the configuration. `sampled` of a curve is the
    /// number of accesses to the small sample that the curves rest on, each faded access counted by
    /// its weight.
    ///
    /// # Errors
    /// [`Error::Argument`] when no access was sampled; those of [`Self::access`].
    pub fn curves(&mut self) -> Result<Vec<Curve>> {
        self.flush()?;
        let sampled = if self.small.total() > 0.0 { self.small.sampled() } else { 0 };
        check_sampled(&self.ageing, sampled)?;
        let (rate, total) = (self.rate(), self.ageing.total());
        let correction = self.lru.correction(total * rate, rate);
        let lru = self.lru.ratios(total * rate);
        let samples = Samples { lru, large: correction, small: self.small.correction() };
        let lru = &samples.lru;
        let lru: Vec<_> = lru.iter().map(|row| group_estimate(row, &samples.large)).collect();
        let rows = self.small.residuals();
        Ok(rows.iter().map(|residuals| self.curve(residuals, &lru, &samples)).collect())
    }

    fn curve(&self, residuals: &[Residual], lru: &[(f64, f64)], samples: &Samples) -> Curve {
        let sizes = &self.config.sizes_pages;
        let rows = at_all(sizes, &self.simulated, residuals);
        let (mut miss_ratio, mut stderr): (Vec<f64>, Vec<f64>) =
            rows.iter().zip(lru).map(|(row, lru)| row.estimate(*lru)).unzip();
        let few_groups = few_groups(self.small.effective_groups());
        let accesses = self.ageing.effective_accesses().max(1.0);
        // Which accesses occurred is also a matter of chance.
        let chance = |share: f64| (share * (1.0 - share) / accesses).max(0.0).sqrt();
        let mut step_stderr = Vec::with_capacity(sizes.len());
        for (i, stderr) in stderr.iter_mut().enumerate() {
            let sigma = (self.size_variance(rows[i].slope) / sizes[i] as f64).sqrt();
            let size = size_stderr(sizes, &miss_ratio, i, sigma);
            // If fewer pages were seen than the cache has room for, its misses are first accesses,
            // and those pages may be hit later.
            let filled = self.pages_seen >= sizes[i] as f64;
            let cold = if filled { 0.0 } else { miss_ratio[i] / 3f64.sqrt() };
            *stderr = (*stderr * few_groups).hypot(size).hypot(cold).hypot(chance(miss_ratio[i]));
            step_stderr.push(if i == 0 {
                *stderr
            } else {
                let variance = self.size_variance(rows[i].slope.min(rows[i - 1].slope));
                let size = size_step(sizes, &miss_ratio, i, variance);
                let apart = (miss_ratio[i - 1] - miss_ratio[i]).abs();
                samples.step(&rows, i).hypot(size).hypot(cold).hypot(chance(apart))
            });
        }
        samples.add_up(&rows, &mut step_stderr);
        let seen = Seen { pages: self.pages_seen, first_share: self.change.first_share() };
        for i in extrapolate(sizes, seen, &mut miss_ratio, &mut stderr) {
            step_stderr[i] = step_stderr[i].max(stderr[i]);
        }
        Curve {
            sizes_pages: sizes.clone(),
            miss_ratio,
            stderr,
            step_stderr,
            requests: self.ageing.accesses(),
            sampled: self.effective_samples() as u64,
            rate: self.small_rate(),
        }
    }

    /// Returns the effective number of accesses to the small sample that curves rest on now, by
    /// weight.
    #[must_use]
    pub fn effective_samples(&self) -> f64 {
        let measured = self.small.total() / self.ageing.total().max(f64::MIN_POSITIVE);
        self.ageing.effective_accesses() * measured.min(1.0) * self.small_rate()
    }

    /// Returns the variance, per page, of the size in pages that a miniature cache stands for. Of
    /// the C pages in a cache of size C, a binomial number is in the sample, and not exactly C R.
    /// All groups share that cache, so their spread does not show this. The `slope` share of a
    /// curve follows the large sample, the rest the small one.
    fn size_variance(&self, slope: f64) -> f64 {
        let of = |rate: f64| (1.0 - rate) / rate;
        slope.powi(2) * of(self.rate()) + (1.0 - slope).powi(2) * of(self.small_rate())
    }
}
