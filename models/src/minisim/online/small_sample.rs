// SPDX-License-Identifier: Apache-2.0
//! Every policy in miniature over the pages below a threshold, all the time or in bursts.

use super::OnlineConfig;
use super::duty::{Duty, Mode};
use super::lru_grid::LruGrid;
use super::two_phase::Residual;
use crate::count_correction::CountCorrection;
use crate::error::Result;
use crate::hash::rate_of;
use crate::minisim::cell::Cell;
use crate::policy::Requests;

/// Number of accesses that are gathered before the caches run over them.
const BLOCK_SAMPLES: usize = 1024;

#[derive(Default)]
struct Pending {
    keys: Vec<u64>,
    tasks: Vec<u32>,
    times_ns: Vec<u64>,
    groups: Vec<u8>,
    weights: Vec<f64>,
}

impl Pending {
    fn clear(&mut self) {
        self.keys.clear();
        self.tasks.clear();
        self.times_ns.clear();
        self.groups.clear();
        self.weights.clear();
    }
}

/// Miniature caches of every policy, and LRU at their sizes over the same accesses.
pub(super) struct SmallSample {
    cells: Vec<Cell>,
    /// Number of cells per policy.
    row: usize,
    pending: Pending,
    lru: LruGrid,
    threshold: u64,
    duty: Duty,
    /// Accesses to pages of the sample, fed or not.
    offered: u64,
    /// Weight of all accesses, sampled or not, that passed while the sample was measured.
    total: f64,
}

impl SmallSample {
    pub(super) fn new(config: &OnlineConfig, simulated: &[usize], threshold: u64) -> Result<Self> {
        let rate = rate_of(threshold);
        let shapes = config
            .policies
            .iter()
            .flat_map(|p| simulated.iter().map(move |&i| (p, config.sizes_pages[i])));
        let cells = shapes
            .map(|(policy, size)| Cell::new(policy, size, rate, config.seed))
            .collect::<Result<Vec<_>>>()?;
        let mut sample = Self {
            cells,
            row: simulated.len(),
            pending: Pending::default(),
            lru: LruGrid::new(Vec::new()),
            threshold,
            duty: Duty::default(),
            offered: 0,
            total: 0.0,
        };
        sample.lru = LruGrid::new(sample.sizes());
        Ok(sample)
    }

    /// Returns the sizes of the miniature caches of one policy, in sampled pages.
    fn sizes(&self) -> Vec<f64> {
        let rate = rate_of(self.threshold);
        self.cells[..self.row].iter().map(|cell| cell.capacity(rate) as f64).collect()
    }

    /// Sets the tunables of the policy with index `policy`.
    pub(super) fn set_tunables(&mut self, policy: usize, tunables: &[u32]) -> Result<()> {
        self.flush()?;
        let rate = rate_of(self.threshold);
        let cells = self.cells.chunks_mut(self.row).nth(policy).into_iter().flatten();
        cells.into_iter().try_for_each(|cell| cell.set_tunables(tunables, rate))
    }

    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Sets the share of the accesses that the caches are fed, in bursts.
    pub(super) fn set_duty(&mut self, share: f64) {
        self.duty.set(share, self.lru.pages() as u64);
    }

    /// Returns the number of accesses to the sample within which at least `fed` are fed. If the
    /// caches rest, it includes at least one burst.
    pub(super) fn samples_per_half_life(&self, fed: u64) -> u64 {
        self.duty.samples_for(fed)
    }

    /// Begins a step of `accesses`, sampled or not, each with this weight. What happens to them is
    /// fixed until the next call.
    pub(super) fn begin(&mut self, accesses: u64, weight: f64) {
        if self.duty.begin() == Mode::Measure {
            self.total += accesses as f64 * weight;
        }
    }

    /// Feeds access `i` of the requests, which is to a page below the threshold.
    pub(super) fn access(&mut self, hash: u64, requests: &Requests<'_>, i: usize, weight: f64) {
        let Some(weight) = self.weighed(weight) else { return };
        self.lru.access(hash, weight);
        let pending = &mut self.pending;
        pending.keys.push(hash);
        pending.tasks.extend(requests.tasks.get(i));
        pending.times_ns.extend(requests.times_ns.get(i));
        pending.groups.push(hash as u8);
        pending.weights.push(weight);
    }

