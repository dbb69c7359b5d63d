// SPDX-License-Identifier: Apache-2.0
//! The curves of one tenant. This is the only module of the real nodes that knows how curves are
//! learnt.

use crate::bpf::event::{Event, EventKind};
use crate::bpf::layout::{Counts, Losses};
use crate::curves::{Budget, CurvesConfig, Generations, Measured, TenantCurves};
use crate::node::kernel::sampling::waiting::Waiting;
use crate::wire;
use std::time::Duration;

/// The tenant's setting during the measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Having<'a> {
    /// The policy that decides, by its name on the wire.
    pub policy: &'a str,
    /// Bytes of its limit that are available to its page cache.
    pub cache_bytes: u64,
}

/// What is known about a tenant.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    /// Its curves, if there are any.
    pub curves: Option<wire::Curves>,
    /// The counterfactuals: what every candidate policy would have missed so far.
    pub counterfactuals: Option<wire::Counterfactuals>,
    /// Whether they may be acted on.
    pub trusted: bool,
    /// The reason why not, one line.
    pub distrust: String,
    /// Number of the present regime; rises when a new regime begins.
    pub phase: u64,
}

/// Sampled accesses of one tenant, and what is learnt from them.
#[derive(Default)]
pub(super) struct Learning {
    waiting: Waiting,
    /// Ids of its named tasks, if any are named.
    named: Option<Vec<u32>>,
    /// `None` before the first access: an idle tenant costs no memory.
    curves: Option<TenantCurves>,
    /// The budget of events while there are no curves; set once there were too many events.
    budget: Option<Budget>,
    /// The number of all accesses when the curves were last fed.
    fed_accesses: u64,
    /// The counts, and the number of events, when the curves were last judged.
    judged: Counts,
    judged_events: u64,
    events: u64,
    /// Events of the last round.
    lately: u64,
    /// There is no memory for curves of this tenant.
    refused: bool,
    /// The generations of the curves that it had before.
    before: Generations,
    broken: String,
}

impl Learning {
    pub(super) fn take(&mut self, event: &Event) {
        self.waiting.take(event);
        self.events += u64::from(event.kind != EventKind::Removal);
    }

    /// Sets the tenant's named tasks; `None` if no tasks are named.
    pub(super) fn set_tasks(&mut self, named: Option<Vec<u32>>) {
        let set = self.curves.as_mut().map(|curves| curves.set_tasks(named.as_deref()));
        if let Some(Err(error)) = set {
            self.broken = format!("curves: {error}");
        }
        self.named = named;
    }

    /// Memory of its curves, bytes; 0 if it has none.
    pub(super) fn bytes(&self) -> u64 {
        self.curves.as_ref().map_or(0, TenantCurves::bytes)
    }

