// SPDX-License-Identifier: Apache-2.0
//! The bank: simulates all policies at all sizes over one sample of pages.

use super::cell::{Block, Cell, GROUPS, group_step};
use super::sample::PageSet;
use crate::ageing::Ageing;
use crate::count_correction::CountCorrection;
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::hash::{page_hash, rate_of, threshold};
use crate::policy::{Candidate, Requests};
use crate::shards::filter::{BLOCK_KEYS, select};
use rayon::prelude::*;

/// Number of sampled accesses that are gathered before every cell runs over them. A cell thus has
/// the processor's caches to itself for one block at a time.
const BLOCK_SAMPLES: usize = 4096;

/// How many pages are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// A fixed share of pages, in (0, 1].
    Rate(f64),
    /// At most this many pages. The rate falls as the trace accesses more pages.
    Size(usize),
}

/// How to create a [`Bank`].
#[derive(Debug, Clone)]
pub struct BankConfig {
    /// Policies to simulate.
    pub policies: Vec<Candidate>,
    /// Cache sizes in real pages, the same for every policy.
    pub sizes_pages: Vec<u64>,
    /// How many pages are sampled.
    pub sampling: Sampling,
    /// Number of accesses after which the weight of an access halves. With `None`, all accesses
    /// weigh the same.
    pub half_life: Option<u64>,
    /// Seed of the policies' random numbers.
    pub seed: u64,
    /// Number of threads that share the cells; 0 means one per core.
    pub threads: usize,
}

/// Sampled accesses that wait to be simulated, in columns.
#[derive(Default)]
struct Pending {
    keys: Vec<u64>,
    tasks: Vec<u32>,
    times_ns: Vec<u64>,
    groups: Vec<u8>,
}

impl Pending {
    /// Returns whether the pending accesses and `requests` have the same optional columns.
    fn has_columns_of(&self, requests: &Requests<'_>) -> bool {
        self.tasks.is_empty() == requests.tasks.is_empty()
            && self.times_ns.is_empty() == requests.times_ns.is_empty()
    }
}

pub(super) fn check_columns(requests: &Requests<'_>) -> Result<()> {
    let count = requests.keys.len();
    for (name, len) in [("tasks", requests.tasks.len()), ("times_ns", requests.times_ns.len())] {
        if len != 0 && len != count {
            return Err(Error::argument(name, format!("{len} values for {count} keys")));
        }
    }
    Ok(())
}

/// Miniature simulation of every policy at every size.
pub struct Bank {
    config: BankConfig,
    cells: Vec<Cell>,
    pending: Pending,
    pages: Option<PageSet>,
    threshold: u64,
    rate: f64,
    ageing: Ageing,
    weight: f64,
    /// Weight of the sampled accesses, per group of pages.
    seen: [f64; GROUPS],
    sampled: u64,
    selected: Box<[u64; BLOCK_KEYS]>,
    pool: Option<rayon::ThreadPool>,
}

impl Bank {
    /// Creates a bank of cold caches.
    ///
    /// # Errors
    /// [`Error::Argument`] on a rate outside (0, 1], an empty list of policies or sizes, a sample
    /// bound below 1 or a half-life of 0.
    pub fn new(config: BankConfig) -> Result<Self> {
        let largest = config.sizes_pages.iter().copied().max().unwrap_or(0);
        let (rate, pages) = match config.sampling {
            Sampling::Rate(rate) if rate > 0.0 && rate <= 1.0 => (rate, None),
            Sampling::Rate(rate) => {
                return Err(Error::argument("rate", format!("{rate} is outside (0, 1]")));
            }
            Sampling::Size(0) => return Err(Error::argument("smax", "0 is outside 1..")),
            // Start at the rate for a footprint of the largest size. If the footprint is larger,
            // the rate falls by itself, and no cache is ever larger than the sample.
            Sampling::Size(s_max) => {
                let rate = (s_max as f64 / largest.max(1) as f64).min(1.0);
                (rate, Some(PageSet::new(s_max)))
            }
        };
        if config.policies.is_empty() || config.sizes_pages.is_empty() {
            return Err(Error::argument("bank", "needs at least one policy and one size"));
        }
        let shapes =
            config.policies.iter().flat_map(|p| config.sizes_pages.iter().map(move |s| (p, *s)));
        let cells = shapes
            .map(|(policy, size)| Cell::new(policy, size, rate, config.seed))
            .collect::<Result<Vec<_>>>()?;
        let pool = match config.threads {
            1 => None,
            threads => Some(crate::simulation::thread_pool(threads)?),
        };
        Ok(Self {
            ageing: Ageing::new(config.half_life)?,
            threshold: threshold(rate),
            pending: Pending::default(),
            selected: Box::new([0; BLOCK_KEYS]),
            weight: 1.0,
            seen: [0.0; GROUPS],
            sampled: 0,
            config,
            cells,
            pages,
            rate,
            pool,
        })
    }

