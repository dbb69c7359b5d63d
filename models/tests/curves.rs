// SPDX-License-Identifier: Apache-2.0
//! Exact curves and OPT against the published figures of recorded traces.

#![allow(clippy::unwrap_used)]

mod common;

use cachepilot_models::exact::ExactLru;
use cachepilot_models::opt::OptTrace;

/// The figures have five decimals, some cut rather than rounded.
const TOLERANCE: f64 = 1e-5;

#[test]
fn exact_and_opt_equal_the_recorded_figures() {
    let rows = common::rows("policies.tsv");
    let mut names: Vec<String> = rows.iter().map(|row| row("name")).collect();
    names.dedup();
    for name in names {
        let trace = common::load(&name);
        let mut exact = ExactLru::new(None).unwrap();
        let mut opt = OptTrace::default();
        exact.access(&trace.keys);
        opt.access(&trace.keys).unwrap();
        for row in rows.iter().filter(|row| row("name") == name) {
            let sizes = [row("size").parse().unwrap()];
            let ratios = [exact.curve(&sizes), opt.curve(&sizes)].map(|c| c.unwrap().miss_ratio[0]);
            for (policy, ratio) in ["LRU", "OPT"].into_iter().zip(ratios) {
                let expected: f64 = row(policy).parse().unwrap();
                let error = (ratio - expected).abs();
                println!("{name} {policy} at {}: {ratio:.5} error {error:.6}", sizes[0]);
                assert!(error <= TOLERANCE, "{name} {policy} at {}: {ratio} {expected}", sizes[0]);
            }
        }
    }
}
