// SPDX-License-Identifier: Apache-2.0
//! Workloads of the benchmarks, and the truth about them.
#![allow(clippy::unwrap_used)]

use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::{Candidate, Instance, InstanceConfig, KERNEL_BATCH, Requests};
use cachepilot_models::trace::{Chunk, OpenOptions, open};
use std::path::Path;

/// A stream of page keys without end.
pub enum Workload {
    /// Popularity rank^-alpha, by its cumulative sum.
    Zipf(Vec<f64>),
    /// So many pages, one after the other.
    Loop(u64),
    /// So many pages, all alike.
    Uniform(u64),
    /// One access in five is the next of pages that never come back.
    ScanAnd(Box<Workload>),
    /// A recorded trace, again and again.
    Trace(Vec<u64>),
}

impl Workload {
    pub fn zipf(pages: usize, alpha: f64) -> Self {
        let mut sum = 0.0;
        let step = |rank: usize| {
            sum += (rank as f64).powf(-alpha);
            sum
        };
        Self::Zipf((1..=pages).map(step).collect())
    }

    pub fn trace(path: &Path) -> Self {
        let mut reader = open(path, &OpenOptions::default()).unwrap();
        let (mut keys, mut chunk) = (Vec::new(), Chunk::default());
        loop {
            reader.next_chunk(&mut chunk).unwrap();
            if chunk.keys.is_empty() {
                return Self::Trace(keys);
            }
            keys.extend_from_slice(&chunk.keys);
        }
    }

    /// Key of access `i`; another seed is another workload of the kind.
    pub fn key(&self, i: u64, seed: u64) -> u64 {
        let uniform = page_hash(i ^ (seed << 40)) as f64 / 2f64.powi(64);
        match self {
            Self::Zipf(sums) => {
                let at = uniform * sums.last().unwrap();
                page_hash(seed << 32 | sums.partition_point(|&s| s < at) as u64)
            }
            Self::Loop(pages) => page_hash((seed << 32) | (i % pages)),
            Self::Uniform(pages) => page_hash(seed << 32 | (uniform * *pages as f64) as u64),
            Self::ScanAnd(_) if i.is_multiple_of(5) => page_hash(1 << 60 | seed << 32 | i),
            Self::ScanAnd(other) => other.key(i, seed),
            Self::Trace(keys) => keys[i as usize % keys.len()] ^ page_hash(seed),
        }
    }

    pub fn keys(&self, accesses: std::ops::Range<u64>, seed: u64) -> Vec<u64> {
        accesses.map(|i| self.key(i, seed)).collect()
    }
}

/// Miss ratio over `measured` of a cache of real size that was warmed by `before`.
pub fn full_simulation(candidate: &Candidate, size: u64, before: &[u64], measured: &[u64]) -> f64 {
    let tunables = candidate.tunables.clone();
    let config = InstanceConfig { capacity_pages: size, batch: KERNEL_BATCH, seed: 1, tunables };
    let mut cache = Instance::new(candidate.policy, &config).unwrap();
    cache.run(Requests::of_keys(before), None).unwrap();
    let cold = cache.stats().misses;
    cache.run(Requests::of_keys(measured), None).unwrap();
    (cache.stats().misses - cold) as f64 / measured.len() as f64
}

/// Memory of this process that is in memory: the second number of `statm`, pages of 4 KiB.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

pub fn print_row(json: bool, metric: &str, unit: &str, value: f64) {
    match json {
        true => println!(
            "{}",
            serde_json::json!({"metric": metric, "value": value, "unit": unit, "runs": 1})
        ),
        false => println!("{metric:44} {value:10.4} {unit}"),
    }
}
