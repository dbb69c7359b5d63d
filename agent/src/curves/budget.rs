// SPDX-License-Identifier: Apache-2.0
//! The rate at which pages of a tenant are sampled, so that its events stay within a budget.

use cachepilot_models::hash::threshold;
use std::f64::consts::SQRT_2;
use std::time::Duration;

/// A miniature cache is more exact the more pages it has. A tenant whose page cache has fewer pages
/// than `SMALL_PAGES` (16 MiB) may therefore have more events, in proportion, up to `MOST_TIMES` as
/// many.
const SMALL_PAGES: f64 = 4096.0;
const MOST_TIMES: f64 = 4.0;
/// The multiple stays while the size changes by less than this factor, the ratio of one rate to the
/// next.
const WAVERS: f64 = SQRT_2;
/// The share of the budget that is used at most after the rate was lowered, and after it was
/// raised.
const LOWERED_SHARE: f64 = 0.75;
const RAISED_SHARE: f64 = 0.7;
/// Everything is sampled until the load of a tenant is known. The rate can be lowered at once, and
/// a small load is soon known to be small.
pub(super) const FIRST_RATE: f64 = 1.0;
/// Rates are powers of the square root of two.
const STEPS_PER_OCTAVE: f64 = 2.0;
/// The time for which events must be few before the rate is raised again: the least and the
/// greatest. Before the first change of the rate, it is 0.
const HOLD: Duration = Duration::from_secs(4);
const LONGEST_HOLD: Duration = Duration::from_secs(256);
/// At a rate below 2^-24, a sample of 64 GiB would have less than one page.
const MAX_EXPONENT: i32 = 48;

/// A controller of the rate at which pages are sampled, a power of the square root of two. It
/// lowers the rate at once when an interval exceeded the budget. It raises the rate when all
/// intervals of a hold time would have stayed below most of the budget. A load that stays within a
/// third of its level cannot make the rate move back. If the rate moves back for another reason
/// (such as a hot page that only the higher rate samples), the hold time doubles.
#[derive(Debug, Clone)]
pub struct Budget {
    events_per_s: f64,
    /// The multiple of the events that the size of the page cache allows.
    times: f64,
    exponent: i32,
    /// The most events per second since the rate last changed.
    peak: f64,
    quiet: Duration,
    hold: Duration,
    raised: bool,
}

impl Budget {
    /// A budget of `events_per_s`, with a first rate of about `rate`.
    #[must_use]
    pub fn new(events_per_s: f64, rate: f64) -> Self {
        let exponent = exponent_of(rate);
        let (quiet, hold) = (Duration::ZERO, Duration::ZERO);
        Self { events_per_s, times: 1.0, exponent, peak: 0.0, quiet, hold, raised: false }
    }

    /// The budget of a new tenant.
    #[must_use]
    pub fn first(events_per_s: f64) -> Self {
        Self::new(events_per_s, FIRST_RATE)
    }

    /// Sets the size of the tenant's page cache, as a small one may have more events. A size of 0
    /// pages means that there is none, and changes nothing. Returns whether the tenant may have
    /// more events than before.
    pub fn follow_cache(&mut self, pages: u64) -> bool {
        if pages == 0 {
            return false;
        }
        let times = (SMALL_PAGES / pages as f64).clamp(1.0, MOST_TIMES);
        let moved = (times / self.times).max(self.times / times);
        let at_end = times == 1.0 || times == MOST_TIMES;
        if moved <= WAVERS && !at_end {
            return false;
        }
        let before = std::mem::replace(&mut self.times, times);
        if moved > 1.0 {
            // A raise that was undone under another budget says nothing about this one.
            self.hold = self.hold.min(HOLD);
            self.restart(false);
        }
        times > before
    }

    /// Events per second that the budget allows.
    #[must_use]
    pub fn allowed_per_s(&self) -> f64 {
        self.events_per_s * self.times
    }

    /// Share of pages to sample.
    #[must_use]
    pub fn rate(&self) -> f64 {
        (-f64::from(self.exponent) / STEPS_PER_OCTAVE).exp2()
    }

