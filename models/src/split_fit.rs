// SPDX-License-Identifier: Apache-2.0
//! Robust least squares for the throughput model of a tenant, with the damping of Levenberg and
//! Marquardt. The model is fitted to the logarithm of the time per operation. A fit evaluates a
//! hundred numbers a few dozen times, and the controller makes several fits after every cycle of
//! every node.
//!
//! The parameters are the service time and the accesses per operation themselves, not their
//! logarithms. The time per operation is linear in both, so the valley of the loss along which one
//! trades for the other is straight.

use crate::error::{Error, Result};

const STEPS_MAX: usize = 200;
/// The search ends when a step changes every parameter by less than this share.
const CLOSE: f64 = 1e-6;
/// The search also ends when a step lowers the loss by at most this share.
const LESS: f64 = 1e-8;
const DAMPING: f64 = 1e-3;
const DAMPING_MAX: f64 = 1e9;

/// Service time in microseconds, and accesses per operation.
pub type Pair = [f64; 2];

/// One interval, or the prior belief about the accesses per operation.
#[derive(Debug, Clone, Copy)]
struct Residual {
    /// Coefficients of the service time and of the accesses per operation in the time per
    /// operation.
    of: Pair,
    /// Logarithm of the measured time per operation, and its weight.
    seen: f64,
    weight: f64,
}

/// The fit of one tenant: the measurements of some intervals, and the bounds of the parameters.
#[derive(Debug, Clone)]
pub struct SplitProblem {
    residuals: Vec<Residual>,
    low: Pair,
    high: Pair,
}

/// The loss "`soft_l1`" at a point, its gradient and its curvature.
struct Look {
    loss: f64,
    gradient: Pair,
    /// Curvature in the service time, in both parameters (mixed), and in the accesses.
    curved: [f64; 3],
}

impl SplitProblem {
    /// Creates a problem. `seen`, `waits` and `weights` are, for each interval, the logarithm of
    /// the time per operation, the wait per access, and the weight. `prior` is the prior belief
    /// about the accesses per operation, and the weight of its logarithm.
    ///
    /// # Errors
    /// [`Error::Argument`] when the three lists differ in length, or a lower bound exceeds its
    /// upper bound.
    pub fn new(
        seen: &[f64],
        waits: &[f64],
        weights: &[f64],
        prior: Pair,
        low: Pair,
        high: Pair,
    ) -> Result<Self> {
        let count = seen.len();
        if waits.len() != count || weights.len() != count {
            let message = format!("{} and {} of {count}", waits.len(), weights.len());
            return Err(Error::argument("waits, weights", message));
        }
        if !low.iter().zip(&high).all(|(low, high)| low <= high) {
            return Err(Error::argument("low", format!("{low:?} (allowed: at most {high:?})")));
        }
        // The prior acts like a measured time that consists of accesses alone.
        let prior = Residual { of: [0.0, 1.0], seen: prior[0].ln(), weight: prior[1] };
        let each = seen.iter().zip(waits).zip(weights);
        let seen = each.map(|((seen, wait), weight)| Residual {
            of: [1.0, *wait],
            seen: *seen,
            weight: *weight,
        });
        Ok(Self { residuals: std::iter::once(prior).chain(seen).collect(), low, high })
    }

    /// Evaluates the loss, its gradient and its curvature.
    ///
    /// A residual enters the curvature with the power -2.5 of its root. With the power -1, as in
    /// iteratively reweighted least squares, outliers make the steps too short. With the power -3,
    /// as in Newton's method, some steps are far too long.
    fn look(&self, at: Pair) -> Look {
        let mut found = Look { loss: 0.0, gradient: [0.0; 2], curved: [0.0; 3] };
        for one in &self.residuals {
            let time = at[0] * one.of[0] + at[1] * one.of[1];
            let off = (time.ln() - one.seen) * one.weight;
            let root = (off * off + 1.0).sqrt();
            let by = one.of.map(|of| of * (one.weight / time));
            let (slope, curve) = (off / root, root * root * root.sqrt());
            found.loss += root - 1.0;
            found.gradient[0] += by[0] * slope;
            found.gradient[1] += by[1] * slope;
            found.curved[0] += by[0] / curve * by[0];
            found.curved[1] += by[0] / curve * by[1];
            found.curved[2] += by[1] / curve * by[1];
        }
        found
    }

    fn within(&self, at: Pair) -> Pair {
        [at[0].clamp(self.low[0], self.high[0]), at[1].clamp(self.low[1], self.high[1])]
    }

