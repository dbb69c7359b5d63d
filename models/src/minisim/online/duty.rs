// SPDX-License-Identifier: Apache-2.0
//! Duty cycle of the caches of a sample: they are fed a share of the time, in bursts.

/// Accesses per burst: at least `BURST_SAMPLES`, and at least `BURST_PER_PAGE` per page of the
/// sample.
const BURST_SAMPLES: u64 = 512;
const BURST_PER_PAGE: u64 = 6;
/// One part in this many of a burst after a rest warms up the caches and is not counted.
const WARM_PART: u64 = 4;
/// If the share to be fed is at least this, the caches do not rest. The little cost saved would not
/// justify the staler caches.
const NO_REST: f64 = 0.7;

/// What is done with an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is fed and counted.
    Measure,
    /// It is fed but not counted.
    Warm,
    /// It is ignored.
    Rest,
}

/// Alternates between bursts, in which each page of the sample is accessed several times, and rest.
/// A footprint that is small for its access rate is seen as a whole within one burst. At the same
/// cost, more pages for part of the time then show more of it than fewer pages all the time.
#[derive(Debug, Clone)]
pub(super) struct Duty {
    burst: u64,
    rest: u64,
    /// Sampled accesses since the burst began, and whether a rest preceded it.
    at: u64,
    rested: bool,
    mode: Mode,
}

impl Default for Duty {
    fn default() -> Self {
        Self { burst: BURST_SAMPLES, rest: 0, at: 0, rested: false, mode: Mode::Measure }
    }
}

impl Duty {
    /// Sets the `share` of the accesses to be fed from now on, for a sample of `pages` pages.
    pub(super) fn set(&mut self, share: f64, pages: u64) {
        self.burst = BURST_SAMPLES.max(pages * BURST_PER_PAGE);
        let share = if share >= NO_REST { 1.0 } else { share.max(1e-3) };
        self.rest = (self.burst as f64 * (share.recip() - 1.0)).round() as u64;
    }

    /// Returns the number of sampled accesses of which `fed` are fed. If there is rest, it is at
    /// least one whole cycle of burst and rest.
    pub(super) fn samples_for(&self, fed: u64) -> u64 {
        let cycle = self.burst + self.rest;
        if self.rest == 0 { fed } else { cycle.max(fed * cycle / self.burst) }
    }

    /// Begins a step. Returns the mode of all accesses until the next step.
    pub(super) fn begin(&mut self) -> Mode {
        if self.at >= self.burst + self.rest {
            self.at = 0;
            self.rested = self.rest > 0;
        }
        let warm = if self.rested { self.burst / WARM_PART } else { 0 };
        self.mode = match self.at {
            at if at < warm => Mode::Warm,
            at if at < self.burst || self.rest == 0 => Mode::Measure,
            _ => Mode::Rest,
        };
        self.mode
    }

    /// Counts a sampled access of the step, and returns the mode.
    pub(super) fn next(&mut self) -> Mode {
        self.at += 1;
        self.mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn so_large_a_share_is_fed(share in 0.02..0.7f64, pages in 0u64..2000) {
            let mut duty = Duty::default();
            duty.set(share, pages);
            let total = 20 * (duty.burst + duty.rest);
            let fed = (0..total).filter(|_| { duty.begin(); duty.next() != Mode::Rest }).count();
            prop_assert!((fed as f64 / total as f64 - share).abs() < 0.01);
        }
    }

    #[test]
    fn a_half_life_holds_a_burst() {
        let mut duty = Duty::default();
        assert_eq!(duty.samples_for(200), 200);
        duty.set(0.25, 0);
        assert_eq!((duty.samples_for(200), duty.samples_for(1024)), (2048, 4096));
    }

    #[test]
    fn a_burst_after_a_rest_first_warms_up() {
        let mut duty = Duty::default();
        duty.set(0.5, 0);
        let modes: Vec<Mode> = (0..1200)
            .map(|_| {
                duty.begin();
                duty.next()
            })
            .collect();
        assert_eq!(modes[0], Mode::Measure);
        assert_eq!((modes[512], modes[1023]), (Mode::Rest, Mode::Rest));
        assert_eq!(
            (modes[1024], modes[1151], modes[1152]),
            (Mode::Warm, Mode::Warm, Mode::Measure)
        );
    }
}
