// SPDX-License-Identifier: Apache-2.0
//! The report of a tenant: its curves, its counterfactuals, and whether they may be acted on.

use super::TenantCurves;
use crate::curves::PAGE_BYTES;
use crate::curves::measured::Measured;
use crate::curves::predict::predict;
use crate::curves::trust::Window;
use crate::error::Result;
use crate::wire;

impl TenantCurves {
    /// The present curves; `None` before anything was sampled. The call is cheap if little is new.
    /// `generation` rises when the curves change.
    pub fn curves(&mut self) -> Option<wire::Curves> {
        self.published.refresh(&mut self.bank);
        self.published.curves().cloned()
    }

    /// The counterfactuals: what every candidate would have missed so far in a page cache of
    /// `size_bytes` under the policy `in_force` (its name on the wire). The size also sets how many
    /// events the tenant may have.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn counterfactuals(
        &mut self,
        in_force: &str,
        size_bytes: u64,
    ) -> Result<Option<wire::Counterfactuals>> {
        let may_have_more = self.budget.follow_cache(size_bytes / PAGE_BYTES);
        let told = self.counterfactuals.tell(in_force, size_bytes);
        if may_have_more {
            self.counterfactuals.expect_more();
        }
        told
    }

    /// Number of changes of reuse distances so far; rises when a new regime begins.
    #[must_use]
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Generation of the last curves, 0 if there are none.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.published.generation()
    }

    /// Compares the curves with the measurements since the last call. Returns whether they may be
    /// acted on, and the reason why not.
    pub fn judge(&mut self, measured: &Measured<'_>) -> (bool, &str) {
        self.published.refresh(&mut self.bank);
        let curves = self.published.curves();
        let pages = measured.size_bytes as f64 / PAGE_BYTES as f64;
        let predicted = curves.and_then(|c| predict(c, measured.policy, measured.size_bytes));
        let seen = self.bank.pages_seen();
        let suffices = self.early.suffices(measured, seen, predicted.map(|(ratio, _)| ratio));
        self.trust.update(&Window {
            accesses: measured.accesses,
            misses: measured.misses,
            predicted,
            samples: self.published.effective(),
            turned_over: !self.new_phase && (self.bank.learnt() || seen >= pages || suffices),
            events: std::mem::take(&mut self.judged_events),
            dropped: measured.dropped,
        });
        (self.trust.trusted(), self.trust.distrust())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::CurvesConfig;
    use cachepilot_models::hash::page_hash;
    use cachepilot_models::policy::Requests;
    use std::time::Duration;

    /// A tenant after 30 s of 40,000 accesses per second, uniform over `distinct` pages, with a
    /// page cache of `pages`; and the sampling rate of its counterfactuals.
    fn run(pages: u64, distinct: u64) -> (TenantCurves, f64) {
        let config = CurvesConfig { policies: vec!["lfu".into()], ..CurvesConfig::default() };
        let mut tenant = TenantCurves::new(&config).unwrap();
        let mut rate = 0.0;
        for second in 0..30 {
            let keys: Vec<u64> =
                (0..40_000).map(|i| page_hash(second * 40_000 + i) % distinct).collect();
            tenant.feed(Requests::of_keys(&keys)).unwrap();
            assert!(tenant.most_pages() <= config.sample_pages);
            tenant.advance(Duration::from_secs(1)).unwrap();
            assert!(tenant.largest_bytes() <= config.max_bytes);
            let told = tenant.counterfactuals("default", pages * PAGE_BYTES).unwrap();
            rate = told.map_or(0.0, |told| told.rate);
        }
        (tenant, rate)
    }

    #[test]
    fn counterfactuals_of_a_small_page_cache_are_sampled_more() {
        let (large, large_rate) = run(4096, 3000);
        let (small, small_rate) = run(700, 3000);
        assert_eq!(large_rate, 1.0 / 32.0);
        assert!(small_rate > large_rate * 2.8 && small_rate <= 0.125, "{small_rate}");
        assert_eq!(small.small_rate(), large.small_rate(), "a budget of its own");
        assert!(small.budget.rate() * 40_000.0 <= 8000.0);
    }

    #[test]
    fn pages_of_the_sample_and_memory_are_bounded_as_before() {
        // The sample has room for a 64th of them.
        let (tenant, rate) = run(700, 1 << 18);
        assert!(rate <= 1.0 / 32.0 && tenant.budget.rate() <= 1.0 / 32.0, "{rate}");
    }
}
