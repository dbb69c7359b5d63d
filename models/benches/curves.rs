// SPDX-License-Identifier: Apache-2.0
//! Speed of the LRU curves, one thread, Zipf(1.0), 20 million requests over 1 million pages.
//!
//! `cargo bench --bench curves` prints a table, with `-- --json` one JSON object per line with
//! `metric`, `value` (median), `unit`, `runs` and `spread`. `--trace FILE.u64` takes another trace.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;
mod support;

use std::hint::black_box;

use cachepilot_models::exact::ExactLru;
use cachepilot_models::hash::threshold;
use cachepilot_models::opt::OptTrace;
use cachepilot_models::shards::{FixedRateShards, FixedSizeShards, Options, filter};
use support::{Args, report, seconds};

const REQUESTS: usize = 20_000_000;
const PAGES: usize = 1_000_000;
const RUNS: usize = 5;
const RATE: f64 = 0.001;

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
        black_box(opt.curve(&[opt.footprint_pages().div_ceil(10)]).unwrap());
    })
}

fn bare_loop(keys: &[u64]) -> f64 {
    seconds(|| {
        black_box(filter::bare_loop(black_box(keys), threshold(RATE)));
    })
}

fn main() {
    let args = Args::new();
    let json = args.has("--json");
    let keys = args.trace().map_or_else(
        || common::zipf(REQUESTS, PAGES, 1.0, 1).keys,
        |path| support::read_keys(&path),
    );
    let millions = keys.len() as f64 / 1e6;
    let show = |metric: &str, unit: &str, measure: &dyn Fn() -> f64| {
        report(json, metric, unit, (0..RUNS).map(|_| measure()).collect());
    };
    show("models.exact_mreq_s", "Mreq/s", &|| millions / exact(&keys));
    show("models.bareloop_mreq_s", "Mreq/s", &|| millions / bare_loop(&keys));
    show("models.shards_r0001_mreq_s", "Mreq/s", &|| millions / fixed_rate(&keys));
    show("models.shards_vs_bareloop", "ratio", &|| fixed_rate(&keys) / bare_loop(&keys));
    show("models.shards_smax8192_mreq_s", "Mreq/s", &|| millions / fixed_size(&keys));
    show("models.opt_mreq_s", "Mreq/s", &|| millions / opt(&keys));
}
