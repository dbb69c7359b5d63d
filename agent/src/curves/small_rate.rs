// SPDX-License-Identifier: Apache-2.0
//! The rate of the small sample, on which every policy is simulated, and the duty: the share of the
//! time in which it is fed.

use super::budget::Budget;
use cachepilot_models::minisim::OnlineBank;
use std::time::Duration;

/// Pages of the working set that the miniature caches should see at least.
const FLOOR_PAGES: f64 = 128.0;
/// The floor moves when the caches see less than this share of those pages, or more than this
/// multiple.
const TOO_FEW: f64 = 0.7;
const TOO_MANY: f64 = 3.0;

/// A budget of simulated accesses. It is spent on as many pages as can be simulated all the time.
/// If that is fewer than the floor, it is spent on the floor, for a share of the time.
#[derive(Debug, Clone)]
pub(super) struct SmallRate {
    budget: Budget,
    floor: f64,
    offered_before: u64,
}

impl SmallRate {
    pub(super) fn new(events_per_s: f64, rate: f64) -> Self {
        Self { budget: Budget::new(events_per_s, rate), floor: 0.0, offered_before: 0 }
    }

    /// The wanted share of pages, at most `large`, the rate of the large sample from which the
    /// small one is taken.
    pub(super) fn wanted(&self, large: f64) -> f64 {
        self.budget.rate().max(self.floor).min(large)
    }

    /// The share of the time in which a bank can be fed.
    pub(super) fn duty(&self, bank: &OnlineBank) -> f64 {
        (self.budget.rate() / bank.small_rate()).min(1.0)
    }

    /// Advances by an interval in which `bank`, the newest, was offered samples of `accesses`. The
    /// rate stays below `ceiling`, for which there is memory.
    pub(super) fn update(
        &mut self,
        elapsed: Duration,
        bank: &OnlineBank,
        accesses: u64,
        ceiling: f64,
    ) {
        let offered = bank.offered().saturating_sub(self.offered_before);
        let rate = bank.small_rate();
        // The budget's rate may be higher than that of the bank, which follows later. The budget
        // counts what it would have simulated.
        if self.budget.rate() <= rate * 1.01 {
            let fed = offered as f64 * self.duty(bank);
            self.budget.update(elapsed, fed as u64, accesses, ceiling);
        }
        if bank.learnt() {
            self.move_floor(bank.working_set_pages(), rate, ceiling);
        }
    }

    fn move_floor(&mut self, working_set: f64, rate: f64, ceiling: f64) {
        let pages = working_set * rate;
        if pages < FLOOR_PAGES * TOO_FEW {
            self.floor = (FLOOR_PAGES / working_set.max(1.0)).min(ceiling).min(1.0);
        } else if pages > FLOOR_PAGES * TOO_MANY {
            self.floor = FLOOR_PAGES / working_set;
        }
    }

    /// Begins counting for another bank, or again for the present one.
    pub(super) fn start(&mut self, bank: &OnlineBank) {
        self.offered_before = bank.offered();
    }

    /// Lowers the rate to at most `rate`, as there is no memory for more.
    pub(super) fn limit(&mut self, rate: f64) {
        self.budget.limit(rate);
        self.floor = self.floor.min(rate);
    }
}
