// SPDX-License-Identifier: Apache-2.0
//! The curves that were last told, and when there are others to tell.

use super::drift::Drift;
use super::predict::{changed, publish, smooth, steps};
use crate::wire;
use cachepilot_models::curve::Curve;
use cachepilot_models::minisim::OnlineBank;

/// Curves are computed again when so large a share of the samples behind them is.
const NEW_SHARE: f64 = 0.04;

/// What the curves of a tenant were when they last changed by more than chance.
pub(super) struct Published {
    names: Vec<String>,
    curves: Option<wire::Curves>,
    /// Of the last curves.
    generation: u64,
    /// Samples of the bank when they were last computed, and how many count in them.
    sampled_at: u64,
    effective: u64,
    /// The bank is another one than before, of the same phase or of a new one.
    other_bank: bool,
    new_phase: bool,
    drift: Drift,
    /// Of the differences between neighbours.
    step_drift: Drift,
    /// Accesses of the tenant so far, and when its curves were last noted there.
    accesses: u64,
    noted_at: u64,
}

impl Published {
    /// Nothing yet; the first curves are of the generation after `generation`.
    pub(super) fn new(names: Vec<String>, generation: u64) -> Self {
        Self {
            names,
            curves: None,
            generation,
            sampled_at: 0,
            effective: 0,
            other_bank: true,
            new_phase: true,
            drift: Drift::default(),
            step_drift: Drift::default(),
            accesses: 0,
            noted_at: 0,
        }
    }

    /// From now on another bank is asked. Of a new phase everything told before is void.
    pub(super) fn follow_other_bank(&mut self, new_phase: bool) {
        self.other_bank = true;
        self.new_phase |= new_phase;
    }

    /// The tenant made so many accesses more.
    pub(super) fn pass(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    pub(super) fn curves(&self) -> Option<&wire::Curves> {
        self.curves.as_ref()
    }

    /// Of the curves, 0 when there are none.
    pub(super) fn generation(&self) -> u64 {
        self.curves.as_ref().map_or(0, |curves| curves.generation)
    }

    /// Of the last curves that there were.
    pub(super) fn last_generation(&self) -> u64 {
        self.generation
    }

    /// Sampled accesses behind the curves, by weight.
    pub(super) fn effective(&self) -> u64 {
        self.effective
    }

    /// Asks the bank again when it has seen enough since.
    pub(super) fn refresh(&mut self, bank: &mut OnlineBank) {
        let new = bank.sampled().1.saturating_sub(self.sampled_at);
        let few = new as f64 <= NEW_SHARE * self.effective.max(1) as f64;
        if self.curves.is_none() || self.other_bank || !few {
            self.recompute(bank);
        }
    }

    fn recompute(&mut self, bank: &mut OnlineBank) {
        let Ok(curves) = bank.curves() else { return };
        self.sampled_at = bank.sampled().1;
        self.other_bank = false;
        self.effective = curves.first().map_or(0, |curve: &Curve| curve.sampled);
        let mut new = publish(&self.names, &curves);
        self.widen(&mut new, bank.half_life());
        let new_phase = std::mem::take(&mut self.new_phase);
        match &self.curves {
            Some(old) if !changed(old, &new) => return,
            Some(old) if !new_phase => smooth(old, &mut new),
            _ => {}
        }
        self.generation += 1;
        new.generation = self.generation;
        new.rate = bank.rate();
        new.sampled = (self.effective as f64 * bank.rate() / bank.small_rate()) as u64;
        self.curves = Some(new);
    }

    /// Bars are at least as wide as the curves lately moved. What moves them may be the choice of
    /// accesses, which the bars hold already: the wider of the two.
    fn widen(&mut self, new: &mut wire::Curves, half_life: u64) {
        if self.accesses - self.noted_at >= half_life {
            self.drift.note(&new.miss_ratio);
            self.step_drift.note(&steps(new));
            self.noted_at = self.accesses;
        }
        for (point, bar) in new.error_bar.iter_mut().enumerate() {
            *bar = bar.max(self.drift.bar(point)).min(1.0);
        }
        for (point, bar) in new.step_bar.iter_mut().enumerate() {
            *bar = bar.max(self.step_drift.bar(point)).min(1.0);
        }
    }
}
