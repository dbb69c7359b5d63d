// SPDX-License-Identifier: Apache-2.0
//! Whether curves may be acted on: they must predict what is measured.

/// Half-width of a 95% interval in standard errors.
const Z_95: f64 = 1.96;

/// The limits within which curves have confidence.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustLimits {
    /// Error in miss ratio that a prediction may have beyond its error bar, for effects that the
    /// simulation leaves out.
    pub tolerance: f64,
    /// Consecutive windows that must disagree before trust is lost. A window is one interval, and a
    /// curve is the mean over a half-life, so they disagree for that long after a change of regime.
    pub windows_to_lose: u32,
    /// Consecutive windows that must agree before trust returns.
    pub windows_to_gain: u32,
    /// The least number of sampled accesses behind curves.
    pub min_samples: u64,
    /// The greatest share of events that may be dropped.
    pub dropped_share: f64,
    /// The least number of accesses in a window that is compared.
    pub min_accesses: u64,
}

impl Default for TrustLimits {
    fn default() -> Self {
        Self {
            tolerance: 0.05,
            windows_to_lose: 5,
            windows_to_gain: 3,
            min_samples: 48,
            dropped_share: 0.02,
            min_accesses: 100,
        }
    }
}

/// The counts of a tenant in one window, and the prediction of its curves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// All accesses that the kernel counted.
    pub accesses: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// Predicted miss ratio at the present policy and size, and its error bar; `None` if the size
    /// is outside the grid or the policy is not simulated.
    pub predicted: Option<(f64, f64)>,
    /// Sampled accesses behind the curves.
    pub samples: u64,
    /// Whether the working set was seen, or as many pages as fit into the cache.
    pub turned_over: bool,
    /// Sampled events of the window that arrived.
    pub events: u64,
    /// Sampled events of the window that were dropped.
    pub dropped: u64,
}

/// Trust in the curves of one tenant.
#[derive(Debug, Clone)]
pub struct Trust {
    limits: TrustLimits,
    /// Consecutive windows that contradict the present state.
    contrary: u32,
    mismatch: Option<String>,
    distrust: String,
}

impl Trust {
    /// A new value, without trust, as nothing was sampled.
    #[must_use]
    pub fn new(limits: TrustLimits) -> Self {
        let distrust = "warming up: nothing was sampled yet".into();
        Self { limits, contrary: 0, mismatch: None, distrust }
    }

    /// Whether the curves may be acted on.
    #[must_use]
    pub fn trusted(&self) -> bool {
        self.distrust.is_empty()
    }

    /// The reason why not, one line; empty if they may.
    #[must_use]
    pub fn distrust(&self) -> &str {
        &self.distrust
    }

    /// Takes the next window into account. Missing data removes trust at once. Disagreement with
    /// the measurement removes it only after several windows, and trust returns only after several
    /// windows of agreement.
    pub fn update(&mut self, window: &Window) {
        if let Some(missing) = self.missing(window) {
            self.distrust = missing;
            return;
        }
        if window.accesses >= self.limits.min_accesses {
            self.compare(window);
        }
        self.distrust = self.mismatch.clone().unwrap_or_default();
    }

    fn missing(&self, window: &Window) -> Option<String> {
        let limits = &self.limits;
        let sent = window.events + window.dropped;
        let dropped = window.dropped as f64 / sent.max(1) as f64;
        if window.samples < limits.min_samples {
            let (have, need) = (window.samples, limits.min_samples);
            return Some(format!("warming up: {have} sampled accesses of {need}"));
        }
        if !window.turned_over {
            return Some("warming up: the working set was not yet seen once".into());
        }
        if dropped > limits.dropped_share {
            let percent = dropped * 100.0;
            return Some(format!("{percent:.1}% of the sampled events were dropped"));
        }
        match window.predicted {
            None => Some("the present policy or size is not on the curves".into()),
            Some(_) => None,
        }
    }

    fn compare(&mut self, window: &Window) {
        let Some((predicted, error_bar)) = window.predicted else { return };
        let measured = window.misses as f64 / window.accesses as f64;
        let chance = Z_95 * (measured * (1.0 - measured) / window.accesses as f64).max(0.0).sqrt();
        let allowed = error_bar + self.limits.tolerance + chance;
        let disagrees = (measured - predicted).abs() > allowed;
        if disagrees == self.mismatch.is_some() {
            self.contrary = 0;
        } else {
            self.contrary += 1;
        }
        let text = || {
            format!(
                "predicts a miss ratio of {predicted:.3} +- {allowed:.3}, measured {measured:.3}"
            )
        };
        match &self.mismatch {
            None if self.contrary >= self.limits.windows_to_lose => self.mismatch = Some(text()),
            Some(_) if self.contrary >= self.limits.windows_to_gain => self.mismatch = None,
            Some(_) if disagrees => self.mismatch = Some(text()),
            _ => return,
        }
        self.contrary = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(measured: f64) -> Window {
        Window {
            accesses: 10_000,
            misses: (measured * 10_000.0) as u64,
            predicted: Some((0.3, 0.02)),
            samples: 500,
            turned_over: true,
            events: 1000,
            dropped: 0,
        }
    }

    fn after(trust: &mut Trust, measured: &[f64]) -> bool {
        measured.iter().for_each(|&m| trust.update(&window(m)));
        trust.trusted()
    }

    #[test]
    fn disagreement_must_last_and_so_must_its_end() {
        let mut trust = Trust::new(TrustLimits::default());
        assert!(!trust.trusted());
        assert!(after(&mut trust, &[0.3]));
        assert!(after(&mut trust, &[0.9, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9]));
        assert!(!after(&mut trust, &[0.9]));
        let reason = trust.distrust().to_owned();
        assert!(reason.starts_with("predicts a miss ratio of 0.300 +- 0.0"), "{reason}");
        assert!(reason.ends_with("measured 0.900") && !reason.contains('\n'));
        assert!(!after(&mut trust, &[0.3, 0.3, 0.9, 0.3, 0.3]));
        assert!(after(&mut trust, &[0.31]));
    }

    #[test]
    fn a_measurement_within_bar_and_tolerance_agrees() {
        let mut trust = Trust::new(TrustLimits::default());
        assert!(after(&mut trust, &[0.365; 20]));
        assert!(!after(&mut trust, &[0.385; 20]));
    }

    #[test]
    fn missing_data_count_at_once_and_are_named() {
        let good = window(0.3);
        let cases = [
            (Window { samples: 5, ..good }, "warming up: 5 sampled"),
            (Window { turned_over: false, ..good }, "warming up: the working set"),
            (Window { dropped: 111, ..good }, "10.0% of the sampled events"),
            (Window { predicted: None, ..good }, "the present policy or size"),
        ];
        for (bad, reason) in cases {
            let mut trust = Trust::new(TrustLimits::default());
            trust.update(&good);
            trust.update(&bad);
            assert!(trust.distrust().starts_with(reason), "{}", trust.distrust());
            trust.update(&good);
            assert!(trust.trusted());
        }
    }

    #[test]
    fn an_idle_window_changes_nothing() {
        let mut trust = Trust::new(TrustLimits::default());
        let idle = Window { accesses: 3, misses: 3, ..window(0.3) };
        (0..20).for_each(|_| trust.update(&idle));
        assert!(trust.trusted());
        assert!(!after(&mut trust, &[0.9; 5]));
        (0..20).for_each(|_| trust.update(&idle));
        assert!(!trust.trusted());
    }
}
