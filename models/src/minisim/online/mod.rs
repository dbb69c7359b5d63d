// SPDX-License-Identifier: Apache-2.0
//! The bank for an endless stream of accesses, fed by a sampler.

mod change;
mod duty;
mod estimate;
mod half_life;
mod lru_grid;
mod rates;
mod recent;
mod small_sample;
#[cfg(test)]
mod tests;
mod two_phase;

use super::bank::check_columns;
use crate::ageing::Ageing;
use crate::error::{Error, Result};
use crate::hash::{page_hash, rate_of};
use crate::policy::{Candidate, Requests};
use change::Change;
use half_life::HalfLife;
use lru_grid::LruGrid;
use rates::{check_positive, scaled};
use small_sample::SmallSample;

/// Upper bound on the number of steps, each with its own weight, into which one batch is divided.
const MAX_STEPS: u64 = 256;
/// The working set counts as seen when at most this share of the latest accesses were to new pages.
const FEW_FIRST: f64 = 0.1;

/// How to create an [`OnlineBank`].
#[derive(Debug, Clone)]
pub struct OnlineConfig {
    /// Policies to simulate.
    pub policies: Vec<Candidate>,
    /// Cache sizes of the curves in real pages, rising.
    pub sizes_pages: Vec<u64>,
    /// Every `stride`th size is simulated, counted down from the largest. LRU is computed at all
    /// sizes.
    pub stride: usize,
    /// Bounds of the half-life, in accesses. Between them, the half-life follows the working set.
    pub half_life: (u64, u64),
    /// A half-life must span at least this many accesses to the small sample, unless its bounds are
    /// equal. This takes precedence over the upper bound.
    pub min_samples: u64,
    /// Seed of the policies' random numbers.
    pub seed: u64,
}

/// Simulates every policy in miniature over a small sample of pages, and LRU over a large sample
/// that includes the small one. Both samples are the pages whose hash is below a threshold, with
/// the same hash. The LRU curve of the large sample corrects the other policies, see
/// [`two_phase::Residual`]. Both thresholds can be lowered but never raised, since pages new
/// to a sample would count as cold. For a higher rate, start another bank.
///
/// When the working set has been seen once, all counts so far are discarded, and the caches stay.
/// From then on, the curves show the miss ratios that a policy started at the beginning of this
/// regime would have.
pub struct OnlineBank {
    config: OnlineConfig,
    /// Indices in the grid of the sizes that are simulated.
    simulated: Vec<usize>,
    small: SmallSample,
    lru: LruGrid,
    threshold: u64,
    change: Change,
    /// Number of accesses after which the working set had been seen.
    learnt_at: Option<u64>,
    ageing: Ageing,
    half_life: HalfLife,
    pages_seen: f64,
}

impl OnlineBank {
    /// Creates a bank of cold caches. Pages whose hash is below `threshold` are the large sample,
    /// and those also below `small_threshold` the small one.
    ///
    /// # Errors
    /// [`Error::Argument`] on an empty list of policies or sizes, or a stride or threshold of 0.
    pub fn new(config: OnlineConfig, threshold: u64, small_threshold: u64) -> Result<Self> {
        if config.policies.is_empty() || config.sizes_pages.is_empty() {
            return Err(Error::argument("bank", "needs at least one policy and one size"));
        }
        check_positive("stride", config.stride as u64)?;
        check_positive("threshold", threshold)?;
        check_positive("small_threshold", small_threshold)?;
        let small_threshold = small_threshold.min(threshold);
        let last = config.sizes_pages.len() - 1;
        let simulated: Vec<usize> = (0..=last).rev().step_by(config.stride).collect();
        let simulated: Vec<usize> = simulated.into_iter().rev().collect();
        let (least, most) = config.half_life;
        let mut bank = Self {
            half_life: HalfLife::new(least, most),
            ageing: Ageing::new(Some(least.max(1)))?,
            lru: LruGrid::new(scaled(&config.sizes_pages, rate_of(threshold))),
            small: SmallSample::new(&config, &simulated, small_threshold)?,
            change: Change::new(config.sizes_pages.len()),
            learnt_at: None,
            pages_seen: 0.0,
            config,
            simulated,
            threshold,
        };
        bank.adjust_half_life()?;
        Ok(bank)
    }

    /// Feeds the requests that the sampler let through out of the next `accesses`. Keys that are
    /// not in the large sample are ignored.
    ///
    /// # Errors
    /// [`Error::Argument`] on a column that is neither empty nor as long as the keys;
    /// [`Error::Policy`] when memory runs out or a policy breaks an invariant.
    pub fn access(&mut self, requests: Requests<'_>, accesses: u64) -> Result<()> {
        check_columns(&requests)?;
        if !self.small.has_columns_of(&requests) {
            self.flush()?;
        }
        let steps = accesses.div_ceil(self.ageing.max_step() as u64).clamp(1, MAX_STEPS);
        let part =
            |whole: u64, step| (u128::from(whole) * u128::from(step) / u128::from(steps)) as u64;
        let count = requests.keys.len() as u64;
        for step in 0..steps {
            let passed = part(accesses, step + 1) - part(accesses, step);
            let weight = self.ageing.advance(passed as usize);
            self.small.begin(passed, weight);
            for i in part(count, step)..part(count, step + 1) {
                self.sample(&requests, i as usize, weight);
            }
            if self.small.is_full() {
                self.flush()?;
            }
            if let Some(factor) = self.ageing.renormalise() {
                self.flush()?;
                self.scale(factor);
            }
            let half_life = self.half_life.advance(passed);
            self.ageing.set_half_life(Some(half_life))?;
            self.learn()?;
        }
        Ok(())
    }

