// SPDX-License-Identifier: Apache-2.0
//! Counterfactuals: what policies that are not in force would have missed of the same accesses.

use super::cell::{Block, Cell, GROUPS};
use crate::error::{Error, Result};
use crate::hash::{page_hash, rate_of};
use crate::policy::{Candidate, Requests};

/// New caches are used once they have evicted this share of the pages they hold. From then on,
/// their misses reflect their policies and not the cold start.
const TURNED_SHARE: f64 = 0.25;
/// New caches are started at a higher rate only when the sampler lets through more than this many
/// times the pages. A fluctuating rate is not worth restarting for.
const RAISED: u64 = 4;

/// Miniature caches of every policy, at the present size of the tenant's page cache. Counts do not
/// age: totals are sums, so the difference of two totals covers exactly the accesses between them.
///
/// Each miss counts the reciprocal of the rate at that time, in one of [`GROUPS`] groups by the
/// hash of the page. The spread between the groups gives the sampling error of a difference. At
/// rate 1 the caches are exact simulations.
///
/// Each policy is simulated twice: as if it had been in force from the start, and as if it had been
/// swapped in when the workload's present regime began. The run with fewer misses since then
/// counts. Pages kept from an earlier regime may be worthless, and a swap need not keep them.
///
/// The rate may change in both directions. When it falls, pages leave at once. When it rises, all
/// pages new to the sample would be misses. Therefore empty caches are fed at the higher rate
/// beside the present ones, and replace them once they have turned over their pages.
pub struct Counterfactuals {
    policies: Vec<Candidate>,
    size_pages: u64,
    seed: u64,
    present: Caches,
    /// Caches whose policies were swapped in when the present regime began.
    swapped: Option<Caches>,
    /// Caches at a higher rate, which will replace `present`.
    successor: Option<Caches>,
    /// A successor is started when the sampler lets through more than this many times the pages.
    raised: u64,
    accesses: [f64; GROUPS],
    misses: Vec<[f64; GROUPS]>,
    generation: u64,
}

/// One miniature cache per policy. All are fed with the pages whose hash is below `threshold`.
struct Caches {
    threshold: u64,
    cells: Vec<Cell>,
}

/// Totals since the generation began.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Rises each time the totals restart from 0.
    pub generation: u64,
    /// Accesses per group.
    pub accesses: Vec<f64>,
    /// Misses per policy and group: one row of groups for each policy.
    pub misses: Vec<f64>,
}

impl Counterfactuals {
    /// Creates cold caches. Pages whose hash is below `threshold` are the sample.
    ///
    /// # Errors
    /// [`Error::Argument`] without a policy, on a size or a threshold of 0.
    pub fn new(
        policies: Vec<Candidate>,
        size_pages: u64,
        threshold: u64,
        seed: u64,
    ) -> Result<Self> {
        if policies.is_empty() || size_pages == 0 || threshold == 0 {
            return Err(Error::argument(
                "counterfactuals",
                "needs a policy, a size and a threshold above 0",
            ));
        }
        let present = Caches::cold(&policies, size_pages, threshold, seed)?;
        Ok(Self {
            misses: vec![[0.0; GROUPS]; policies.len()],
            policies,
            size_pages,
            seed,
            present,
            swapped: None,
            successor: None,
            raised: RAISED,
            accesses: [0.0; GROUPS],
            generation: 1,
        })
    }

    /// Feeds accesses. Those to pages outside the sample are ignored.
    ///
    /// # Errors
    /// [`Error::Policy`] when memory runs out or a policy breaks an invariant.
    pub fn access(&mut self, requests: Requests<'_>) -> Result<()> {
        let before = [Some(&self.present), self.swapped.as_ref()].map(|c| c.map(Caches::misses));
        let counted = self.present.access(requests)?;
        let weight = rate_of(self.present.threshold).recip();
        counted.iter().for_each(|&g| self.accesses[usize::from(g) % GROUPS] += weight);
        for caches in [&mut self.swapped, &mut self.successor].into_iter().flatten() {
            caches.access(requests)?;
        }
        self.count(&before);
        if let Some(successor) = self.successor.take_if(|caches| caches.have_turned_over()) {
            (self.present, self.swapped) = (successor, None);
            self.begin();
        }
        Ok(())
    }

    /// Counts accesses to pages that are in memory because another cgroup is charged for them. They
    /// are hits of every policy, so no cache is fed.
    pub fn serve(&mut self, keys: &[u64]) {
        let threshold = self.present.threshold;
        let weight = rate_of(threshold).recip();
        for hash in keys.iter().map(|&key| page_hash(key)).filter(|&hash| hash < threshold) {
            self.accesses[hash as usize % GROUPS] += weight;
        }
    }

