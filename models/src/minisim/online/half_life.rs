// SPDX-License-Identifier: Apache-2.0
//! The half-life with which accesses fade, chosen by how often the pages of a workload come back.
//!
//! A generation is the stretch of accesses over which distinct pages are counted before the
//! half-life is reconsidered.

use crate::minisim::sample::Identity;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

/// A generation ends early when it has this many sampled pages.
const MAX_PAGES: usize = 8192;
/// With fewer sampled accesses, a generation is not evaluated.
const MIN_SAMPLED: u64 = 64;
/// Distinct pages per access. Above `TOO_SHORT`, a generation has not seen the working set as a
/// whole; below `TOO_LONG`, half of it would suffice. The twofold hysteresis is enough because
/// doubling or halving the half-life changes the share by a factor of at most two.
const TOO_SHORT: f64 = 0.55;
const TOO_LONG: f64 = 0.25;
/// After every `WINDOW` sampled accesses, the share of them to pages new to the generation is
/// checked. At `FEW_NEW` or less, the working set has been seen.
const WINDOW: u32 = 128;
const FEW_NEW: f64 = 0.1;

/// A half-life that follows the working set. It is long enough that pages are accessed twice on
/// average within it, so that loops and scans are visible. It is no longer than that, so that an
/// old regime fades as fast as its successor becomes visible. A loop of N pages gives a half-life
/// of 2 N accesses, uniform accesses give 1.6 N. For a skewed workload, the accesses that a curve
/// needs as its sample set the lower limit.
pub(super) struct HalfLife {
    seen: HashSet<u64, BuildHasherDefault<Identity>>,
    sampled: u64,
    accesses: u64,
    value: u64,
    least: u64,
    most: u64,
    /// Sampled accesses of the window, and how many of them were to new pages.
    window: (u32, u32),
    settled: bool,
    fixed: bool,
}

impl HalfLife {
    /// Creates a half-life between `least` and `most` accesses. Equal bounds make it fixed.
    pub(super) fn new(least: u64, most: u64) -> Self {
        let (least, most) = (least.clamp(1, most.max(1)), most.max(1));
        Self {
            seen: HashSet::default(),
            sampled: 0,
            accesses: 0,
            value: least,
            least,
            most,
            window: (0, 0),
            settled: false,
            fixed: least == most,
        }
    }

    /// Sets the lower bound, which depends on the sampling rate. It takes precedence over the upper
    /// bound. A fixed half-life stays as it is.
    pub(super) fn set_least(&mut self, least: u64) {
        if self.fixed {
            return;
        }
        self.least = least.max(1);
        self.most = self.most.max(self.least);
        self.value = self.value.max(self.least);
    }

    pub(super) fn note(&mut self, page: u64) {
        self.sampled += 1;
        let is_new = self.seen.len() < MAX_PAGES && self.seen.insert(page);
        self.window.0 += 1;
        self.window.1 += u32::from(is_new);
        if self.window.0 == WINDOW {
            let share = f64::from(self.window.1) / f64::from(WINDOW);
            self.settled |= share <= FEW_NEW && self.seen.len() < MAX_PAGES;
            self.window = (0, 0);
        }
    }

    /// Counts accesses, sampled or not, and returns the half-life to use from now on. If a
    /// generation was too short, it goes on for as long again, so that nothing it saw has to be
    /// repeated.
    pub(super) fn advance(&mut self, accesses: u64) -> u64 {
        self.accesses += accesses;
        let full = self.seen.len() >= MAX_PAGES;
        if self.sampled >= MIN_SAMPLED && (full || self.accesses >= self.value) {
            let share = self.seen.len() as f64 / self.sampled as f64;
            if share > TOO_SHORT && !full && self.value < self.most {
                self.value = (self.value * 2).min(self.most);
                return self.value;
            }
            if share < TOO_LONG {
                self.value = (self.value / 2).max(self.least);
            }
            self.settled |= share <= TOO_SHORT;
            self.seen.clear();
            self.sampled = 0;
            self.accesses = 0;
        }
        self.value
    }

    /// Returns whether the working set has been seen once: either a generation was long enough, or
    /// hardly any of a window's accesses were to pages new to it.
    pub(super) fn settled(&self) -> bool {
        self.settled
    }

    pub(super) fn bytes(&self) -> u64 {
        self.seen.capacity() as u64 * 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::page_hash;

    fn after(accesses: u64, half_life: &mut HalfLife, page: impl Fn(u64) -> u64) -> u64 {
        (0..accesses)
            .map(|i| {
                half_life.note(page_hash(page(i)));
                half_life.advance(1)
            })
            .last()
            .unwrap()
    }

    #[test]
    fn a_loop_is_seen_twice_and_a_hot_set_fades_fast() {
        let mut half_life = HalfLife::new(100, 100_000);
        let slow = after(100_000, &mut half_life, |i| i % 3000);
        assert!((3000..=12_800).contains(&slow), "{slow}");
        assert!(half_life.settled());
        assert_eq!(after(100_000, &mut half_life, |i| page_hash(i) % 8), 100);
    }

    #[test]
    fn a_loop_is_known_soon_after_its_first_pass() {
        for pages in [700, 3000, 5000] {
            let mut half_life = HalfLife::new(100, 100_000);
            after(pages, &mut half_life, |i| i % pages);
            assert!(!half_life.settled());
            after(2 * u64::from(WINDOW), &mut half_life, |i| i % pages);
            assert!(half_life.settled(), "{pages}");
        }
    }

    #[test]
    fn accesses_that_never_come_back_stop_at_the_most() {
        let mut half_life = HalfLife::new(100, 5000);
        assert_eq!(after(50_000, &mut half_life, |i| i), 5000);
        assert!(!half_life.settled());
        assert_eq!(after(50_000, &mut HalfLife::new(700, 700), |i| i), 700);
    }
}
