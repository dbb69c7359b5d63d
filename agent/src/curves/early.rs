// SPDX-License-Identifier: Apache-2.0
//! Trust in the curves of a tenant that has few accesses, before it has accessed as many pages as
//! its cache can contain.

use super::measured::Measured;
use super::settings::PAGE_BYTES;
use std::time::Duration;

/// The time to wait for the working set. A tenant with many accesses has shown it by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pages that must have been seen by then, as a share of those that fit into the cache. Sizes up to
/// the number of seen pages are known; larger ones are extrapolated, and no further than this share
/// allows.
const SEEN_SHARE: f64 = 0.25;
/// Error in miss ratio that an extrapolation may have, besides chance.
const TOLERANCE: f64 = 0.1;
/// Half-width of a 95% interval in standard errors.
const Z_95: f64 = 1.96;

/// The counts since the wait for the working set began.
#[derive(Debug, Clone, Default)]
pub(super) struct Early {
    waited: Duration,
    accesses: u64,
    misses: u64,
}

impl Early {
    /// Advances the wait by `elapsed`.
    pub(super) fn pass(&mut self, elapsed: Duration) {
        self.waited = self.waited.saturating_add(elapsed);
    }

    /// Adds a window. Returns whether curves that are known up to `seen_pages` suffice: their
    /// extrapolation for the policy in force at the present size, `predicted`, must agree with the
    /// measured miss ratio.
    pub(super) fn suffices(
        &mut self,
        measured: &Measured<'_>,
        seen_pages: f64,
        predicted: Option<f64>,
    ) -> bool {
        self.accesses += measured.accesses;
        self.misses += measured.misses;
        let cached = measured.size_bytes as f64 / PAGE_BYTES as f64;
        let (Some(predicted), true) = (predicted, self.accesses > 0) else { return false };
        let accesses = self.accesses as f64;
        let ratio = self.misses as f64 / accesses;
        let chance = Z_95 * (ratio * (1.0 - ratio) / accesses).max(0.0).sqrt();
        self.waited >= PATIENCE
            && seen_pages >= SEEN_SHARE * cached
            && (predicted - ratio).abs() <= TOLERANCE + chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64, misses: u64, seen_pages: f64, predicted: Option<f64>) -> bool {
        let mut early = Early::default();
        let size_bytes = 4000 * PAGE_BYTES;
        let window = Measured { size_bytes, accesses: 150, misses, ..Measured::default() };
        (0..seconds).fold(false, |_, _| {
            early.pass(Duration::from_secs(1));
            early.suffices(&window, seen_pages, predicted)
        })
    }

    #[test]
    fn a_part_of_the_pages_suffices_when_the_rest_is_as_measured() {
        assert!(after(10, 60, 1000.0, Some(0.45)));
        assert!(!after(9, 60, 1000.0, Some(0.42)), "too early");
        assert!(!after(10, 60, 999.0, Some(0.42)), "too few pages");
        assert!(!after(10, 60, 1000.0, None), "not on the curves");
        // A loop that fits into the cache hits, but its extrapolation predicts misses.
        assert!(!after(10, 0, 1500.0, Some(1.0)));
    }
}