    fn sample(&mut self, requests: &Requests<'_>, i: usize, weight: f64) {
        let hash = page_hash(requests.keys[i]);
        if hash >= self.threshold {
            return;
        }
        let first = self.lru.counts().1;
        let class = self.lru.access(hash, weight);
        self.change.note(class);
        self.pages_seen += (self.lru.counts().1 - first) as f64 / self.rate();
        self.half_life.note(hash);
        if hash < self.small.threshold() {
            self.small.access(hash, requests, i, weight);
        }
    }

    /// Counts accesses to pages that are in memory because another cgroup is charged for them: hits
    /// of every policy at every size. The number of accesses passed to [`Self::access`] must
    /// include them.
    pub fn serve(&mut self, keys: &[u64]) {
        let weight = self.ageing.weight();
        for hash in keys.iter().map(|&key| page_hash(key)).filter(|&hash| hash < self.threshold) {
            self.lru.serve(hash, weight);
            if hash < self.small.threshold() {
                self.small.serve(hash, weight);
            }
        }
    }

    /// Removes pages that no longer exist, because their file was truncated or removed. No cache
    /// has them any more, whatever its policy and size.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn forget(&mut self, keys: &[u64]) -> Result<()> {
        let hashes = keys.iter().map(|&key| page_hash(key)).filter(|&hash| hash < self.threshold);
        let hashes: Vec<u64> = hashes.collect();
        hashes.iter().for_each(|&hash| self.lru.forget(hash));
        self.small.forget(&hashes)
    }

    /// Discards the counts when the working set has been seen for the first time.
    fn learn(&mut self) -> Result<()> {
        let seen = self.half_life.settled() || self.change.first_share() <= FEW_FIRST;
        if self.learnt() || !seen {
            return Ok(());
        }
        self.flush()?;
        self.learnt_at = Some(self.ageing.accesses());
        self.scale(0.0);
        self.ageing.restart();
        self.change.forget();
        Ok(())
    }

    /// Returns whether the working set has been seen once, see [`OnlineBank`].
    #[must_use]
    pub fn learnt(&self) -> bool {
        self.learnt_at.is_some()
    }

    /// Returns the number of accesses after which the working set had been seen, or the number of
    /// accesses so far if it has not been.
    #[must_use]
    pub fn learnt_at(&self) -> u64 {
        self.learnt_at.unwrap_or(self.ageing.accesses())
    }

    /// Returns whether the reuse distances changed since the last call. Always false before the
    /// working set was seen.
    pub fn take_change(&mut self) -> bool {
        self.change.take() && self.learnt()
    }

    /// Runs the pending accesses through every cell.
    ///
    /// # Errors
    /// [`Error::Policy`] as in [`Self::access`].
    pub fn flush(&mut self) -> Result<()> {
        self.small.flush()
    }

    /// Sets the tunables of the policy of this name. Does nothing if it is not simulated.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn set_tunables(&mut self, policy: &Candidate) -> Result<()> {
        let mut known = self.config.policies.iter_mut();
        let Some(row) = known.position(|one| one.name == policy.name) else { return Ok(()) };
        self.config.policies[row].tunables.clone_from(&policy.tunables);
        self.small.set_tunables(row, &policy.tunables)
    }

    fn scale(&mut self, factor: f64) {
        self.lru.scale(factor);
        self.small.scale(factor);
    }

    /// Returns the number of accesses to the large sample, and the number that the caches of the
    /// small sample were fed, both since the beginning.
    #[must_use]
    pub fn sampled(&self) -> (u64, u64) {
        (self.lru.counts().0, self.small.sampled())
    }

    /// Returns the number of accesses to pages of the small sample, fed or not.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.small.offered()
    }

    /// Estimates the number of pages accessed recently. It exceeds the largest size by little at
    /// most.
    #[must_use]
    pub fn working_set_pages(&self) -> f64 {
        self.sample_pages() as f64 / self.rate()
    }

    /// Returns the present half-life, in accesses.
    #[must_use]
    pub fn half_life(&mut self) -> u64 {
        self.half_life.advance(0)
    }

    /// Returns the number of accesses so far, sampled or not.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.ageing.accesses()
    }

    /// Estimates the number of pages seen since the beginning. A page that comes back after more
    /// other pages than the largest size counts again.
    #[must_use]
    pub fn pages_seen(&self) -> f64 {
        self.pages_seen
    }

    /// Returns whether the working set has been seen, by the criteria of the half-life: within one,
    /// accesses came back to pages about as often as to new ones, or hardly any were to new pages.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.half_life.settled()
    }

    /// Returns the number of pages of the large sample in the stack.
    #[must_use]
    pub fn sample_pages(&self) -> usize {
        self.lru.pages()
    }

    /// Returns the memory of caches, stacks and buffers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.small.bytes() + self.lru.bytes() + self.half_life.bytes()
    }

    /// Returns the part of [`Self::bytes`] that grows with the rate of the small sample.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.small.page_bytes()
    }
}
