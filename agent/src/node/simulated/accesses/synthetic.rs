// SPDX-License-Identifier: Apache-2.0
//! Accesses that follow a probability law instead of a recording.

use super::{AccessSource, Accesses};
use crate::error::Result;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::Distribution;

fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Independent draws; page `offset + k - 1` has a probability in proportion to `1 / k^alpha`.
pub(super) struct Zipf {
    law: rand_distr::Zipf<f64>,
    offset: u64,
    random: Xoshiro256PlusPlus,
}

impl Zipf {
    pub(super) fn new(alpha: f64, pages: u64, offset: u64, seed: u64) -> Result<Self> {
        let refused = |e: rand_distr::ZipfError| {
            cachepilot_models::Error::argument("alpha", format!("{alpha} over {pages} pages: {e}"))
        };
        let law = rand_distr::Zipf::new(pages as f64, alpha).map_err(refused)?;
        Ok(Self { law, offset, random: random(seed) })
    }
}

impl AccessSource for Zipf {
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool> {
        for _ in 0..count {
            let rank = self.law.sample(&mut self.random) as u64;
            out.push(self.offset.wrapping_add(rank - 1), 0);
        }
        Ok(false)
    }
}

/// Independent draws with equal probabilities.
pub(super) struct Uniform {
    pages: u64,
    offset: u64,
    random: Xoshiro256PlusPlus,
}

impl Uniform {
    pub(super) fn new(pages: u64, offset: u64, seed: u64) -> Self {
        Self { pages, offset, random: random(seed) }
    }
}

impl AccessSource for Uniform {
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool> {
        for _ in 0..count {
            let page = self.random.random_range(0..self.pages);
            out.push(self.offset.wrapping_add(page), 0);
        }
        Ok(false)
    }
}

/// One page after another; a pass ends with the last page.
pub(super) struct Loop {
    pages: u64,
    offset: u64,
    at: u64,
}

impl Loop {
    pub(super) fn new(pages: u64, offset: u64) -> Self {
        Self { pages, offset, at: 0 }
    }
}

impl AccessSource for Loop {
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool> {
        let end = self.pages.min(self.at + count as u64);
        for page in self.at..end {
            out.push(self.offset.wrapping_add(page), 0);
        }
        let ended = end == self.pages;
        self.at = if ended { 0 } else { end };
        Ok(ended)
    }
}

/// Each access is from the first source with probability `share`, otherwise from the second.
pub(super) struct Mix {
    share: f64,
    sources: [Box<dyn AccessSource>; 2],
    random: Xoshiro256PlusPlus,
    one: Accesses,
}

impl Mix {
    pub(super) fn new(
        share: f64,
        first: Box<dyn AccessSource>,
        second: Box<dyn AccessSource>,
        seed: u64,
    ) -> Self {
        Self { share, sources: [first, second], random: random(seed), one: Accesses::default() }
    }
}

impl AccessSource for Mix {
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool> {
        for _ in 0..count {
            let first = self.random.random::<f64>() < self.share;
            self.one.clear();
            // A source has at least one access in every pass.
            self.sources[usize::from(!first)].fill(1, &mut self.one)?;
            out.keys.append(&mut self.one.keys);
            out.tasks.append(&mut self.one.tasks);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(source: &mut dyn AccessSource, count: usize) -> Vec<u64> {
        let mut out = Accesses::default();
        while out.len() < count {
            source.fill(count - out.len(), &mut out).unwrap();
        }
        assert_eq!(out.tasks.len(), count);
        out.keys
    }

    #[test]
    fn zipf_follows_its_law() {
        for alpha in [0.6, 1.0, 1.2] {
            let drawn = keys(&mut Zipf::new(alpha, 1_000, 5, 1).unwrap(), 400_000);
            let total: f64 = (1..=1_000).map(|k| f64::from(k).powf(-alpha)).sum();
            for rank in [1_u64, 2, 10, 100] {
                let seen = drawn.iter().filter(|&&k| k == 5 + rank - 1).count() as f64;
                let expected = 400_000.0 * (rank as f64).powf(-alpha) / total;
                let sigma = expected.sqrt();
                assert!((seen - expected).abs() < 5.0 * sigma, "{alpha} {rank}: {seen} {expected}");
            }
            assert!(drawn.iter().all(|k| (5..1_005).contains(k)));
        }
    }

    #[test]
    fn a_seed_decides_everything() {
        let draw = |seed| keys(&mut Zipf::new(0.9, 1_000, 0, seed).unwrap(), 100);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let draw = |seed| keys(&mut Uniform::new(1_000, 0, seed), 100);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_loop_ends_with_its_last_page() {
        let mut source = Loop::new(3, 10);
        let mut out = Accesses::default();
        assert!(!source.fill(2, &mut out).unwrap());
        assert!(source.fill(2, &mut out).unwrap());
        assert!(!source.fill(1, &mut out).unwrap());
        assert_eq!(out.keys, [10, 11, 12, 10]);
    }

    #[test]
    fn a_mix_keeps_its_share_and_the_order_of_each() {
        let (first, second) = (Loop::new(1_000_000, 0), Loop::new(1_000_000, 1 << 32));
        let mut mix = Mix::new(0.25, Box::new(first), Box::new(second), 3);
        let (low, high): (Vec<u64>, Vec<u64>) =
            keys(&mut mix, 100_000).into_iter().partition(|&k| k < 1 << 32);
        assert!((24_000..26_000).contains(&low.len()), "{}", low.len());
        assert!(low.is_sorted() && high.is_sorted());
    }
}
