// SPDX-License-Identifier: Apache-2.0
//! Speed of the LRU curves, one thread, Zipf(1.0), 20 million requests over 1 million pages.
//!
//! `cargo bench --bench curves` prints a table, with `-- --json` one JSON object per line with
//! `metric`, `value` (median), `unit`, `runs` and `spread`.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use cachepilot_models::exact::ExactLru;
use cachepilot_models::hash::threshold;
use cachepilot_models::opt::OptTrace;
use cachepilot_models::shards::{FixedRateShards, FixedSizeShards, Options, filter};

const REQUESTS: usize = 20_000_000;
const PAGES: usize = 1_000_000;
const RUNS: usize = 5;
const RATE: f64 = 0.001;

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn exact(keys: &[u64]) -> f64 {
    seconds(|| {
        let mut exact = ExactLru::new(None).unwrap();
        exact.access(keys);
        black_box(exact.curve(&[1]).unwrap());
    })
}

fn fixed_rate(keys: &[u64]) -> f64 {
    seconds(|| {
        let mut shards = FixedRateShards::new(RATE, Options::default()).unwrap();
        shards.access(keys);
        black_box(shards.curve(&[1]).unwrap());
    })
}

fn fixed_size(keys: &[u64]) -> f64 {
    seconds(|| {
        let mut shards = FixedSizeShards::new(8192, Options::default()).unwrap();
        shards.access(keys);
        black_box(shards.curve(&[1]).unwrap());
    })
}

fn opt(keys: &[u64]) -> f64 {
    seconds(|| {
        let mut opt = OptTrace::default();
        opt.access(keys).unwrap();
        black_box(opt.curve(&[PAGES as u64 / 10]).unwrap());
    })
}

fn bare_loop(keys: &[u64]) -> f64 {
    seconds(|| {
        black_box(filter::bare_loop(black_box(keys), threshold(RATE)));
    })
}

/// Runs `measure` [`RUNS`] times and prints the median.
fn report(json: bool, metric: &str, unit: &str, mut measure: impl FnMut() -> f64) {
    let mut values: Vec<f64> = (0..RUNS).map(|_| measure()).collect();
    values.sort_by(f64::total_cmp);
    let (median, spread) = (values[RUNS / 2], [values[0], values[RUNS - 1]]);
    if json {
        let row = serde_json::json!({
            "metric": metric, "value": median, "unit": unit, "runs": RUNS, "spread": spread,
        });
        println!("{row}");
    } else {
        println!("{metric:28} {median:10.3} {unit} ({:.3} to {:.3})", spread[0], spread[1]);
    }
}

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let keys = common::zipf(REQUESTS, PAGES, 1.0, 1).keys;
    let millions = REQUESTS as f64 / 1e6;
    report(json, "models.exact_mreq_s", "Mreq/s", || millions / exact(&keys));
    report(json, "models.bareloop_mreq_s", "Mreq/s", || millions / bare_loop(&keys));
    report(json, "models.shards_r0001_mreq_s", "Mreq/s", || millions / fixed_rate(&keys));
    report(json, "models.shards_vs_bareloop", "ratio", || fixed_rate(&keys) / bare_loop(&keys));
    report(json, "models.shards_smax8192_mreq_s", "Mreq/s", || millions / fixed_size(&keys));
    report(json, "models.opt_mreq_s", "Mreq/s", || millions / opt(&keys));
}
