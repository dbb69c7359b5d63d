// SPDX-License-Identifier: Apache-2.0
//! How many pages every policy is simulated on, and for which share of the time.

use super::budget::Budget;
use cachepilot_models::minisim::OnlineBank;
use std::time::Duration;

/// Pages of the working set that the caches should see at least.
const FLOOR_PAGES: f64 = 128.0;
/// The floor moves when there are fewer than this share of them, or more than this multiple.
const TOO_FEW: f64 = 0.7;
const TOO_MANY: f64 = 3.0;

/// A budget of simulated accesses, spent on as many pages as it suffices for all the time; on the
/// floor, if that is more, for as large a share of the time as it suffices for.
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

    /// Share of pages wanted, at most `large`: that of the sample in front.
    pub(super) fn wanted(&self, large: f64) -> f64 {
        self.budget.rate().max(self.floor).min(large)
    }

    /// Share of the time that a bank can be fed for.
    pub(super) fn duty(&self, bank: &OnlineBank) -> f64 {
        (self.budget.rate() / bank.small_rate()).min(1.0)
    }

    /// Lets an interval pass in which `bank`, the newest, was offered samples of so many accesses.
    /// The rate stays below `ceiling`, for which there is memory.
    pub(super) fn update(
        &mut self,
        elapsed: Duration,
        bank: &OnlineBank,
        accesses: u64,
        ceiling: f64,
    ) {
        let offered = bank.offered().saturating_sub(self.offered_before);
        let rate = bank.small_rate();
        // The controller may be ahead of the bank; it counts what it would have had.
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

    /// Another bank is the newest, or the present one was fed until now.
    pub(super) fn start(&mut self, bank: &OnlineBank) {
        self.offered_before = bank.offered();
    }

    /// No more than `rate`: there is no memory.
    pub(super) fn limit(&mut self, rate: f64) {
        self.budget.limit(rate);
        self.floor = self.floor.min(rate);
    }
}