    /// Accesses that wait to be learnt from.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.accesses()
    }

    /// Events of the last round.
    pub(super) fn lately(&self) -> u64 {
        self.lately
    }

    /// Whether it has no curves, and accesses to learn them from. `accesses_total` is the number
    /// counted so far.
    pub(super) fn wants_to_begin(&self, accesses_total: u64) -> bool {
        self.curves.is_none() && (self.refused || accesses_total > 0)
    }

    /// Sets whether there is memory for its curves to begin. Returns true if it is refused now and
    /// was not before.
    pub(super) fn may_begin(&mut self, may: bool) -> bool {
        let was_refused = std::mem::replace(&mut self.refused, !may);
        !may && !was_refused
    }

    /// Drops its curves, as the memory is needed for other tenants.
    pub(super) fn give_up(&mut self) {
        self.before = self.curves.take().map(|curves| curves.generations()).unwrap_or_default();
        self.refused = true;
        self.waiting.clear();
    }

    /// Sets the memory that its curves may have, see [`TenantCurves::set_memory`].
    pub(super) fn set_memory(&mut self, config: &CurvesConfig) {
        self.curves.iter_mut().for_each(|curves| curves.set_memory(config));
    }

    /// A threshold to replace `now`: `NO_PAGES` for a tenant that may not learn, and another one
    /// for a tenant that may again, `first` if it has no wish of its own; `None` to keep `now`.
    pub(super) fn other_threshold(&self, now: u64, first: u64) -> Option<u64> {
        match self.refused {
            true => Some(super::NO_PAGES),
            false if now > super::NO_PAGES => None,
            false => Some(self.wanted_threshold().unwrap_or(first)),
        }
    }

    fn wanted_threshold(&self) -> Option<u64> {
        let of_curves = self.curves.as_ref().map(TenantCurves::threshold);
        of_curves.or_else(|| self.budget.as_ref().map(Budget::threshold))
    }

    /// Whether more events wait than are allowed per second.
    pub(super) fn is_flooded(&self, config: &CurvesConfig) -> bool {
        let allowed = match &self.curves {
            Some(curves) => curves.events_allowed_per_s(),
            None => config.events_per_s,
        };
        self.waiting.accesses() as f64 > allowed && self.broken.is_empty() && !self.refused
    }

    /// Lowers the threshold for the events that arrived within `elapsed`, and drops those above it.
    /// Returns the threshold that the kernel should use from now on. It takes no memory: curves
    /// begin in a round, when it is known whether there is any.
    pub(super) fn thin(&mut self, config: &CurvesConfig, elapsed: Duration) -> u64 {
        let events = self.waiting.accesses() as u64;
        let threshold = match &mut self.curves {
            Some(curves) => curves.lower_for(events, elapsed),
            None => {
                let first = || Budget::first(config.events_per_s);
                let budget = self.budget.get_or_insert_with(first);
                budget.lower_for(elapsed, events);
                budget.threshold()
            }
        };
        self.events -= self.waiting.thin(threshold);
        threshold
    }

    fn curves_or_new(&mut self, config: &CurvesConfig) -> crate::error::Result<&mut TenantCurves> {
        match &mut self.curves {
            Some(curves) => Ok(curves),
            none => {
                let config = CurvesConfig { tasks: self.named.clone(), ..config.clone() };
                let budget =
                    self.budget.take().unwrap_or_else(|| Budget::first(config.events_per_s));
                Ok(none.insert(TenantCurves::begin(&config, budget, self.before)?))
            }
        }
    }

    /// Feeds the waiting accesses to the curves. The curves are corrected by the number of all
    /// accesses since the last call, sampled or not; `accesses_total` is their number since the
    /// beginning.
    pub(super) fn feed(&mut self, config: &CurvesConfig, accesses_total: u64) {
        self.lately = self.waiting.accesses() as u64;
        if self.refused {
            self.fed_accesses = accesses_total;
        } else if self.broken.is_empty()
            && (self.curves.is_some() || accesses_total > 0)
            && let Err(error) = self.try_feed(config, accesses_total)
        {
            self.broken = format!("curves: {error}");
        }
        self.waiting.clear();
    }

    fn try_feed(&mut self, config: &CurvesConfig, accesses_total: u64) -> crate::error::Result<()> {
        let seen = accesses_total.saturating_sub(self.fed_accesses);
        self.fed_accesses = accesses_total;
        self.curves_or_new(config)?;
        let Self { waiting, curves, .. } = self;
        curves.as_mut().map_or(Ok(()), |curves| waiting.feed(curves, seen))
    }

    /// Advances the curves by `elapsed`. Returns the threshold that the kernel should use from now
    /// on, or `None` if nothing is learnt.
    pub(super) fn advance(&mut self, elapsed: Duration) -> Option<u64> {
        let curves = self.curves.as_mut().filter(|_| self.broken.is_empty())?;
        if let Err(error) = curves.advance(elapsed) {
            self.broken = format!("curves: {error}");
        }
        Some(curves.threshold())
    }

    /// Sets the threshold that the kernel uses from now on.
    pub(super) fn set_kernel_threshold(&mut self, threshold: u64) {
        let told = self.curves.as_mut().map(|curves| curves.set_kernel_threshold(threshold));
        if let Some(Err(error)) = told {
            self.broken = format!("curves: {error}");
        }
    }

    /// Compares the curves with the counts and losses since the last call, and returns what is
    /// known. If the losses are unknown, `lost` is the reason.
    pub(super) fn judge(
        &mut self,
        having: Having<'_>,
        counts: &Counts,
        lost: Result<Losses, String>,
    ) -> Learnt {
        let before = std::mem::replace(&mut self.judged, counts.clone());
        let events = self.events - std::mem::replace(&mut self.judged_events, self.events);
        let untrusted = |reason: &str| Learnt { distrust: reason.into(), ..Learnt::default() };
        if self.refused {
            return untrusted("no curves: node_memory_mib of [curves] is used up by other tenants");
        }
        let Some(curves) = &mut self.curves else {
            return untrusted("warming up: nothing was sampled yet");
        };
        let accesses = counts.accesses.saturating_sub(before.accesses);
        let (trusted, told) = curves.judge(&Measured {
            policy: having.policy,
            size_bytes: having.cache_bytes,
            accesses,
            misses: pages_read(counts).saturating_sub(pages_read(&before)).min(accesses),
            dropped: lost.as_ref().map_or(0, |lost| lost_events(lost, events, accesses)),
        });
        let distrust = told.to_owned();
        let counterfactuals = match curves.counterfactuals(having.policy, having.cache_bytes) {
            Ok(told) => told,
            Err(error) => {
                self.broken = format!("counterfactuals: {error}");
                None
            }
        };
        let distrust = match (self.broken.as_str(), lost) {
            ("", Ok(_)) => distrust,
            ("", Err(reason)) => reason,
            (broken, _) => broken.to_owned(),
        };
        let trusted = trusted && distrust.is_empty();
        let (curves, phase) = (curves.curves(), curves.phase());
        Learnt { trusted, distrust, curves, counterfactuals, phase }
    }
}

