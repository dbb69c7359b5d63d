// SPDX-License-Identifier: Apache-2.0
//! Whether a disagreement of curves with what is measured is a new regime of the workload.

use super::measured::Measured;
use super::settings::PAGE_BYTES;

/// Sizes over that at which curves agreed that count as the same. A page cache loses a part when a
/// process ends, and no more than a step of the grid; larger ones hold what the curves were never
/// held against.
const SAME_SIZES: std::ops::RangeInclusive<f64> = 0.7..=1.1;

/// Half-width of a 95% interval of a share in one sample, at most: 1.96 times a half.
const CHANCE: f64 = 0.98;

/// What a window says of the curves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    /// Whether they agree with it; `None` when it says nothing.
    pub(super) agrees: Option<bool>,
    /// Whether disagreement lasts.
    pub(super) lost: bool,
    /// The miss ratio that they predict.
    pub(super) predicted: f64,
    /// See [`Simulated`]; `None` when the policy in force is not simulated.
    pub(super) simulated: Option<Simulated>,
}

/// Totals of a simulation of the policy in force, at the size of the page cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Simulated {
    /// Totals of another generation are no predecessors of these.
    pub(super) generation: u64,
    /// Accesses that were simulated.
    pub(super) sampled: f64,
    /// Accesses that they stand for, and those of them that missed.
    pub(super) accesses: f64,
    /// See `accesses`.
    pub(super) misses: f64,
}

/// Tells a workload that changed from a page cache that did, and from curves that never were right.
///
/// Curves describe a page cache that has its size and its policy for long. Where they agreed with
/// what was measured, for as many accesses as it holds pages, the page cache was such a one and the
/// model fits, there; for a few windows young curves may agree that still change. If they disagree
/// later under the same policy and at the same size, the workload is left as a cause, or pages that were
/// taken from the page cache by others. The simulation of the same accesses, from which nobody takes
/// pages, tells which: it misses as was measured, or as the curves say. Nothing of this depends on
/// the rate of accesses.
#[derive(Debug, Clone, Default)]
pub(super) struct Regime {
    policy: String,
    size_bytes: u64,
    /// Size at which these curves agreed under this policy, and in how many accesses.
    agreed_bytes: u64,
    agreed_accesses: u64,
    /// Simulated until curves agreed last, and what was measured since.
    simulated: Simulated,
    accesses: u64,
    misses: u64,
}

impl Regime {
    /// Takes a window in. Whether a new regime began, told once.
    pub(super) fn begins(&mut self, measured: &Measured<'_>, verdict: &Verdict) -> bool {
        self.follow(measured);
        let simulated = verdict.simulated.unwrap_or_default();
        if verdict.agrees == Some(true) || simulated.generation != self.simulated.generation {
            (self.simulated, self.accesses, self.misses) = (simulated, 0, 0);
        } else {
            self.accesses += measured.accesses;
            self.misses += measured.misses;
        }
        match verdict.agrees {
            Some(true) if !verdict.lost => self.agreed_accesses += measured.accesses,
            Some(false) if verdict.lost && self.has_agreed() => {
                let began = self.is_of_accesses(verdict.predicted, &simulated);
                if began {
                    self.restart();
                }
                return began;
            }
            _ => {}
        }
        false
    }

    /// Whether the simulation left what is predicted as well: it is beyond half of the way to what
    /// was measured, by more than chance.
    fn is_of_accesses(&self, predicted: f64, simulated: &Simulated) -> bool {
        let sampled = simulated.sampled - self.simulated.sampled;
        let accesses = simulated.accesses - self.simulated.accesses;
        if sampled < 1.0 || accesses <= 0.0 || self.accesses == 0 {
            return false;
        }
        let ratio = (simulated.misses - self.simulated.misses) / accesses;
        let way = self.misses as f64 / self.accesses as f64 - predicted;
        (ratio - predicted) * way.signum() > way.abs() / 2.0 + CHANCE / sampled.sqrt()
    }

    /// Policy and size of the page cache in the last window.
    pub(super) fn setting(&self) -> (&str, u64) {
        (&self.policy, self.size_bytes)
    }

    /// Other curves are judged from now on.
    pub(super) fn restart(&mut self) {
        (self.agreed_bytes, self.agreed_accesses) = (self.size_bytes, 0);
    }

    fn follow(&mut self, measured: &Measured<'_>) {
        self.size_bytes = measured.size_bytes;
        let size = self.size_bytes as f64 / self.agreed_bytes.max(1) as f64;
        let is_other = self.policy != measured.policy;
        if is_other {
            self.policy = measured.policy.to_owned();
        }
        if is_other || !SAME_SIZES.contains(&size) {
            self.restart();
        }
    }