    /// Feeds the next accesses.
    ///
    /// # Errors
    /// [`Error::Argument`] on a column that is neither empty nor as long as the keys;
    /// [`Error::Policy`] when memory runs out or a policy breaks an invariant.
    pub fn access(&mut self, requests: Requests<'_>) -> Result<()> {
        check_columns(&requests)?;
        if !self.pending.has_columns_of(&requests) {
            self.flush()?;
        }
        let step = BLOCK_KEYS.min(self.ageing.max_step());
        let mut start = 0;
        while start < requests.keys.len() {
            let end = (start + step).min(requests.keys.len());
            let weight = self.ageing.advance(end - start);
            if weight.to_bits() != self.weight.to_bits() {
                self.flush()?;
                self.weight = weight;
            }
            self.sample(requests, start, end);
            if self.pending.keys.len() >= BLOCK_SAMPLES {
                self.flush()?;
            }
            while self.pages.as_ref().is_some_and(PageSet::is_over) {
                self.lower_rate()?;
            }
            if let Some(factor) = self.ageing.renormalise() {
                self.flush()?;
                self.scale(factor);
            }
            start = end;
        }
        Ok(())
    }

    /// Appends the sampled requests among `start..end` to the pending ones. A sampled page is
    /// identified by its hash, which is a bijection of the key.
    fn sample(&mut self, requests: Requests<'_>, start: usize, end: usize) {
        let keys = &requests.keys[start..end];
        let pending = &mut self.pending;
        let before = pending.keys.len();
        let count = select(keys, 0, self.threshold, &mut self.selected);
        pending.keys.extend_from_slice(&self.selected[..count]);
        if count > 0 && !(requests.tasks.is_empty() && requests.times_ns.is_empty()) {
            let sampled = (start..end).filter(|&i| page_hash(requests.keys[i]) < self.threshold);
            for i in sampled {
                pending.tasks.extend(requests.tasks.get(i));
                pending.times_ns.extend(requests.times_ns.get(i));
            }
        }
        let sampled = &pending.keys[before..];
        pending.groups.extend(sampled.iter().map(|&hash| hash as u8));
        if let Some(pages) = &mut self.pages {
            sampled.iter().for_each(|&hash| pages.insert(hash));
        }
    }

    /// Runs the pending accesses through every cell.
    fn flush(&mut self) -> Result<()> {
        if self.pending.keys.is_empty() {
            return Ok(());
        }
        let pending = &self.pending;
        let block = Block {
            requests: Requests {
                keys: &pending.keys,
                tasks: &pending.tasks,
                times_ns: &pending.times_ns,
            },
            groups: &pending.groups,
            weight: self.weight,
        };
        let cells = &mut self.cells;
        match &self.pool {
            Some(pool) => pool.install(|| cells.par_iter_mut().try_for_each(|c| c.run(&block)))?,
            None => cells.iter_mut().try_for_each(|c| c.run(&block))?,
        }
        self.sampled += pending.keys.len() as u64;
        for &group in &pending.groups {
            self.seen[usize::from(group) % GROUPS] += self.weight;
        }
        let pending = &mut self.pending;
        pending.keys.clear();
        pending.tasks.clear();
        pending.times_ns.clear();
        pending.groups.clear();
        Ok(())
    }

    /// Drops the pages with the largest hashes from the sample. Counts taken at the old rate are
    /// rescaled, as fixed-size SHARDS does with its histogram.
    fn lower_rate(&mut self) -> Result<()> {
        self.flush()?;
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let dropped = pages.lower();
        let Some(&threshold) = dropped.iter().min() else { return Ok(()) };
        let rate = rate_of(threshold);
        let factor = rate / self.rate;
        self.threshold = threshold;
        self.rate = rate;
        self.scale(factor);
        for cell in &mut self.cells {
            cell.lower_rate(&dropped, rate)?;
        }
        Ok(())
    }

    fn scale(&mut self, factor: f64) {
        self.seen.iter_mut().for_each(|s| *s *= factor);
        self.cells.iter_mut().for_each(|cell| cell.scale(factor));
    }

    /// Returns the rate at which pages are sampled now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the memory of all cells and buffers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let per_sample = (size_of::<u64>() * 2 + size_of::<u32>() + 1) as u64;
        let pending = self.pending.keys.capacity() as u64 * per_sample;
        let pages = self.pages.as_ref().map_or(0, |p| p.len() as u64 * 16);
        self.cells.iter().map(Cell::bytes).sum::<u64>() + pending + pages
    }

    /// Returns one curve per policy, in the order of the configuration.
    ///
    /// # Errors
    /// [`Error::Argument`] when no access was sampled; those of [`Bank::access`].
    pub fn curves(&mut self) -> Result<Vec<Curve>> {
        self.flush()?;
        crate::shards::check_sampled(&self.ageing, self.sampled)?;
        let expected = self.ageing.total() * self.rate;
        let seen = self.seen.iter().copied();
        let correction = CountCorrection::new(seen, self.seen.iter().sum(), expected, self.rate);
        let rows = self.cells.chunks(self.config.sizes_pages.len());
        let curve = |cells: &[Cell]| {
            let (miss_ratio, stderr): (Vec<f64>, Vec<f64>) =
                cells.iter().map(|cell| cell.estimate(&correction, expected)).unzip();
            let ratios = |cell: &Cell| cell.ratios(expected);
            let step =
                |pair: &[Cell]| group_step(&ratios(&pair[0]), &ratios(&pair[1]), &correction);
            let step_stderr =
                std::iter::once(stderr[0]).chain(cells.windows(2).map(step)).collect();
            Curve {
                sizes_pages: self.config.sizes_pages.clone(),
                miss_ratio,
                stderr,
                step_stderr,
                requests: self.ageing.accesses(),
                sampled: self.sampled,
                rate: self.rate,
            }
        };
        Ok(rows.map(curve).collect())
    }
}
