// SPDX-License-Identifier: Apache-2.0
//! Draws ranks whose probability is proportional to rank^-alpha, in constant time and memory, by
//! rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996).

use super::random::Random;

/// The distribution over ranks 1 to `ranks`.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    alpha: f64,
    ranks: u64,
    /// The integral of x^-alpha at 3/2, minus the weight of rank 1.
    from: f64,
    /// The integral at `ranks` + 1/2.
    to: f64,
    /// A rank that exceeds the drawn value by at most this is accepted without further computation.
    accepted: f64,
}

/// Returns (e^x - 1) / x, accurate near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// Returns ln(1 + x) / x, accurate near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

impl Zipf {
    /// Creates a distribution. `ranks` is 1 or more, and `alpha` is not negative. An `alpha` of 0
    /// makes all ranks equally likely.
    pub(super) fn new(ranks: u64, alpha: f64) -> Self {
        let mut zipf = Self { alpha, ranks, from: 0.0, to: 0.0, accepted: 0.0 };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(ranks as f64 + 0.5);
        zipf.accepted = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    /// Returns the integral of x^-alpha from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        exp_m1_over((1.0 - self.alpha) * ln) * ln
    }

    /// Returns the inverse of [`Self::integral`].
    fn inverse(&self, y: f64) -> f64 {
        // Rounding may make the product smaller than the least value that the integral has.
        let t = (y * (1.0 - self.alpha)).max(-1.0);
        (ln_1p_over(t) * y).exp()
    }

    /// Draws a rank from 1 to `ranks`.
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let y = self.to + random.unit() * (self.from - self.to);
            let x = self.inverse(y);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks as f64);
            let close = rank - x <= self.accepted;
            if close || y >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_probabilities_of_the_definition() {
        const DRAWS: u32 = 200_000;
        for (ranks, alpha) in
            [(1u32, 1.0), (2, 3.0), (10, 0.0), (10, 0.6), (20, 1.0), (20, 1.0001), (50, 1.5)]
        {
            let weights: Vec<f64> = (1..=ranks).map(|rank| f64::from(rank).powf(-alpha)).collect();
            let sum: f64 = weights.iter().sum();
            let (zipf, mut random) = (Zipf::new(ranks.into(), alpha), Random::new(11));
            let mut seen = vec![0u32; ranks as usize];
            for _ in 0..DRAWS {
                seen[zipf.draw(&mut random) as usize - 1] += 1;
            }
            for (seen, weight) in seen.iter().zip(weights) {
                let expected = weight / sum * f64::from(DRAWS);
                let deviation = (f64::from(*seen) - expected).abs();
                assert!(deviation <= 5.0 * expected.sqrt(), "{ranks} {alpha}: {seen}, {expected}");
            }
        }
    }

    #[test]
    fn the_greatest_numbers_of_ranks_stay_in_range() {
        let mut random = Random::new(5);
        for alpha in [0.0, 0.5, 1.0, 2.0, 10.0] {
            let zipf = Zipf::new(super::super::MAX_PAGES, alpha);
            for _ in 0..10_000 {
                assert!((1..=super::super::MAX_PAGES).contains(&zipf.draw(&mut random)));
            }
        }
    }
}