    /// Removes pages that no longer exist from all caches.
    pub fn forget(&mut self, keys: &[u64]) {
        let hashes: Vec<u64> = keys.iter().map(|&key| page_hash(key)).collect();
        for caches in self.all() {
            let threshold = caches.threshold;
            for &hash in hashes.iter().filter(|&&hash| hash < threshold) {
                caches.cells.iter_mut().for_each(|cell| cell.forget(hash));
            }
        }
    }

    /// Adds each policy's misses since `before`, from whichever of its two caches is better.
    fn count(&mut self, before: &[Option<Vec<[f64; GROUPS]>>; 2]) {
        for (index, total) in self.misses.iter_mut().enumerate() {
            let chosen = match &self.swapped {
                Some(swapped) if is_better(swapped, &self.present, index) => 1,
                _ => 0,
            };
            let caches = if chosen == 1 { self.swapped.as_ref() } else { Some(&self.present) };
            let (Some(caches), Some(then)) = (caches, &before[chosen]) else { continue };
            let now = caches.cells[index].misses();
            for ((sum, now), then) in total.iter_mut().zip(now).zip(&then[index]) {
                *sum += now - then;
            }
        }
    }

    /// Sets the size of the caches to that of the tenant's page cache, in pages.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn set_size(&mut self, size_pages: u64) -> Result<()> {
        let size_pages = size_pages.max(1);
        if size_pages == self.size_pages {
            return Ok(());
        }
        self.size_pages = size_pages;
        self.all().try_for_each(|caches| caches.fit(size_pages))
    }

    /// Sets the threshold of the sampler. If it falls, the pages from `threshold` on leave. If it
    /// rises enough, a successor at the higher rate is started.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn set_threshold(&mut self, threshold: u64) -> Result<()> {
        let threshold = threshold.max(1);
        let size_pages = self.size_pages;
        self.all().try_for_each(|caches| caches.lower(threshold, size_pages))?;
        let highest = self.successor.as_ref().unwrap_or(&self.present).threshold;
        if threshold / self.raised > highest {
            let caches = Caches::cold(&self.policies, self.size_pages, threshold, self.seed)?;
            (self.successor, self.raised) = (Some(caches), RAISED);
        }
        Ok(())
    }

    /// Announces that the sampler will let more pages through for a long time. The next increase
    /// starts a successor, however small it is.
    pub fn expect_more(&mut self) {
        self.raised = 1;
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Caches> {
        std::iter::once(&mut self.present).chain(&mut self.swapped).chain(&mut self.successor)
    }

    /// Simulates `policy` too, unless a policy of this name is simulated already. If it is added,
    /// the totals restart from 0.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn include(&mut self, policy: Candidate) -> Result<()> {
        if self.index_of(&policy.name).is_none() {
            let rate = rate_of(self.present.threshold);
            self.present.cells.push(Cell::new(&policy, self.size_pages, rate, self.seed)?);
            self.policies.push(policy);
            self.misses.push([0.0; GROUPS]);
            (self.swapped, self.successor) = (None, None);
            self.begin();
        }
        Ok(())
    }

    /// Stops simulating the policy of this name, unless it is the only one. The totals of the
    /// others go on.
    pub fn exclude(&mut self, policy: &str) {
        let Some(index) = self.index_of(policy).filter(|_| self.policies.len() > 1) else { return };
        self.policies.remove(index);
        self.misses.remove(index);
        self.all().for_each(|caches| drop(caches.cells.remove(index)));
    }

    /// Sets the tunables of the policy of this name. Does nothing if it is not simulated.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn set_tunables(&mut self, policy: &Candidate) -> Result<()> {
        let Some(index) = self.index_of(&policy.name) else { return Ok(()) };
        self.policies[index].tunables.clone_from(&policy.tunables);
        self.all().try_for_each(|caches| {
            caches.cells[index].set_tunables(&policy.tunables, rate_of(caches.threshold))
        })
    }

    /// Begins a new regime of the workload, with `in_force` as the policy in force. Every policy is
    /// swapped in beside the present caches, and adopts the pages that are cached.
    ///
    /// # Errors
    /// As [`Self::access`].
    pub fn begin_phase(&mut self, in_force: &str) -> Result<()> {
        if let Some(swapped) = self.swapped.take() {
            for (index, cell) in swapped.cells.into_iter().enumerate() {
                // Caches that have not turned over yet have no meaningful misses.
                if has_turned_over(&cell) && total(&cell) < total(&self.present.cells[index]) {
                    self.present.cells[index] = cell;
                }
            }
        }
        let Some(index) = self.index_of(in_force) else { return Ok(()) };
        let (size, threshold) = (self.size_pages, self.present.threshold);
        let mut caches = Caches::cold(&self.policies, size, threshold, self.seed)?;
        let cached = self.present.cells[index].resident_keys();
        caches.cells.iter_mut().try_for_each(|cell| cell.adopt(&cached))?;
        // Both caches of a policy are compared by their misses from here on.
        self.present.cells.iter_mut().for_each(|cell| cell.scale(0.0));
        self.swapped = Some(caches);
        Ok(())
    }

    fn begin(&mut self) {
        self.accesses = [0.0; GROUPS];
        self.misses.iter_mut().for_each(|row| *row = [0.0; GROUPS]);
        self.generation += 1;
    }

    fn index_of(&self, policy: &str) -> Option<usize> {
        self.policies.iter().position(|one| one.name == policy)
    }

    /// Returns the names of the policies, in the order of all rows.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|policy| policy.name.as_str())
    }

    /// Returns the totals since the generation began.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            generation: self.generation,
            accesses: self.accesses.to_vec(),
            misses: self.misses.concat(),
        }
    }

    /// Returns the size that is simulated now, in pages.
    #[must_use]
    pub fn size_pages(&self) -> u64 {
        self.size_pages
    }

    /// Returns the rate at which pages are sampled now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        rate_of(self.present.threshold)
    }

    /// Returns the memory of all caches, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let caches = std::iter::once(&self.present).chain(&self.swapped).chain(&self.successor);
        caches.flat_map(|caches| &caches.cells).map(Cell::bytes).sum()
    }
}