    /// The hash threshold below which that share of all pages is.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        threshold(self.rate())
    }

    /// Updates the rate after an interval of length `elapsed` with `events` at the present rate,
    /// and returns it. The rate is never raised above `ceiling`, for which the receiver has room.
    /// An interval without accesses, sampled or not, is ignored.
    pub fn update(&mut self, elapsed: Duration, events: u64, accesses: u64, ceiling: f64) -> f64 {
        if elapsed.is_zero() || accesses == 0 {
            return self.rate();
        }
        if self.lower_for(elapsed, events) {
            return self.rate();
        }
        let per_s = events as f64 / elapsed.as_secs_f64();
        let allowed = self.allowed_per_s();
        self.peak = self.peak.max(per_s);
        self.quiet += elapsed;
        if self.quiet >= self.hold {
            // A count of zero may be chance, so it is treated as one event per second.
            let peak = self.peak.max(1.0);
            let room = (allowed * RAISED_SHARE / peak).min(ceiling / self.rate());
            self.raise_by((room.log2() * STEPS_PER_OCTAVE).floor() as i32);
        }
        self.rate()
    }

    /// Lowers the rate if the events of an interval exceed the budget. Returns whether they do.
    pub fn lower_for(&mut self, elapsed: Duration, events: u64) -> bool {
        let per_s = events as f64 / elapsed.as_secs_f64();
        let allowed = self.allowed_per_s();
        if per_s > allowed {
            let over = per_s / (allowed * LOWERED_SHARE);
            self.lower_to(self.exponent + (over.log2() * STEPS_PER_OCTAVE).ceil() as i32);
        }
        per_s > allowed
    }

    /// Lowers the rate to at most `rate` because the receiver ran out of room.
    pub fn limit(&mut self, rate: f64) {
        if rate < self.rate() {
            self.lower_to(exponent_of(rate));
        }
    }

    fn lower_to(&mut self, exponent: i32) {
        self.exponent = exponent.min(MAX_EXPONENT);
        // After a raise that had to be undone, the next one waits longer.
        let longer = if self.raised { self.hold * 2 } else { self.hold };
        self.hold = longer.clamp(HOLD, LONGEST_HOLD);
        self.restart(false);
    }

    fn raise_by(&mut self, steps: i32) {
        let steps = steps.min(self.exponent);
        if steps >= 1 {
            self.exponent -= steps;
            self.hold = self.hold.max(HOLD);
            self.restart(true);
        } else if self.quiet >= self.hold * 2 {
            // The rate stays. The peak is forgotten, and so is an earlier raise.
            self.restart(false);
        }
    }

    fn restart(&mut self, raised: bool) {
        self.raised = raised;
        self.peak = 0.0;
        self.quiet = Duration::ZERO;
    }
}

