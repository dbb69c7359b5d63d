// SPDX-License-Identifier: Apache-2.0
//! One cell of the bank: one policy at one size.

use crate::count_correction::CountCorrection;
use crate::error::Result;
use crate::policy::{
    Candidate, Instance, InstanceConfig, KERNEL_BATCH, Manifest, Policy, Requests, Stats, Tunable,
};
use std::cell::RefCell;

/// Number of disjoint groups of sampled pages, chosen by the low bits of the hash. The spread
/// between the groups gives the error bars.
pub(super) const GROUPS: usize = 16;

/// Upper bound on the part of a policy's state that does not depend on the capacity. State beyond
/// it is a table with an entry per page, such as the sketch of `wtinylfu`.
const FIXED_STATE_BYTES: u64 = 16 << 10;

/// One miniature cache and its weighted misses per group of pages.
pub(super) struct Cell {
    instance: Instance,
    /// Tunables of the full-size cache, before they are scaled by the rate.
    tunables: Vec<u32>,
    size_pages: u64,
    misses: [f64; GROUPS],
}

thread_local! {
    /// One byte per access of a block. All cells that a thread runs share this buffer.
    static HITS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A block of sampled accesses that all have the same weight.
pub(super) struct Block<'a> {
    pub(super) requests: Requests<'a>,
    pub(super) groups: &'a [u8],
    pub(super) weight: f64,
}

impl Cell {
    pub(super) fn new(
        candidate: &Candidate,
        size_pages: u64,
        rate: f64,
        seed: u64,
    ) -> Result<Self> {
        let (policy, tunables) = (candidate.policy, candidate.tunables.clone());
        let config = InstanceConfig {
            capacity_pages: scaled_capacity(size_pages, rate),
            batch: scaled_batch(rate),
            seed,
            tunables: scaled_tunables(policy, &tunables, rate),
        };
        let instance = Instance::new(policy, &config)?;
        Ok(Self { instance, tunables, size_pages, misses: [0.0; GROUPS] })
    }

    pub(super) fn run(&mut self, block: &Block<'_>) -> Result<()> {
        let mut misses = [0u32; GROUPS];
        HITS.with_borrow_mut(|hits| {
            hits.resize(block.groups.len(), 0);
            self.instance.run(block.requests, Some(hits))?;
            for (&hit, &group) in hits.iter().zip(block.groups) {
                misses[group as usize % GROUPS] += u32::from(1 - hit);
            }
            Ok(())
        })?;
        for (sum, count) in self.misses.iter_mut().zip(misses) {
            *sum += f64::from(count) * block.weight;
        }
        Ok(())
    }

    pub(super) fn scale(&mut self, factor: f64) {
        self.misses.iter_mut().for_each(|m| *m *= factor);
    }

    /// Removes the pages that left the sample, and shrinks the cache to the new rate.
    pub(super) fn lower_rate(&mut self, dropped: &[u64], rate: f64) -> Result<()> {
        dropped.iter().for_each(|&key| self.instance.forget(key));
        self.scale_tunables(rate)?;
        let capacity = scaled_capacity(self.size_pages, rate);
        self.instance.resize(capacity, scaled_batch(rate))
    }

    /// Resizes the cache to another size or rate. The counts stay.
    pub(super) fn fit(&mut self, size_pages: u64, rate: f64) -> Result<()> {
        self.size_pages = size_pages;
        self.scale_tunables(rate)?;
        self.instance.resize(scaled_capacity(size_pages, rate), scaled_batch(rate))
    }

    /// Sets the policy's tunables to other values. `tunables` are those of the full-size cache.
    pub(super) fn set_tunables(&mut self, tunables: &[u32], rate: f64) -> Result<()> {
        self.tunables = tunables.to_vec();
        self.scale_tunables(rate)
    }

    fn scale_tunables(&mut self, rate: f64) -> Result<()> {
        let scaled = scaled_tunables(self.instance.policy(), &self.tunables, rate);
        self.instance.set_tunables(&scaled)
    }

    /// Takes over cached pages, given oldest first, as a policy does when it is swapped in.
    pub(super) fn adopt(&mut self, keys: &[u64]) -> Result<()> {
        self.instance.adopt(keys)
    }

    /// Removes a page that no longer exists.
    pub(super) fn forget(&mut self, key: u64) {
        self.instance.forget(key);
    }

    /// Removes all pages whose hash is at least `threshold`.
    pub(super) fn forget_from(&mut self, threshold: u64) {
        let keys = self.instance.resident_keys();
        keys.into_iter().filter(|&key| key >= threshold).for_each(|key| self.instance.forget(key));
    }

    pub(super) fn resident_keys(&self) -> Vec<u64> {
        self.instance.resident_keys()
    }

    pub(super) fn stats(&self) -> Stats {
        self.instance.stats()
    }

    /// Returns the weighted misses of each group of pages.
    pub(super) fn misses(&self) -> &[f64; GROUPS] {
        &self.misses
    }

    /// Returns the miss ratio and its standard error, see [`group_estimate`].
    pub(super) fn estimate(&self, correction: &CountCorrection, expected: f64) -> (f64, f64) {
        let (ratio, stderr) = group_estimate(&self.ratios(expected), correction);
        (ratio.clamp(0.0, 1.0), stderr)
    }