    fn has_agreed(&self) -> bool {
        self.agreed_accesses >= (self.size_bytes / PAGE_BYTES).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREES: (Option<bool>, bool) = (Some(true), false);
    const LOST: (Option<bool>, bool) = (Some(false), true);
    const SAMPLED: f64 = 50.0;

    fn window(policy: &str, pages: u64, misses: u64) -> Measured<'_> {
        let size_bytes = pages * PAGE_BYTES;
        Measured { policy, size_bytes, accesses: 5000, misses, dropped: 0 }
    }

    /// As [`Regime::begins`], where the simulation has these misses of 100 since curves agreed.
    fn simulated(
        regime: &mut Regime,
        measured: Measured<'_>,
        (agrees, lost): (Option<bool>, bool),
        misses: f64,
    ) -> bool {
        let before = regime.simulated;
        let simulated = Some(Simulated {
            generation: 1,
            sampled: before.sampled + SAMPLED,
            accesses: before.accesses + 100.0,
            misses: before.misses + misses,
        });
        regime.begins(&measured, &Verdict { agrees, lost, predicted: 0.5, simulated })
    }

    /// The simulation misses all where more than predicted was measured, and else nothing.
    fn begins(regime: &mut Regime, measured: Measured<'_>, verdict: (Option<bool>, bool)) -> bool {
        let misses = if measured.misses > measured.accesses / 2 { 100.0 } else { 0.0 };
        simulated(regime, measured, verdict, misses)
    }

    /// Of a tenant whose curves agreed at 1000 pages.
    fn settled() -> Regime {
        let mut regime = Regime::default();
        assert!(!begins(&mut regime, window("lru", 1000, 5), AGREES));
        regime
    }

    #[test]
    fn disagreement_that_lasts_after_agreement_is_told_once() {
        let mut regime = settled();
        let here = || window("lru", 1000, 200);
        assert!(!begins(&mut regime, here(), (Some(false), false)), "it does not last yet");
        assert!(!begins(&mut regime, here(), (None, true)), "a window that says nothing");
        assert!(begins(&mut regime, here(), LOST));
        assert!((0..1000).all(|_| !begins(&mut regime, here(), LOST)));
        begins(&mut regime, here(), AGREES);
        assert!(begins(&mut regime, here(), LOST));
    }

    #[test]
    fn curves_that_agreed_for_a_moment_are_too_young() {
        let mut regime = settled();
        let large = || window("lru", 12_000, 5000);
        (0..2).for_each(|_| drop(begins(&mut regime, large(), AGREES)));
        assert!((0..1000).all(|_| !begins(&mut regime, large(), LOST)));
        begins(&mut regime, large(), AGREES);
        assert!(begins(&mut regime, large(), LOST));
    }

    #[test]
    fn misses_that_the_accesses_do_not_explain_are_of_the_page_cache() {
        let window = || window("lru", 1000, 5000);
        let mut regime = settled();
        assert!((0..1000).all(|_| !simulated(&mut regime, window(), LOST, 50.0)), "as predicted");
        assert!(!simulated(&mut regime, window(), LOST, 0.0), "the other way");
        assert!(!simulated(&mut regime, window(), LOST, 80.0), "may be chance");
        assert!(simulated(&mut regime, window(), LOST, 95.0));
        let none = Verdict { agrees: LOST.0, lost: LOST.1, predicted: 0.5, simulated: None };
        assert!(!settled().begins(&window(), &none), "not simulated");
    }

    #[test]
    fn while_a_page_cache_fills_for_the_first_time_nothing_begins() {
        let mut regime = Regime::default();
        assert!((0..1000).all(|_| !begins(&mut regime, window("lru", 1000, 900), LOST)));
    }

    #[test]
    fn another_policy_must_agree_before_it_can_disagree() {
        let mut regime = settled();
        assert!((0..1000).all(|_| !begins(&mut regime, window("mru", 1000, 900), LOST)));
    }

    #[test]
    fn curves_must_agree_at_another_size_before_they_can_disagree() {
        for pages in [500, 2000] {
            let mut regime = settled();
            let here = || window("lru", pages, 5000);
            assert!((0..1000).all(|_| !begins(&mut regime, here(), LOST)));
            begins(&mut regime, here(), AGREES);
            assert!(begins(&mut regime, here(), LOST));
        }
        assert!(begins(&mut settled(), window("lru", 1050, 5000), LOST), "a limit that jitters");
        assert!(begins(&mut settled(), window("lru", 850, 5000), LOST), "a process that ended");
    }
}