fn exponent_of(rate: f64) -> i32 {
    (-rate.log2() * STEPS_PER_OCTAVE - 1e-9).ceil().clamp(0.0, f64::from(MAX_EXPONENT)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The rates over `seconds` of a steady load.
    fn rates(budget: &mut Budget, per_s: f64, seconds: usize) -> Vec<f64> {
        let step = |_| {
            let events = (per_s * budget.rate()) as u64;
            budget.update(SECOND, events, per_s as u64, 1.0)
        };
        (0..seconds).map(step).collect()
    }

    proptest! {
        #[test]
        fn settles_within_the_budget_and_stays(
            first in -20.0..0.0f64, per_s in 1e2..1e8f64, next in 1e2..1e8f64,
        ) {
            let mut budget = Budget::new(2000.0, first.exp2());
            for load in [per_s, next] {
                let rates = rates(&mut budget, load, 60);
                let last = rates[59];
                prop_assert!(rates[20..].iter().all(|&r| r == last), "{rates:?}");
                // Events are counted in whole numbers.
                prop_assert!((load * last).floor() <= 2000.0);
                prop_assert!(last == 1.0 || load * last > 900.0, "{} of {}", load * last, load);
            }
        }

        #[test]
        fn noise_of_a_third_does_not_make_it_move(seed in any::<u64>(), per_s in 1e4..1e6f64) {
            let mut budget = Budget::new(2000.0, 1.0);
            rates(&mut budget, per_s, 30);
            let settled = budget.rate();
            for i in 0..300_u64 {
                let noise = cachepilot_models::hash::page_hash(seed ^ i) as f64 / 2f64.powi(64);
                let load = per_s * (1.0 + (noise - 0.5) * 0.66);
                budget.update(SECOND, (load * budget.rate()) as u64, load as u64, 1.0);
                let steps = (budget.rate() / settled).log2().abs();
                prop_assert!(steps <= 1.0, "{steps}");
            }
        }

        #[test]
        fn a_size_that_wavers_by_a_sixth_leaves_the_rate_alone(
            seed in any::<u64>(), pages in 10.0..1e5f64, per_s in 1e4..1e6f64,
        ) {
            let mut budget = Budget::new(2000.0, 1.0);
            let mut step = |i: u64| {
                let noise = cachepilot_models::hash::page_hash(seed ^ i) as f64 / 2f64.powi(64);
                budget.follow_cache((pages * (1.0 + (noise - 0.5) / 3.0)) as u64);
                rates(&mut budget, per_s, 1)[0]
            };
            let rates: Vec<f64> = (0..300).map(&mut step).collect();
            // The size may reach an end of the range once.
            let moves = rates[20..].windows(2).filter(|two| two[0] != two[1]).count();
            prop_assert!(moves <= 1, "{rates:?}");
        }
    }

    /// Events per second of a steady load of 100,000 accesses with a page cache of `pages`.
    fn settled(budget: &mut Budget, pages: u64) -> f64 {
        budget.follow_cache(pages);
        rates(budget, 1e5, 60)[59] * 1e5
    }

    #[test]
    fn a_small_page_cache_has_more_events_than_the_setting() {
        let mut unknown = Budget::new(2000.0, 1.0);
        let base = rates(&mut unknown, 1e5, 60)[59] * 1e5;
        for (pages, times) in [(1 << 20, 1.0), (4096, 1.0), (2048, 2.0), (1024, 4.0), (1, 4.0)] {
            let per_s = settled(&mut Budget::new(2000.0, 1.0), pages);
            assert_eq!(per_s, base * times, "{pages} pages");
        }
    }

    #[test]
    fn the_budget_follows_a_page_cache_that_shrinks_and_grows() {
        let mut budget = Budget::new(2000.0, 1.0);
        let base = settled(&mut budget, 4096);
        assert_eq!(settled(&mut budget, 700), base * 4.0);
        assert_eq!(settled(&mut budget, 0), base * 4.0, "no size says nothing");
        budget.follow_cache(4096);
        assert_eq!(rates(&mut budget, 1e5, 1)[0] * 1e5, base, "lowered at once");
    }

    #[test]
    fn a_small_page_cache_with_few_accesses_is_sampled_in_full_and_no_more() {
        let mut budget = Budget::new(2000.0, 0.5);
        budget.follow_cache(100);
        assert_eq!(rates(&mut budget, 5000.0, 60)[59], 1.0);
    }

    #[test]
    fn lowers_in_one_interval() {
        let mut budget = Budget::new(2000.0, 1.0);
        let rate = budget.update(SECOND, 100_000, 100_000, 1.0);
        assert!(rate * 100_000.0 <= 1500.0, "{rate}");
    }

    #[test]
    fn a_page_that_only_the_higher_rate_has_is_met_ever_less_often() {
        let mut budget = Budget::new(2000.0, 0.125);
        let mut raises = 0;
        for _ in 0..600 {
            let before = budget.rate();
            let events = if before > 0.125 { 9000 } else { 300 };
            let after = budget.update(SECOND, events, 100_000, 1.0);
            raises += u32::from(after > before && after > 0.125);
        }
        assert!((2..=9).contains(&raises), "{raises}");
    }

    #[test]
    fn the_rate_stops_at_its_ceiling_and_silence_does_not_change_it() {
        let mut budget = Budget::new(2000.0, 1.0 / 64.0);
        for _ in 0..50 {
            budget.update(SECOND, 10, 1000, 0.1);
        }
        assert!((budget.rate() - 0.5f64.powf(3.5)).abs() < 1e-12);
        for _ in 0..50 {
            budget.update(SECOND, 0, 0, 1.0);
        }
        assert!((budget.rate() - 0.5f64.powf(3.5)).abs() < 1e-12);
        budget.limit(0.01);
        assert_eq!(budget.rate(), 1.0 / 128.0);
    }
}