    /// Returns the miss ratio of each group with the correction SHARDS-adj: each group's misses are
    /// divided by one [`GROUPS`]th of the `expected` weight.
    pub(super) fn ratios(&self, expected: f64) -> [f64; GROUPS] {
        self.misses.map(|m| m / (expected / GROUPS as f64))
    }

    /// Like [`Self::run`], with a weight for each access.
    pub(super) fn run_weighted(
        &mut self,
        requests: Requests<'_>,
        groups: &[u8],
        weights: &[f64],
    ) -> Result<()> {
        HITS.with_borrow_mut(|hits| {
            hits.resize(groups.len(), 0);
            self.instance.run(requests, Some(hits))?;
            for ((&hit, &group), &weight) in hits.iter().zip(groups).zip(weights) {
                self.misses[group as usize % GROUPS] += f64::from(1 - hit) * weight;
            }
            Ok(())
        })
    }

    /// Returns the present capacity of the miniature cache, in pages.
    pub(super) fn capacity(&self, rate: f64) -> u64 {
        scaled_capacity(self.size_pages, rate)
    }

    /// Returns the memory that grows with the cache, in bytes: all memory except the fixed part of
    /// the policy's state.
    pub(super) fn page_bytes(&self) -> u64 {
        let stats = self.instance.stats();
        stats.bytes - stats.state_bytes.min(FIXED_STATE_BYTES)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.instance.stats().bytes
    }
}

/// Returns the mean over the groups, corrected for the size of the sample, and its standard error.
///
/// The groups are disjoint sub-samples that share one cache, so their spread does not show by how
/// much the sample as a whole has too many or too few accesses. The correction may explain this
/// difference wrongly. The other explanation is that all of it misses like the rest, and it may err
/// as far on one side as the correction on the other. The standard error therefore includes the
/// standard deviation of a uniform distribution between the two.
pub(super) fn group_estimate(ratios: &[f64; GROUPS], correction: &CountCorrection) -> (f64, f64) {
    let (delta, stderr) = correction.correct(ratios);
    let adjusted = ratios.iter().sum::<f64>() / GROUPS as f64;
    let other = adjusted * correction.difference() - delta;
    (adjusted + delta, stderr.hypot(other / 3f64.sqrt()))
}

/// Returns the standard error of the difference between two means over the groups, see
/// [`group_estimate`].
pub(super) fn group_step(
    before: &[f64; GROUPS],
    here: &[f64; GROUPS],
    correction: &CountCorrection,
) -> f64 {
    let stderr = correction.step_stderr(before, here);
    let sum = |ratios: &[f64; GROUPS]| ratios.iter().sum::<f64>() / GROUPS as f64;
    let delta = correction.correct(before).0 - correction.correct(here).0;
    let other = (sum(before) - sum(here)) * correction.difference() - delta;
    stderr.hypot(other / 3f64.sqrt())
}

/// Returns the number of groups of equal value whose spread would be as certain as that of
/// `values`. It is below [`GROUPS`] when a few groups have most of the total.
pub(super) fn effective_groups(values: &[f64; GROUPS]) -> f64 {
    let sum: f64 = values.iter().map(|v| v.abs()).sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    if squares > 0.0 { sum * sum / squares } else { GROUPS as f64 }
}

/// Returns the capacity of the miniature cache in pages, at least 1.
fn scaled_capacity(size_pages: u64, rate: f64) -> u64 {
    ((size_pages as f64 * rate).round() as u64).max(1)
}

fn scaled_batch(rate: f64) -> u32 {
    ((f64::from(KERNEL_BATCH) * rate).round() as u32).clamp(1, KERNEL_BATCH)
}

/// Scales the tunables that are in pages with the cache, and also those of the layer below the
/// policy, if it has one.
fn scaled_tunables(policy: &Policy, values: &[u32], rate: f64) -> Vec<u32> {
    let mut scaled = scaled_values(&policy.manifest, values, rate);
    if let Some(layer) = policy.layer() {
        let manifest = &layer.manifest;
        scaled.extend(scaled_values(manifest, &manifest.tunable_defaults(), rate));
    }
    scaled
}

fn scaled_values(manifest: &Manifest, values: &[u32], rate: f64) -> Vec<u32> {
    let tunables = manifest.tunables.iter();
    let words = tunables.flat_map(|tunable| (0..tunable.length).map(move |_| tunable));
    let scaled = |(tunable, &value): (&Tunable, &u32)| match tunable.unit.as_str() {
        "pages" => ((f64::from(value) * rate).round() as u32).clamp(tunable.min, tunable.max),
        _ => value,
    };
    words.zip(values).map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::find;

    #[test]
    fn only_tunables_in_pages_shrink_with_the_cache() {
        let kernel = find("kernel_lru").unwrap();
        assert_eq!(scaled_tunables(kernel, &[1000, 7000], 0.1), [100, 700]);
        let s3fifo = find("s3fifo").unwrap();
        assert_eq!(scaled_tunables(s3fifo, &[40, 1], 0.1), [40, 1], "those of a variant");
    }

    #[test]
    fn requests_shrink_with_the_cache_but_never_to_nothing() {
        assert_eq!((scaled_capacity(1000, 0.01), scaled_capacity(10, 0.01)), (10, 1));
        assert_eq!((scaled_batch(1.0), scaled_batch(0.5), scaled_batch(0.001)), (32, 16, 1));
    }
}
