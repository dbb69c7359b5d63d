// SPDX-License-Identifier: Apache-2.0
//! Exponential decay of the weight of accesses in a stream.

use crate::error::{Error, Result};

/// Weights are renormalised above this value, long before a sum of them could overflow.
const MAX_WEIGHT: f64 = 1e150;
/// The weight is constant over a step of this fraction of a half-life, during which it would change
/// by 1.1%.
const STEPS_PER_HALF_LIFE: u64 = 64;

/// Gives each access a weight such that an access one half-life older weighs half as much.
///
/// Decaying every count at every access would take O(counts) time. Here the weight of *new*
/// accesses grows instead (forward decay: Cormode, Shkapenyuk, Srivastava, Xu, ICDE '09). When the
/// weight becomes large, once in about 500 half-lives, everything is scaled down together.
#[derive(Debug, Clone)]
pub struct Ageing {
    half_life: Option<u64>,
    weight: f64,
    total: f64,
    accesses: u64,
}

impl Ageing {
    /// Creates a decay with a half-life in accesses. With `None`, all accesses weigh the same.
    ///
    /// # Errors
    /// [`Error::Argument`] when the half-life is 0.
    pub fn new(half_life: Option<u64>) -> Result<Self> {
        if half_life == Some(0) {
            return Err(Error::argument("half_life", "0 accesses is outside 1.."));
        }
        Ok(Self { half_life, weight: 1.0, total: 0.0, accesses: 0 })
    }

    /// Changes the half-life from now on. The relative weights of past accesses stay as they are.
    ///
    /// # Errors
    /// [`Error::Argument`] when the half-life is 0.
    pub fn set_half_life(&mut self, half_life: Option<u64>) -> Result<()> {
        let checked = Self::new(half_life)?;
        self.half_life = checked.half_life;
        Ok(())
    }

    /// Discards the weights of all accesses so far, but not their number.
    pub fn restart(&mut self) {
        self.weight = 1.0;
        self.total = 0.0;
    }

    /// Returns the sum of the weights in units of the newest access, which is the effective number
    /// of accesses in a mean.
    #[must_use]
    pub fn effective_accesses(&self) -> f64 {
        self.total / self.weight
    }

    /// Returns the largest number of accesses that may be passed to [`Self::advance`] at once, at
    /// least 1.
    #[must_use]
    pub fn max_step(&self) -> usize {
        self.half_life.map_or(usize::MAX, |h| (h / STEPS_PER_HALF_LIFE).max(1) as usize)
    }

    /// Returns the weight of the newest accesses.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Counts the next `accesses` and returns the weight of each of them. Without a half-life the
    /// weight is exactly 1.
    #[inline]
    pub fn advance(&mut self, accesses: usize) -> f64 {
        let weight = self.weight;
        self.accesses += accesses as u64;
        self.total += weight * accesses as f64;
        if let Some(half_life) = self.half_life {
            self.weight *= (accesses as f64 / half_life as f64).exp2();
        }
        weight
    }

    /// Returns, if the weight has become large, the factor by which the caller must multiply every
    /// sum of weights before the next [`Self::advance`].
    #[inline]
    #[must_use]
    pub fn renormalise(&mut self) -> Option<f64> {
        if self.weight < MAX_WEIGHT {
            return None;
        }
        let factor = self.weight.recip();
        self.total *= factor;
        self.weight = 1.0;
        Some(factor)
    }

    /// Returns the sum of the weights of all accesses so far.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Returns the unweighted number of accesses so far.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_life_halves() {
        let mut ageing = Ageing::new(Some(640)).unwrap();
        let first = ageing.advance(10);
        for _ in 1..64 {
            ageing.advance(10);
        }
        assert!((ageing.advance(10) / first - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_new_half_life_leaves_the_past_as_it_is() {
        let mut ageing = Ageing::new(Some(100)).unwrap();
        for _ in 0..10 {
            ageing.advance(10);
        }
        ageing.set_half_life(Some(10)).unwrap();
        assert!(ageing.set_half_life(Some(0)).is_err());
        let before = ageing.advance(10);
        assert!((before - 2.0).abs() < 1e-12);
        assert!((ageing.advance(10) / before - 2.0).abs() < 1e-12);
    }

    #[test]
    fn renormalising_keeps_shares() {
        let mut ageing = Ageing::new(Some(1)).unwrap();
        let mut sum = 0.0;
        for _ in 0..5000 {
            sum += ageing.advance(1);
            if let Some(factor) = ageing.renormalise() {
                sum *= factor;
            }
        }
        assert!((sum / ageing.total() - 1.0).abs() < 1e-12);
        let share = ageing.advance(1) / ageing.total();
        assert!((share - 0.5).abs() < 1e-9, "{share}");
    }

    #[test]
    fn without_a_half_life_every_access_weighs_1() {
        let mut ageing = Ageing::new(None).unwrap();
        assert_eq!(ageing.advance(7), 1.0);
        assert_eq!(ageing.advance(1), 1.0);
        assert_eq!((ageing.total(), ageing.accesses()), (8.0, 8));
        assert!(Ageing::new(Some(0)).is_err());
    }
}
