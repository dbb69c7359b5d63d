// SPDX-License-Identifier: Apache-2.0
//! The rates of the two samples of a bank, which can only be lowered, and the share of the time that
//! its caches are fed.

use super::OnlineBank;
use crate::error::{Error, Result};
use crate::hash::rate_of;

impl OnlineBank {
    /// Sets the share of its accesses that the small sample's caches are fed, in bursts.
    ///
    /// # Errors
    /// None, since the half-life it sets is never 0.
    pub fn set_duty(&mut self, share: f64) -> Result<()> {
        self.small.set_duty(share);
        self.adjust_half_life()
    }

    /// Lowers the threshold of the large sample, and that of the small one if it is above. A
    /// threshold above the present one changes nothing.
    ///
    /// # Errors
    /// [`Error::Argument`] on a threshold of 0; those of [`Self::access`].
    pub fn lower(&mut self, threshold: u64) -> Result<()> {
        check_positive("threshold", threshold)?;
        if threshold < self.threshold {
            let factor = rate_of(threshold) / self.rate();
            let sizes = scaled(&self.config.sizes_pages, rate_of(threshold));
            self.lru.lower(threshold, factor, sizes);
            self.threshold = threshold;
        }
        self.lower_small(threshold)
    }

    /// Lowers the threshold of the small sample.
    ///
    /// # Errors
    /// As [`Self::lower`].
    pub fn lower_small(&mut self, threshold: u64) -> Result<()> {
        check_positive("threshold", threshold)?;
        if threshold >= self.small.threshold() {
            return Ok(());
        }
        self.small.lower(threshold)?;
        self.adjust_half_life()
    }

    pub(super) fn adjust_half_life(&mut self) -> Result<()> {
        let samples = self.small.samples_per_half_life(self.config.min_samples);
        let samples = (samples as f64 / self.small_rate()) as u64;
        self.half_life.set_least(samples.max(self.config.half_life.0));
        self.ageing.set_half_life(Some(self.half_life.advance(0)))
    }

    /// Returns the rate of the large sample.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// Returns the rate of the small sample.
    #[must_use]
    pub fn small_rate(&self) -> f64 {
        rate_of(self.small.threshold())
    }
}

/// Returns the sizes in sampled pages.
pub(super) fn scaled(sizes_pages: &[u64], rate: f64) -> Vec<f64> {
    sizes_pages.iter().map(|&size| size as f64 * rate).collect()
}

/// Refuses a value of 0.
pub(super) fn check_positive(name: &'static str, value: u64) -> Result<()> {
    match value {
        0 => Err(Error::argument(name, "0 is outside 1..")),
        _ => Ok(()),
    }
}
