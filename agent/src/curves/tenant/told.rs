// SPDX-License-Identifier: Apache-2.0
//! What is told of a tenant: curves, counterfactuals, and whether they may be acted on.

use super::TenantCurves;
use crate::curves::measured::Measured;
use crate::curves::predict::predict;
use crate::curves::trust::Window;
use crate::error::Result;
use crate::wire;

impl TenantCurves {
    /// The curves as they are now; `None` before anything was sampled. Cheap when there is little
    /// new; `generation` changes when the curves did.
    pub fn curves(&mut self) -> Option<wire::Curves> {
        self.published.refresh(&mut self.bank);
        self.published.curves().cloned()
    }

    /// What every candidate would have missed so far in a page cache of `size_bytes` under the policy
    /// `in_force`, as on the wire.
    ///
    /// # Errors
    /// What the simulation says.
    pub fn counterfactuals(
        &mut self,
        in_force: &str,
        size_bytes: u64,
    ) -> Result<Option<wire::Counterfactuals>> {
        self.counterfactuals.tell(in_force, size_bytes)
    }

    /// How often reuse distances changed so far: rises when a new phase begins.
    #[must_use]
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Generation of the last curves, 0 when there are none.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.published.generation()
    }

    /// Compares the curves with what was measured since the last call: whether they may be acted
    /// on, and why not.
    pub fn judge(&mut self, measured: &Measured<'_>) -> (bool, &str) {
        self.published.refresh(&mut self.bank);
        let curves = self.published.curves();
        let pages = measured.size_bytes as f64 / crate::curves::PAGE_BYTES as f64;
        let predicted = curves.and_then(|c| predict(c, measured.policy, measured.size_bytes));
        let seen = self.bank.pages_seen();
        let suffices = self.early.suffices(measured, seen, predicted.map(|(ratio, _)| ratio));
        self.trust.update(&Window {
            accesses: measured.accesses,
            misses: measured.misses,
            predicted,
            samples: self.published.effective(),
            turned_over: !self.new_phase && (self.bank.learnt() || seen >= pages || suffices),
            events: std::mem::take(&mut self.judged_events),
            dropped: measured.dropped,
        });
        (self.trust.trusted(), self.trust.distrust())
    }
}
