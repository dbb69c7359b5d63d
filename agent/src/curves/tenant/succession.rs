// SPDX-License-Identifier: Apache-2.0
//! When a successor begins, and when it takes over.

use super::TenantCurves;
use crate::curves::early::Early;
use crate::curves::trust::TrustLimits;
use crate::error::Result;
use cachepilot_models::hash::rate_of;
use cachepilot_models::minisim::OnlineBank;

/// The greatest age of a successor, in half-lives: for a new regime, and for the same one.
const PHASE_PATIENCE: u64 = 4;
const PATIENCE: u64 = 8;
/// A successor for the same regime takes over once it has seen this share of the pages that its
/// predecessor knows.
const PAGES_SEEN: f64 = 0.8;
/// A bank is replaced after this many half-lives. The caches of an old bank have a state that a
/// policy swapped in now would not have.
const REFRESH: u64 = 64;
/// A successor that is still learning starts again when this multiple of its pages can be sampled.
const OVERTAKEN: f64 = 4.0;
/// A regime is followed if it lasts this multiple of the time to see its working set.
const SHORTEST_PHASE: u64 = 3;
/// The largest miniature cache is not made smaller than this to save memory.
const FEWEST_PAGES: f64 = 16.0;

impl TenantCurves {
    /// Starts a successor when a new regime begins. Until that successor has seen its working set,
    /// further changes are not taken for another regime.
    pub(super) fn follow_phase(&mut self) -> Result<()> {
        let bank_changed = self.bank.take_change();
        let changed = match &mut self.successor {
            Some(successor) if self.new_phase => successor.take_change(),
            _ => bank_changed,
        };
        // A regime that ended before it could be reported is not followed.
        let long = self.bank.accesses() >= SHORTEST_PHASE * self.bank.learnt_at();
        if changed && long {
            self.replace_successor()?;
            self.new_phase = true;
            self.phase += 1;
            self.early = Early::default();
            self.counterfactuals.begin_phase()?;
        }
        Ok(())
    }

    pub(super) fn replace_successor(&mut self) -> Result<()> {
        // A third bank at the same time would raise the most memory that a tenant takes.
        self.successor = None;
        let rate = rate_of(self.kernel_threshold).min(self.budget.rate());
        let mut successor = self.config.bank(rate, self.small.wanted(rate))?;
        successor.set_duty(self.small.duty(&successor))?;
        self.small.start(&successor);
        self.successor = Some(successor);
        Ok(())
    }

    /// Starts a successor if the kernel samples more than the present bank, if the budget of the
    /// small sample allows more, or if the present bank is old.
    pub(super) fn start_successor(&mut self) -> Result<()> {
        let rate = rate_of(self.kernel_threshold).min(self.budget.rate());
        let higher = rate > self.bank.rate() * 1.01
            || self.small.wanted(rate) > self.bank.small_rate() * 1.01;
        let old = self.bank.accesses() > REFRESH * self.bank.half_life();
        if higher || old {
            self.replace_successor()?;
        }
        Ok(())
    }

    /// Lets the successor take over when it has seen as much as its predecessor would remember.
    pub(super) fn promote(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        let (age, half_life) = (successor.accesses(), successor.half_life());
        // A bank that never saw its working set, as in a scan, knows pages that are gone for good.
        let known = if self.bank.learnt() { self.bank.working_set_pages() } else { 0.0 };
        let (need, pages, patience) = match self.new_phase {
            true => (TrustLimits::default().min_samples as f64, 0.0, PHASE_PATIENCE),
            false => (self.config.min_samples as f64 / 2.0, known * PAGES_SEEN, PATIENCE),
        };
        let seen = successor.learnt()
            && successor.effective_samples() >= need
            && successor.pages_seen() >= pages;
        let first = self.bank.sampled().1 == 0 && successor.sampled().1 > 0;
        let ready = seen || first || age >= patience * half_life;
        if ready && let Some(successor) = self.successor.take() {
            self.bank = successor;
            self.published.follow_other_bank(std::mem::take(&mut self.new_phase));
        }
    }

    /// Reduces memory that exceeds the bound: starts a new bank at a lower rate, since a cache that
    /// shrinks keeps its memory. The rate does not fall below the one at which the largest cache
    /// has [`FEWEST_PAGES`]; the rest of the memory does not depend on it. The published curves
    /// stay until there are better ones.
    pub(super) fn give_back(&mut self) -> Result<()> {
        (self.successor, self.new_phase) = (None, false);
        let largest = self.config.sizes_pages.last().copied().unwrap_or(1) as f64;
        let rate = self.bank.small_rate() / self.full_share(&self.bank).max(2.0);
        if rate * largest >= FEWEST_PAGES {
            self.small.limit(rate);
            let large = self.bank.rate();
            self.bank = self.config.bank(large, self.small.wanted(large))?;
            self.published.follow_other_bank(false);
        }
        Ok(())
    }

    /// Whether a successor for the same regime samples far fewer pages than the kernel does now. At
    /// a few hundred accesses per second, the first rate is raised before anything is learnt.
    pub(super) fn is_overtaken(&self, successor: &OnlineBank) -> bool {
        let rate = rate_of(self.kernel_threshold).min(self.budget.rate());
        !self.new_phase && !successor.learnt() && rate >= OVERTAKEN * successor.rate()
    }
}
