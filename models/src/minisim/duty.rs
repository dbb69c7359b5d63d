// SPDX-License-Identifier: Apache-2.0
//! When the caches of a sample are fed: a share of the time, in bursts.

/// Accesses of a burst: so many, and so many per page of the sample.
const BURST_SAMPLES: u64 = 512;
const BURST_PER_PAGE: u64 = 6;
/// Of a burst after a rest, one part in so many brings the caches up to date and is not counted.
const WARM_PART: u64 = 4;
/// A rest that saves less is none: it would cost more in freshness.
const NO_REST: f64 = 0.7;

/// What is done with an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is fed and counted.
    Measure,
    /// It is fed only.
    Warm,
    /// It is left out.
    Rest,
}

/// Bursts in which a page of the sample is accessed several times, then rest. A footprint that is
/// small for its rate of accesses is seen as a whole within a burst: more pages for a part of the
/// time tell more of it than fewer pages all the time, at the same cost.
#[derive(Debug, Clone)]
pub(super) struct Duty {
    burst: u64,
    rest: u64,
    /// Sampled accesses since the burst began; and whether a rest was before it.
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
    /// From now on `share` of the accesses to the `pages` of a sample are fed.
    pub(super) fn set(&mut self, share: f64, pages: u64) {
        self.burst = BURST_SAMPLES.max(pages * BURST_PER_PAGE);
        let share = if share >= NO_REST { 1.0 } else { share.max(1e-3) };
        self.rest = (self.burst as f64 * (share.recip() - 1.0)).round() as u64;
    }

    /// Sampled accesses of which `fed` are fed, and no part of a burst when there is rest.
    pub(super) fn samples_for(&self, fed: u64) -> u64 {
        let cycle = self.burst + self.rest;
        if self.rest == 0 { fed } else { cycle.max(fed * cycle / self.burst) }
    }

    /// Begins a step: the mode of all accesses until the next one.
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

    /// Counts a sampled access of the step.
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
