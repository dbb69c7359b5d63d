// SPDX-License-Identifier: Apache-2.0
//! Error of SHARDS against exact curves over the recorded traces of at least 100,000 pages, and
//! how often its error bars hold the truth; 100 sizes evenly spaced up to the footprint.
//!
//! Sampling is by hash, so every run is a seed. Values are means over seeds, the spread is over
//! seeds, and a seed gives the mean over traces (`shards_mae`), the worst trace (`shards_max`) and
//! the share of all points (`shards_errorbar_coverage`). `--json`, `--seeds N`, `--traces N` as many traces at most.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;
mod support;

use cachepilot_models::curve::{Curve, size_grid};
use cachepilot_models::exact::ExactLru;
use cachepilot_models::shards::{FixedRateShards, FixedSizeShards, Options};
use support::{Args, report_mean};

const MIN_DISTINCT: u64 = 100_000;
const POINTS: usize = 100;
const SEEDS: u64 = 30;
const SAMPLERS: [&str; 2] = ["smax8192", "r001"];

/// What one seed gave for one sampler.
#[derive(Default)]
struct Run {
    /// Mean absolute error per trace.
    errors: Vec<f64>,
    covered: usize,
    points: usize,
}

impl Run {
    fn add(&mut self, estimate: &Curve, truth: &Curve) {
        let errors: Vec<f64> = estimate
            .miss_ratio
            .iter()
            .zip(&truth.miss_ratio)
            .map(|(estimate, truth)| (estimate - truth).abs())
            .collect();
        self.covered +=
            errors.iter().enumerate().filter(|&(i, &e)| e <= estimate.error_bar(i)).count();
        self.points += errors.len();
        self.errors.push(errors.iter().sum::<f64>() / errors.len() as f64);
    }

    fn mean(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len() as f64
    }

    fn worst(&self) -> f64 {
        self.errors.iter().copied().fold(0.0, f64::max)
    }
}

fn estimate(sampler: usize, keys: &[u64], seed: u64, sizes: &[u64]) -> Curve {
    let options = Options { seed, half_life: None };
    if sampler == 0 {
        let mut shards = FixedSizeShards::new(8192, options).unwrap();
        shards.access(keys);
        return shards.curve(sizes).unwrap();
    }
    let mut shards = FixedRateShards::new(0.01, options).unwrap();
    shards.access(keys);
    shards.curve(sizes).unwrap()
}

fn main() {
    let args = Args::new();
    let json = args.has("--json");
    let seeds = args.value("--seeds").map_or(SEEDS, |n| n.parse().unwrap());
    let mut traces = common::recorded(MIN_DISTINCT);
    traces.truncate(args.value("--traces").map_or(usize::MAX, |n| n.parse().unwrap()));
    if traces.is_empty() {
        return;
    }
    let mut runs: [Vec<Run>; 2] = SAMPLERS.map(|_| (0..seeds).map(|_| Run::default()).collect());
    for trace in &traces {
        eprintln!("{}: exact curve, then {seeds} seeds", trace.name);
        let mut exact = ExactLru::new(None).unwrap();
        exact.access(&trace.keys);
        let truth = exact.curve(&size_grid(exact.footprint_pages(), POINTS)).unwrap();
        for (sampler, runs) in runs.iter_mut().enumerate() {
            for (seed, run) in (0..seeds).zip(runs) {
                run.add(&estimate(sampler, &trace.keys, seed, &truth.sizes_pages), &truth);
            }
        }
    }
    for (name, runs) in SAMPLERS.iter().zip(&runs) {
        let show = |metric: &str, unit: &str, of: &dyn Fn(&Run) -> f64| {
            report_mean(
                json,
                &format!("models.{metric}.{name}"),
                unit,
                runs.iter().map(of).collect(),
            );
        };
        show("shards_mae", "miss ratio", &Run::mean);
        show("shards_max", "miss ratio", &Run::worst);
        let share = |run: &Run| run.covered as f64 / run.points as f64;
        show("shards_errorbar_coverage", "share", &share);
    }
}