    /// Returns the next point. A parameter that is at its bound and would move beyond it stays
    /// there.
    fn step(&self, at: Pair, seen: &Look, damping: f64) -> Pair {
        let (mut slope, mut both) = (seen.gradient, seen.curved[1]);
        let mut own = [seen.curved[0], seen.curved[2]].map(|curved| curved * (1.0 + damping));
        for i in 0..2 {
            let is_low = at[i] <= self.low[i] && slope[i] > 0.0;
            if is_low || (at[i] >= self.high[i] && slope[i] < 0.0) {
                (slope[i], own[i], both) = (0.0, 1.0, 0.0);
            }
        }
        let size = own[0] * own[1] - both * both;
        // A singular system gives NaN, which never counts as an improvement.
        let size = if size == 0.0 { f64::NAN } else { size };
        self.within([
            at[0] + (both * slope[1] - own[1] * slope[0]) / size,
            at[1] + (both * slope[0] - own[0] * slope[1]) / size,
        ])
    }

    /// Returns the service time and accesses per operation with the least loss, searching from
    /// `start`.
    ///
    /// If most intervals are outliers, the loss has several minima, and the result is one of them.
    #[must_use]
    pub fn best(&self, start: Pair) -> Pair {
        let (mut at, mut damping) = (self.within(start), DAMPING);
        let mut here = self.look(at);
        for _ in 0..STEPS_MAX {
            let tried = self.step(at, &here, damping);
            let found = self.look(tried);
            let is_close = |i: usize| (tried[i] - at[i]).abs() < CLOSE * tried[i];
            let mut is_done = is_close(0) && is_close(1);
            if found.loss < here.loss {
                is_done = is_done || here.loss - found.loss <= LESS * found.loss;
                (at, here, damping) = (tried, found, damping / 10.0);
            } else {
                damping = (damping * 10.0).min(DAMPING_MAX);
            }
            if is_done || damping >= DAMPING_MAX {
                break;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Pair = [1e-3, 1e-6];
    const HIGH: Pair = [1e12; 2];

    fn problem(service: f64, accesses: f64, believed: f64) -> SplitProblem {
        let misses: Vec<f64> = (1..40).map(|i| 25.0 * f64::from(i)).collect();
        let seen: Vec<f64> = misses.iter().map(|us| (service + accesses * us).ln()).collect();
        SplitProblem::new(&seen, &misses, &[10.0; 39], [believed, 0.5], LOW, HIGH).unwrap()
    }

    #[test]
    fn the_parameters_behind_the_times_are_found() {
        let [service, accesses] = problem(300.0, 2.0, 2.0).best([1.0, 50.0]);
        assert!((service / 300.0 - 1.0).abs() < 1e-4, "{service}");
        assert!((accesses / 2.0 - 1.0).abs() < 1e-4, "{accesses}");
    }

    #[test]
    fn a_parameter_below_its_bound_stays_at_the_bound() {
        let misses: Vec<f64> = (4..40).map(|i| 25.0 * f64::from(i)).collect();
        let seen: Vec<f64> = misses.iter().map(|us| (3.0 * us - 250.0).ln()).collect();
        let one = SplitProblem::new(&seen, &misses, &[10.0; 36], [2.0, 0.5], LOW, HIGH).unwrap();
        assert!(one.best([10.0, 2.0])[0] < 1.0);
    }

    #[test]
    fn values_that_are_no_numbers_end_the_search_where_it_began() {
        let one = SplitProblem::new(&[f64::NAN], &[1.0], &[1.0], [1.0, 0.5], LOW, HIGH).unwrap();
        assert_eq!(one.best([7.0, 3.0]).map(f64::to_bits), [7.0_f64, 3.0].map(f64::to_bits));
    }

    #[test]
    fn bounds_that_are_none_are_refused() {
        for low in [[2.0, f64::NAN], [2.0, 0.0]] {
            let error = SplitProblem::new(&[], &[], &[], [1.0, 0.5], low, [1.0; 2]).unwrap_err();
            assert!(error.to_string().starts_with("low: "), "{error}");
        }
    }

    #[test]
    fn unequal_numbers_are_refused() {
        let error = SplitProblem::new(&[1.0], &[1.0, 2.0], &[1.0], [1.0, 0.5], LOW, HIGH);
        assert!(error.unwrap_err().to_string().starts_with("waits, weights: 2 and 1 of 1"));
    }
}