/// The measured pages that a simulated miss stands for: pages that were not cached and had to be
/// read, whether their reader waited for them or readahead had requested them just before. A
/// sequential reader waits for one page of many, but misses all of them in the simulation. The sum
/// includes pages that readahead read in vain, of which the curve does not know. If they exceed its
/// error bar, the curve has low confidence, although it should not.
fn pages_read(counts: &Counts) -> u64 {
    counts.misses + counts.readahead_pages
}

/// The number of events that a tenant lost when `events` of its `accesses` arrived. Pages that the
/// sampler did not look at are assumed to be sampled at the same rate as the others.
fn lost_events(lost: &Losses, events: u64, accesses: u64) -> u64 {
    let looked_at = accesses.saturating_sub(lost.unsampled_pages).max(1);
    let rate = ((events + lost.dropped_events) as f64 / looked_at as f64).min(1.0);
    lost.dropped_events + (lost.unsampled_pages as f64 * rate).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_not_examined_count_as_lost_at_the_sampling_rate() {
        let lost = |dropped_events, unsampled_pages, events, accesses| {
            let lost = Losses { dropped_events, unsampled_pages, ..Losses::default() };
            lost_events(&lost, events, accesses)
        };
        assert_eq!(lost(10, 0, 90, 100_000), 10);
        assert_eq!(lost(10, 50_000, 90, 100_000), 110);
        assert_eq!(lost(0, 500, 500, 1000), 500, "all pages are in the sample");
        assert_eq!(lost(0, 0, 1000, 1000), 0);
    }

    #[test]
    fn pages_of_readahead_had_to_be_read() {
        let counts = Counts { misses: 1, readahead_pages: 31, ..Counts::default() };
        assert_eq!(pages_read(&counts), 32);
    }
}
