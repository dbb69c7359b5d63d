// SPDX-License-Identifier: Apache-2.0
//! One cell of the bank: one policy at one size.

use crate::error::Result;
use crate::policy::{Instance, InstanceConfig, KERNEL_BATCH, Policy, Requests};

/// Disjoint groups of sampled pages, by the low bits of the hash, whose spread gives error bars.
pub(super) const GROUPS: usize = 16;

/// One miniature cache and its weighted misses per group of pages.
pub(super) struct Cell {
    instance: Instance,
    size_pages: u64,
    misses: [f64; GROUPS],
    hits: Vec<u8>,
}

/// A block of sampled accesses that all weigh the same.
pub(super) struct Block<'a> {
    pub(super) requests: Requests<'a>,
    pub(super) groups: &'a [u8],
    pub(super) weight: f64,
}

impl Cell {
    pub(super) fn new(
        policy: &'static Policy,
        size_pages: u64,
        rate: f64,
        seed: u64,
    ) -> Result<Self> {
        let config = InstanceConfig {
            capacity_pages: scaled_capacity(size_pages, rate),
            batch: scaled_batch(rate),
            seed,
            tunables: scaled_tunables(policy, rate),
        };
        let instance = Instance::new(policy, &config)?;
        Ok(Self { instance, size_pages, misses: [0.0; GROUPS], hits: Vec::new() })
    }

    pub(super) fn run(&mut self, block: &Block<'_>) -> Result<()> {
        self.hits.resize(block.groups.len(), 0);
        self.instance.run(block.requests, Some(&mut self.hits))?;
        let mut misses = [0u32; GROUPS];
        for (&hit, &group) in self.hits.iter().zip(block.groups) {
            misses[group as usize % GROUPS] += u32::from(1 - hit);
        }
        for (sum, count) in self.misses.iter_mut().zip(misses) {
            *sum += f64::from(count) * block.weight;
        }
        Ok(())
    }

    pub(super) fn scale(&mut self, factor: f64) {
        self.misses.iter_mut().for_each(|m| *m *= factor);
    }

    /// The pages that left the sample are gone, and the cache shrinks with the rate.
    pub(super) fn lower_rate(&mut self, dropped: &[u64], rate: f64) -> Result<()> {
        dropped.iter().for_each(|&key| self.instance.forget(key));
        self.instance.set_tunables(&scaled_tunables(self.instance.policy(), rate))?;
        let capacity = scaled_capacity(self.size_pages, rate);
        self.instance.resize(capacity, scaled_batch(rate))
    }

    /// Miss ratio and its standard error, given the accesses expected in the sample and those seen.
    ///
    /// As in SHARDS-adj the expected number of sampled accesses is the denominator, which takes
    /// the surplus or shortage of the sample, a matter of a few hot pages, as hits. The groups are
    /// disjoint sub-samples, so that the variance of their sum is K / (K - 1) times their sum of
    /// squared deviations. They share one cache, so this misses what the sample as a whole has too
    /// much of; half the correction that was made stands for that.
    pub(super) fn estimate(&self, expected: f64, seen: f64) -> (f64, f64) {
        let total: f64 = self.misses.iter().sum();
        let mean = total / GROUPS as f64;
        let squares: f64 = self.misses.iter().map(|m| (m - mean).powi(2)).sum();
        let variance = squares * GROUPS as f64 / (GROUPS - 1) as f64 / expected.powi(2);
        let correction = (total / expected - total / seen) / 2.0;
        ((total / expected).clamp(0.0, 1.0), (variance + correction.powi(2)).sqrt())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.instance.stats().bytes + self.hits.capacity() as u64
    }
}

/// Pages of the miniature cache: at least 1.
fn scaled_capacity(size_pages: u64, rate: f64) -> u64 {
    ((size_pages as f64 * rate).round() as u64).max(1)
}

fn scaled_batch(rate: f64) -> u32 {
    ((f64::from(KERNEL_BATCH) * rate).round() as u32).clamp(1, KERNEL_BATCH)
}

/// Tunables in pages shrink with the cache; those in pages per request with the batch.
fn scaled_tunables(policy: &Policy, rate: f64) -> Vec<u32> {
    let batch_share = f64::from(scaled_batch(rate)) / f64::from(KERNEL_BATCH);
    let scale = |unit: &str| match unit {
        "pages" => rate,
        "pages_per_request" => batch_share,
        _ => 1.0,
    };
    let tunables = policy.manifest.tunables.iter();
    tunables
        .flat_map(|t| {
            let value = (f64::from(t.default) * scale(&t.unit)).round() as u32;
            vec![value.clamp(t.min, t.max); t.length as usize]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_shrink_with_the_cache_but_never_to_nothing() {
        assert_eq!((scaled_capacity(1000, 0.01), scaled_capacity(10, 0.01)), (10, 1));
        assert_eq!((scaled_batch(1.0), scaled_batch(0.5), scaled_batch(0.001)), (32, 16, 1));
    }
}
