// SPDX-License-Identifier: Apache-2.0
//! Robust least squares for the throughput model of a tenant: of the logarithm of the time per
//! operation, with the damping of Levenberg and Marquardt. A fit takes dozens of looks at a hundred
//! numbers, and the controller makes some after every cycle of every node.
//!
//! Service time and accesses per operation themselves are fitted, of which that time is linear: so
//! the valley that one is traded for the other in is straight.

use crate::error::{Error, Result};

const STEPS_MAX: usize = 200;
/// A step of no more than that part of what it changes is not worth another.
const CLOSE: f64 = 1e-6;
/// Nor is one that lowers the loss by no more than that part of it.
const LESS: f64 = 1e-8;
const DAMPING: f64 = 1e-3;
const DAMPING_MAX: f64 = 1e9;

/// Service time, microseconds, and accesses per operation.
pub type Pair = [f64; 2];

/// One interval, or what is believed of accesses alone.
#[derive(Debug, Clone, Copy)]
struct Residual {
    /// What service and accesses count for in the time.
    of: Pair,
    /// The logarithm of the time that was seen, and what it weighs.
    seen: f64,
    weight: f64,
}

/// One tenant: what was seen in some intervals, and between which bounds the answer is.
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
    /// Of service, of both, and of accesses.
    curved: [f64; 3],
}

impl SplitProblem {
    /// Of each interval the logarithm of the time per operation, the wait per access, and a weight
    /// are given; `prior` are accesses per operation as believed, and what their logarithm weighs.
    ///
    /// # Errors
    /// When not as many are given of all three, or a bound is none.
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
        // As if a time of accesses alone was seen.
        let prior = Residual { of: [0.0, 1.0], seen: prior[0].ln(), weight: prior[1] };
        let each = seen.iter().zip(waits).zip(weights);
        let seen = each.map(|((seen, wait), weight)| Residual {
            of: [1.0, *wait],
            seen: *seen,
            weight: *weight,
        });
        Ok(Self { residuals: std::iter::once(prior).chain(seen).collect(), low, high })
    }

    /// A residual counts in the curvature by the power -2.5 of its root: by the power -1, as in
    /// least squares that are weighed again at each step, outliers make for short steps, and by
    /// the power -3, as in Newton's method, for some that are far too long.
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

    /// The next point; what is at its bound and would go beyond it stays there.
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
        // What is no number is no better.
        let size = if size == 0.0 { f64::NAN } else { size };
        self.within([
            at[0] + (both * slope[1] - own[1] * slope[0]) / size,
            at[1] + (both * slope[0] - own[0] * slope[1]) / size,
        ])
    }

    /// Service time and accesses per operation of the least loss, sought from `start` on.
    ///
    /// Where most intervals are outliers the loss has several minima; then it is one of them.
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
    fn what_made_the_times_is_found() {
        let [service, accesses] = problem(300.0, 2.0, 2.0).best([1.0, 50.0]);
        assert!((service / 300.0 - 1.0).abs() < 1e-4, "{service}");
        assert!((accesses / 2.0 - 1.0).abs() < 1e-4, "{accesses}");
    }

    #[test]
    fn what_would_be_below_its_bound_stays_there() {
        let misses: Vec<f64> = (4..40).map(|i| 25.0 * f64::from(i)).collect();
        let seen: Vec<f64> = misses.iter().map(|us| (3.0 * us - 250.0).ln()).collect();
        let one = SplitProblem::new(&seen, &misses, &[10.0; 36], [2.0, 0.5], LOW, HIGH).unwrap();
        assert!(one.best([10.0, 2.0])[0] < 1.0);
    }

    #[test]
    fn what_is_no_number_ends_the_search_where_it_began() {
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
