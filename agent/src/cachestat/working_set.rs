// SPDX-License-Identifier: Apache-2.0
//! Working sets: distinct pages accessed in a window of time, from the sampled accesses.
//!
//! A page is sampled if its hash is below a threshold, and then with all of its accesses (SHARDS,
//! FAST '15). Pages below the lowest threshold within the window were therefore seen whenever they
//! were accessed in it. Their number, divided by the share of pages below that threshold, is an
//! estimate of all, with a relative standard error of one over the root of their number.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The most pages that are remembered of one cgroup: an error of about 1%. If there are more, half
/// of them are dropped.
const MAX_PAGES: usize = 16_384;

/// The sampled pages of one cgroup, each with its last access.
#[derive(Debug)]
pub struct WorkingSet {
    window: Duration,
    last_access: HashMap<u64, Duration>,
    /// Thresholds, each with the time since when it applied; the first one is that of the beginning
    /// of the window.
    thresholds: VecDeque<(Duration, u64)>,
    kernel_threshold: u64,
    /// An upper bound of the threshold, which limits the number of pages.
    most: u64,
}

impl WorkingSet {
    /// An empty working set.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            window,
            last_access: HashMap::new(),
            thresholds: VecDeque::new(),
            kernel_threshold: u64::MAX,
            most: u64::MAX,
        }
    }

    /// Sets the threshold below which pages are reported from `now` on.
    pub fn set_threshold(&mut self, now: Duration, threshold: u64) {
        self.kernel_threshold = threshold;
        let threshold = threshold.min(self.most);
        if self.thresholds.back().is_none_or(|&(_, last)| last != threshold) {
            self.thresholds.push_back((now, threshold));
        }
    }

    /// Records an access to the page with this hash.
    pub fn note(&mut self, now: Duration, hash: u64) {
        if hash >= self.most {
            return;
        }
        self.last_access.insert(hash, now);
        if self.last_access.len() > MAX_PAGES {
            self.forget_old(now);
        }
        while self.last_access.len() > MAX_PAGES {
            self.most = self.thresholds.back().map_or(self.most, |&(_, last)| last) / 2;
            self.set_threshold(now, self.kernel_threshold);
            let most = self.most;
            self.last_access.retain(|&hash, _| hash < most);
        }
    }

    /// Estimate of the distinct pages accessed in the window before `now`.
    pub fn pages(&mut self, now: Duration) -> f64 {
        self.forget_old(now);
        let threshold = self.least_threshold();
        let seen = self.last_access.keys().filter(|&&hash| hash < threshold).count();
        // After a raise, the next one waits until the window shows the result of the first.
        let is_settled = self.thresholds.len() <= 1;
        if is_settled && seen < MAX_PAGES / 8 && self.most < u64::MAX {
            self.most = self.most.saturating_mul(2);
            self.set_threshold(now, self.kernel_threshold);
        }
        seen as f64 * 2f64.powi(64) / threshold.max(1) as f64
    }

    fn forget_old(&mut self, now: Duration) {
        let since = now.saturating_sub(self.window);
        self.last_access.retain(|_, last| *last >= since);
        while self.thresholds.get(1).is_some_and(|&(from, _)| from <= since) {
            self.thresholds.pop_front();
        }
    }

    fn least_threshold(&self) -> u64 {
        self.thresholds.iter().map(|&(_, threshold)| threshold).min().unwrap_or(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachepilot_models::hash::{page_hash, threshold};

    const WINDOW: Duration = Duration::from_secs(60);

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    /// Reports accesses like the kernel: those below the threshold.
    fn access(set: &mut WorkingSet, second: u64, pages: std::ops::Range<u64>) {
        let threshold = set.kernel_threshold;
        for hash in pages.map(page_hash).filter(|&hash| hash < threshold) {
            set.note(at(second), hash);
        }
    }

    fn set(rate: f64) -> WorkingSet {
        let mut set = WorkingSet::new(WINDOW);
        set.set_threshold(at(0), threshold(rate));
        set
    }

    #[test]
    fn pages_count_once_and_as_long_as_the_window() {
        let mut set = set(1.0);
        assert_eq!(set.pages(at(0)), 0.0);
        access(&mut set, 1, 0..1000);
        access(&mut set, 30, 500..1500);
        assert_eq!(set.pages(at(31)).round(), 1500.0);
        assert_eq!(set.pages(at(62)).round(), 1000.0, "those of the first second alone are old");
        assert_eq!(set.pages(at(91)), 0.0);
    }

    #[test]
    fn a_sample_stands_for_all() {
        let mut set = set(0.1);
        access(&mut set, 1, 0..100_000);
        let pages = set.pages(at(2));
        assert!((pages - 1e5).abs() < 3.0 * 1e5 / 100.0, "{pages}");
    }

    #[test]
    fn pages_that_a_higher_threshold_lets_through_count_after_a_window() {
        let mut set = set(0.1);
        access(&mut set, 1, 0..20_000);
        set.set_threshold(at(30), threshold(0.5));
        access(&mut set, 40, 0..20_000);
        let early = set.pages(at(41));
        assert!((early - 2e4).abs() < 2000.0, "{early}");
        access(&mut set, 85, 0..20_000);
        let late = set.pages(at(91));
        assert!((late - 2e4).abs() < 600.0, "{late}");
    }

    #[test]
    fn a_threshold_that_falls_leaves_pages_out_at_once() {
        let mut set = set(1.0);
        access(&mut set, 1, 0..10_000);
        set.set_threshold(at(2), threshold(0.25));
        access(&mut set, 3, 10_000..20_000);
        let pages = set.pages(at(4));
        assert!((pages - 2e4).abs() < 1000.0, "{pages}");
    }

    #[test]
    fn memory_is_bounded_and_the_sample_grows_again_with_room() {
        let mut set = set(1.0);
        access(&mut set, 1, 0..500_000);
        assert!(set.last_access.len() <= MAX_PAGES);
        let pages = set.pages(at(2));
        assert!((pages - 5e5).abs() < 5e5 * 0.05, "{pages}");
        for second in 60..400 {
            access(&mut set, second, 0..2000);
            set.pages(at(second));
        }
        let pages = set.pages(at(400));
        assert!((pages - 2000.0).abs() < 40.0, "{pages}");
        assert!(set.thresholds.len() <= 8, "{}", set.thresholds.len());
    }
}
