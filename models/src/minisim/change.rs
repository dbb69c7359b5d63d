// SPDX-License-Identifier: Apache-2.0
//! Whether the reuse distances of a workload are other ones than before: a change of phase.

/// Sampled accesses of one window.
const WINDOW: u32 = 256;
/// Windows that the past must have, and the share of it that a window replaces.
const PAST_WINDOWS: u32 = 4;
const NEW_SHARE: f64 = 0.125;
/// Distance between two distributions (Kolmogorov, Smirnov) that counts: chance alone makes 0.12
/// between two windows in one of a thousand cases, and a smaller change moves no decision.
const DISTANCE: f64 = 0.25;
/// It must be so many times what is usual between windows of this workload: one that goes back and
/// forth within a window has its phases in the mean.
const UNUSUAL: f64 = 2.0;

/// Compares the distribution of reuse distances over a window with that of the past.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// Accesses of the window by class of distance, the last for those never met before.
    window: Vec<u32>,
    count: u32,
    past: Vec<f64>,
    windows: u32,
    usual: f64,
    /// Windows in a row that differed.
    different: u32,
    changed: bool,
    /// Share of the last window that was met for the first time.
    first_share: f64,
}

impl Change {
    /// For so many classes of distance besides the unknown one.
    pub(super) fn new(classes: usize) -> Self {
        let (window, past) = (vec![0; classes + 1], vec![0.0; classes + 1]);
        Self { window, past, first_share: 1.0, ..Self::default() }
    }

    /// Notes the class of an access.
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

    /// Whether there was a change; what comes after it is the past from now on.
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

    /// Share of the last window that was met for the first time; 1 before there was one.
    pub(super) fn first_share(&self) -> f64 {
        self.first_share
    }
}

/// The largest difference between the two cumulative distributions.
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
    fn what_goes_back_and_forth_within_a_window_or_two_is_one_phase() {
        let mut change = Change::new(8);
        let found = feed(&mut change, 200_000, |i| if i / 300 % 2 == 0 { 8 } else { 0 });
        assert!(found <= 1, "{found}");
    }
}
