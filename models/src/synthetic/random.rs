// SPDX-License-Identifier: Apache-2.0
//! Seeded random numbers.

use crate::hash::page_hash;

/// Increment of the state: the odd number nearest to 2^64 over the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA '14).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Hashing separates neighbouring seeds. Otherwise one stream could be another one shifted
        // by a request.
        Self(page_hash(seed))
    }

    /// Returns 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        let bits = page_hash(self.0);
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        bits
    }

    /// Returns a number from 0 to 1, excluding 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer below `end`, which must be 1 or more. The deviation from uniform is `end`
    /// / 2^64.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_reach_its_ends() {
        let mut random = Random::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..50_000 {
            seen[random.below(5) as usize] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn neighbouring_seeds_share_nothing() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.bits()).collect::<std::collections::HashSet<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert!(numbers(1).is_disjoint(&numbers(2)));
    }
}