fn total(cell: &Cell) -> f64 {
    cell.misses().iter().sum()
}

fn has_turned_over(cell: &Cell) -> bool {
    let stats = cell.stats();
    stats.evictions as f64 >= TURNED_SHARE * stats.resident as f64 && stats.evictions > 0
}

/// Returns whether this policy missed less since the regime began when it was swapped in then.
fn is_better(swapped: &Caches, present: &Caches, index: usize) -> bool {
    let cell = &swapped.cells[index];
    has_turned_over(cell) && total(cell) < total(&present.cells[index])
}

impl Caches {
    fn cold(policies: &[Candidate], size_pages: u64, threshold: u64, seed: u64) -> Result<Self> {
        let cell = |policy: &Candidate| Cell::new(policy, size_pages, rate_of(threshold), seed);
        Ok(Self { threshold, cells: policies.iter().map(cell).collect::<Result<_>>()? })
    }

    /// Feeds the sampled accesses, and returns the group of each.
    fn access(&mut self, requests: Requests<'_>) -> Result<Vec<u8>> {
        let (mut keys, mut tasks, mut times_ns, mut groups) = (vec![], vec![], vec![], vec![]);
        for (i, &key) in requests.keys.iter().enumerate() {
            // A sampled page is identified by its hash, which is a bijection of the key.
            let hash = page_hash(key);
            if hash < self.threshold {
                keys.push(hash);
                tasks.extend(requests.tasks.get(i));
                times_ns.extend(requests.times_ns.get(i));
                groups.push(hash as u8);
            }
        }
        let requests = Requests { keys: &keys, tasks: &tasks, times_ns: &times_ns };
        let block = Block { requests, groups: &groups, weight: rate_of(self.threshold).recip() };
        self.cells.iter_mut().try_for_each(|cell| cell.run(&block))?;
        Ok(groups)
    }

    fn lower(&mut self, threshold: u64, size_pages: u64) -> Result<()> {
        if threshold >= self.threshold {
            return Ok(());
        }
        self.threshold = threshold;
        self.cells.iter_mut().for_each(|cell| cell.forget_from(threshold));
        self.fit(size_pages)
    }

    fn fit(&mut self, size_pages: u64) -> Result<()> {
        let rate = rate_of(self.threshold);
        self.cells.iter_mut().try_for_each(|cell| cell.fit(size_pages, rate))
    }

    fn have_turned_over(&self) -> bool {
        self.cells.iter().all(has_turned_over)
    }

    fn misses(&self) -> Vec<[f64; GROUPS]> {
        self.cells.iter().map(|cell| *cell.misses()).collect()
    }
}

#[cfg(test)]
#[path = "counterfactual_tests.rs"]
mod tests;
