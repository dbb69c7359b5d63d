// SPDX-License-Identifier: Apache-2.0
//! Curves of a tenant with few accesses, before it showed as many pages as its cache holds.

use super::measured::Measured;
use super::settings::PAGE_BYTES;
use std::time::Duration;

/// So long the working set is waited for: who has many accesses has shown it by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pages that must have been seen by then, as a share of those that the cache holds. Sizes up to
/// them are known; what is larger is extrapolated, and no further than this.
const SEEN_SHARE: f64 = 0.25;
/// Miss ratio by which what is extrapolated may be off what is measured, besides chance.
const TOLERANCE: f64 = 0.1;
/// Half-width of a 95% interval in standard errors.
const Z_95: f64 = 1.96;

/// What was measured while the working set was waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct Early {
    waited: Duration,
    accesses: u64,
    misses: u64,
}

impl Early {
    /// Time passes.
    pub(super) fn pass(&mut self, elapsed: Duration) {
        self.waited = self.waited.saturating_add(elapsed);
    }

    /// Takes a window in. Whether curves that are known up to `seen_pages` suffice: what they say of
    /// the present policy and size, which they extrapolate, must be what was measured.
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
        // A loop that is cached hits, and what is extrapolated of it says that it does not.
        assert!(!after(10, 0, 1500.0, Some(1.0)));
    }
}
