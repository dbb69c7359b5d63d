// SPDX-License-Identifier: Apache-2.0
//! Detects a change of regime: whether the reuse distances of a workload differ from those before.

/// Sampled accesses per window.
const WINDOW: u32 = 256;
/// Number of windows that the past must have before a window is compared with it, and the share of
/// the past that a new window replaces.
const PAST_WINDOWS: u32 = 4;
const NEW_SHARE: f64 = 0.125;
/// Smallest distance between two distributions (Kolmogorov, Smirnov) that counts as a change.
/// Chance alone makes a distance of 0.12 between two windows in one of a thousand cases, and a
/// change smaller than 0.25 alters no decision.
const DISTANCE: f64 = 0.25;
/// The distance must also be this many times the usual distance between windows of this workload. A
/// workload that alternates within a window has all its regimes in the mean.
const UNUSUAL: f64 = 2.0;

/// Compares the distribution of reuse distances over a window with that of the past.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// Accesses of the window by class of distance. The last class counts pages never accessed
    /// before.
    window: Vec<u32>,
    count: u32,
    past: Vec<f64>,
    windows: u32,
    usual: f64,
    /// Number of consecutive windows that differed from the past.
    different: u32,
    changed: bool,
    /// Share of the last window's accesses that were to new pages.
    first_share: f64,
}

impl Change {
    /// Creates a detector with `classes` classes of distance, plus the class of new pages.
    pub(super) fn new(classes: usize) -> Self {
        let (window, past) = (vec![0; classes + 1], vec![0.0; classes + 1]);
        Self { window, past, first_share: 1.0, ..Self::default() }
    }

    /// Counts an access of this class.
    pub(super) fn note(&mut self, class: usize) {
        self.window[class] += 1;
        self.count += 1;
        if self.count == WINDOW {
            self.end_window();
        }
    }

    fn end_window(&mut self) {
        let share = |&count: &u32| f64::from(count) / f64::from(WINDOW);
        let now: Vec<f64> = self.window.iter().map(share).collect();
        self.first_share = now.last().copied().unwrap_or(0.0);
        self.window.iter_mut().for_each(|count| *count = 0);
        self.count = 0;
        let distance = distance(&self.past, &now);
        let known = self.windows >= PAST_WINDOWS;
        if known && distance > DISTANCE.max(UNUSUAL * self.usual) {
            self.different += 1;
            self.changed |= self.different >= 2;
            return;
        }
        self.different = 0;
        self.windows += 1;
        let share = NEW_SHARE.max(f64::from(self.windows).recip());
        if self.windows > 1 {
            self.usual += (distance - self.usual) * share;
        }
        self.past.iter_mut().zip(now).for_each(|(past, now)| *past += (now - *past) * share);
    }

    /// Returns whether there was a change since the last call, and resets the flag. If there was
    /// one, the past is forgotten and begins with the next window.
    pub(super) fn take(&mut self) -> bool {
        let changed = std::mem::take(&mut self.changed);
        if changed {
            self.forget();
        }
        changed
    }

    /// Forgets the past.
    pub(super) fn forget(&mut self) {
        (self.windows, self.different, self.usual) = (0, 0, 0.0);
        self.changed = false;
        self.past.iter_mut().for_each(|past| *past = 0.0);
    }

    /// Returns the share of the last window's accesses that were to new pages; 1 before the first
    /// window is complete.
    pub(super) fn first_share(&self) -> f64 {
        self.first_share
    }
}

/// Returns the largest difference between the two cumulative distributions.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    let step = |(a, b): (&f64, &f64)| {
        sum += a - b;
        sum.abs()
    };
    a.iter().zip(b).map(step).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::page_hash;

    fn feed(change: &mut Change, accesses: u64, class: impl Fn(u64) -> usize) -> u32 {
        (0..accesses)
            .map(|i| {
                change.note(class(i));
                u32::from(change.take())
            })
            .sum()
    }

    #[test]
    fn chance_is_no_change_and_a_change_is_found_within_three_windows() {
        let mut change = Change::new(8);
        assert_eq!(feed(&mut change, 500_000, |i| page_hash(i) as usize % 9), 0);
        assert_eq!(feed(&mut change, 3 * u64::from(WINDOW), |_| 8), 1);
        assert_eq!(change.first_share(), 1.0);
        assert_eq!(feed(&mut change, 100_000, |_| 8), 0);
    }

    #[test]
    fn a_workload_that_alternates_within_two_windows_is_one_regime() {
        let mut change = Change::new(8);
        let found = feed(&mut change, 200_000, |i| if i / 300 % 2 == 0 { 8 } else { 0 });
        assert!(found <= 1, "{found}");
    }
}