    /// Counts an access to a page below the threshold that is in memory because another cgroup is
    /// charged for it.
    pub(super) fn serve(&mut self, hash: u64, weight: f64) {
        if let Some(weight) = self.weighed(weight) {
            self.lru.serve(hash, weight);
        }
    }

    /// Returns the weight with which the next access counts, given its weight by age; `None` while
    /// the caches rest.
    fn weighed(&mut self, weight: f64) -> Option<f64> {
        self.offered += 1;
        match self.duty.next() {
            Mode::Rest => None,
            Mode::Warm => Some(0.0),
            Mode::Measure => Some(weight),
        }
    }

    /// Removes pages that no longer exist, after running the accesses so far.
    pub(super) fn forget(&mut self, hashes: &[u64]) -> Result<()> {
        let own: Vec<u64> = hashes.iter().copied().filter(|&hash| hash < self.threshold).collect();
        if own.is_empty() {
            return Ok(());
        }
        self.flush()?;
        for hash in own {
            self.lru.forget(hash);
            self.cells.iter_mut().for_each(|cell| cell.forget(hash));
        }
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.keys.len() >= BLOCK_SAMPLES
    }

    /// Returns whether the pending accesses have the same optional columns as `requests`.
    pub(super) fn has_columns_of(&self, requests: &Requests<'_>) -> bool {
        self.pending.tasks.is_empty() == requests.tasks.is_empty()
            && self.pending.times_ns.is_empty() == requests.times_ns.is_empty()
    }

    /// Runs the pending accesses through every cell.
    pub(super) fn flush(&mut self) -> Result<()> {
        let pending = &self.pending;
        if pending.keys.is_empty() {
            return Ok(());
        }
        let requests =
            Requests { keys: &pending.keys, tasks: &pending.tasks, times_ns: &pending.times_ns };
        for cell in &mut self.cells {
            cell.run_weighted(requests, &pending.groups, &pending.weights)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Removes the pages from `threshold` on.
    pub(super) fn lower(&mut self, threshold: u64) -> Result<()> {
        self.flush()?;
        let rate = rate_of(threshold);
        let factor = rate / rate_of(self.threshold);
        self.threshold = threshold;
        let sizes = self.sizes();
        let dropped = self.lru.lower(threshold, factor, sizes);
        for cell in &mut self.cells {
            cell.scale(factor);
            cell.lower_rate(&dropped, rate)?;
        }
        Ok(())
    }

    /// Multiplies the counts by `factor`; 0 discards them. The caches stay as they are.
    pub(super) fn scale(&mut self, factor: f64) {
        self.total *= factor;
        self.lru.scale(factor);
        self.cells.iter_mut().for_each(|cell| cell.scale(factor));
    }

    /// Returns the number of accesses that the caches were fed.
    pub(super) fn sampled(&self) -> u64 {
        self.lru.counts().0
    }

    /// Returns the number of accesses to pages of the sample, fed or not.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the weight of all accesses, sampled or not, that passed while the sample was
    /// measured.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    pub(super) fn bytes(&self) -> u64 {
        const PENDING_BYTES: u64 = 8 + 4 + 8 + 1 + 8;
        let pending = self.pending.keys.capacity() as u64 * PENDING_BYTES;
        self.cells.iter().map(Cell::bytes).sum::<u64>() + pending + self.lru.bytes()
    }

    /// Returns the memory of the caches that grows with the rate, in bytes.
    pub(super) fn page_bytes(&self) -> u64 {
        self.cells.iter().map(Cell::page_bytes).sum()
    }

    /// See [`LruGrid::effective_groups`].
    pub(super) fn effective_groups(&self) -> f64 {
        self.lru.effective_groups()
    }

    pub(super) fn correction(&self) -> CountCorrection {
        let rate = rate_of(self.threshold);
        self.lru.correction(self.total * rate, rate)
    }

    /// Returns, for each policy at each simulated size, the part that does not follow from LRU.
    pub(super) fn residuals(&self) -> Vec<Vec<Residual>> {
        let expected = self.total * rate_of(self.threshold);
        let correction = self.correction();
        let lru = self.lru.ratios(expected);
        let row = |cells: &[Cell]| {
            Residual::row(cells.iter().map(|cell| cell.ratios(expected)), &lru, &correction)
        };
        self.cells.chunks(self.row).map(row).collect()
    }
}
