// SPDX-License-Identifier: Apache-2.0
//! The curves that were last reported, and when new ones replace them.

use super::drift::Drift;
use super::predict::{changed, publish, smooth, steps};
use crate::wire;
use cachepilot_models::curve::Curve;
use cachepilot_models::minisim::OnlineBank;

/// Curves are computed again when this share of the samples behind them is new.
const NEW_SHARE: f64 = 0.04;

/// The curves of a tenant as of the last change beyond chance.
pub(super) struct Published {
    names: Vec<String>,
    curves: Option<wire::Curves>,
    /// Generation of the last curves.
    generation: u64,
    /// The bank's number of samples when the curves were last computed; `effective` is the number
    /// that counts by weight.
    sampled_at: u64,
    effective: u64,
    /// The bank was replaced since the last computation. `new_phase`: by a bank for a new regime.
    other_bank: bool,
    new_phase: bool,
    drift: Drift,
    /// Drift of the differences between neighbouring points.
    step_drift: Drift,
    /// Accesses of the tenant so far. `noted_at` is their number when drift was last noted.
    accesses: u64,
    noted_at: u64,
}

impl Published {
    /// No curves yet; the first ones have the generation after `generation`.
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

    /// Uses another bank from now on. For a new regime, nothing reported before applies any more.
    pub(super) fn follow_other_bank(&mut self, new_phase: bool) {
        self.other_bank = true;
        self.new_phase |= new_phase;
    }

    /// Counts further accesses of the tenant.
    pub(super) fn pass(&mut self, accesses: u64) {
        self.accesses += accesses;
    }

    pub(super) fn curves(&self) -> Option<&wire::Curves> {
        self.curves.as_ref()
    }

    /// Generation of the present curves, 0 if there are none.
    pub(super) fn generation(&self) -> u64 {
        self.curves.as_ref().map_or(0, |curves| curves.generation)
    }

    /// Generation of the last curves that were reported, or the one passed to [`Self::new`] if
    /// there were none.
    pub(super) fn last_generation(&self) -> u64 {
        self.generation
    }

    /// Sampled accesses behind the curves, by weight.
    pub(super) fn effective(&self) -> u64 {
        self.effective
    }

    /// Computes the curves again if the bank has seen enough since the last time.
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

    /// Widens error bars to at least the recent movement of the curves. The choice of sampled
    /// accesses may cause that movement and is part of the bars already, so the wider of the two is
    /// used and not their sum.
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
