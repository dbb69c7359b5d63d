// SPDX-License-Identifier: Apache-2.0
//! The bank of all policies at 16 sizes: time per raw access, one thread, and resident memory.
//!
//! `--trace FILE.u64` is the trace (needed), `--json` prints JSON, `--runs N` times N runs, and
//! `--rss NAME,NAME...` names the policies whose single instances are weighed as well. Sizes are
//! 16, each the same factor above the one before, from 1% of the footprint to all of it.
//!
//! Memory is weighed from outside: every measurement is a process of its own that reads the trace
//! through a small buffer, and counts the growth of its resident set.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use cachepilot_models::curve::geometric_size_grid;
use cachepilot_models::minisim::{Bank, BankConfig, Sampling};
use cachepilot_models::policy::{Instance, InstanceConfig, Requests, find, policies};
use support::{Args, for_each_block, read_keys, report, seconds};

const POINTS: usize = 16;
const RATE: f64 = 0.01;
const S_MAX: usize = 8192;
const RUNS: usize = 5;

/// Something that takes the next keys of the trace.
type Feed = Box<dyn FnMut(&[u64])>;

fn bank(footprint: u64, sampling: Sampling) -> Bank {
    Bank::new(BankConfig {
        policies: policies().iter().map(Into::into).collect(),
        sizes_pages: geometric_size_grid(footprint.div_ceil(100), footprint, POINTS),
        sampling,
        half_life: None,
        seed: 1,
        threads: 1,
    })
    .unwrap()
}

fn ns_per_access(keys: &[u64], footprint: u64) -> f64 {
    let took = seconds(|| {
        let mut bank = bank(footprint, Sampling::Rate(RATE));
        bank.access(Requests::of_keys(keys)).unwrap();
        assert_eq!(bank.curves().unwrap().len(), policies().len());
    });
    took * 1e9 / keys.len() as f64
}

/// A line of `/proc/self/status`, bytes.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Pages of the cache that warms a process up.
const WARM_UP_PAGES: u64 = 64;

/// Growth of the resident set, at its peak and at the end, while what `create` makes for a number
/// of pages is fed the trace. A tiny one goes first, so that the code is resident before, and the
/// growth counts from the first block, when the buffers are.
fn growth(trace: &Path, pages: u64, create: impl Fn(u64) -> Feed) -> [u64; 2] {
    let mut small = create(WARM_UP_PAGES.min(pages));
    for_each_block(trace, |keys| small(keys));
    drop(small);
    let mut measured: Option<(u64, Feed)> = None;
    let mut grown = [0; 2];
    for_each_block(trace, |keys| {
        let (before, run) = measured.get_or_insert_with(|| {
            // Forgets the peak so far: proc(5), clear_refs.
            fs::write("/proc/self/clear_refs", "5").unwrap();
            (status_bytes("VmRSS"), create(pages))
        });
        run(keys);
        grown = ["VmHWM", "VmRSS"].map(|name| status_bytes(name).saturating_sub(*before));
    });
    grown
}

/// The measurement of a child: prints bytes at the peak and bytes at the end.
fn weigh(what: &str, trace: &Path, pages: u64) {
    let [peak, last] = growth(trace, pages, |pages| match what {
        "bank" => {
            let mut bank = bank(pages, Sampling::Size(S_MAX.min(pages as usize)));
            Box::new(move |keys| bank.access(Requests::of_keys(keys)).unwrap())
        }
        name => {
            let config =
                InstanceConfig { capacity_pages: pages, batch: 1, seed: 1, tunables: vec![] };
            let mut instance = Instance::new(find(name).unwrap(), &config).unwrap();
            Box::new(move |keys| instance.run(Requests::of_keys(keys), None).unwrap())
        }
    });
    println!("{peak} {last}");
}

/// Bytes that `what` ("bank" or a policy) grows a fresh process by: at the peak, at the end.
fn weigh_in_child(what: &str, trace: &Path, pages: u64) -> [f64; 2] {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--weigh", what, "--pages", &pages.to_string(), "--trace"])
        .arg(trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    [words[0], words[1]]
}

fn main() {
    let args = Args::new();
    let Some(trace) = args.trace() else {
        eprintln!("skipped: the bank needs --trace FILE.u64");
        return;
    };
    if let Some(what) = args.value("--weigh") {
        weigh(what, &trace, args.value("--pages").unwrap().parse().unwrap());
        return;
    }
    let json = args.has("--json");
    let runs = args.value("--runs").map_or(RUNS, |n| n.parse().unwrap());
    let keys = read_keys(&trace);
    let footprint = keys.iter().collect::<HashSet<_>>().len() as u64;
    let times = (0..runs).map(|_| ns_per_access(&keys, footprint)).collect();
    report(json, "models.bank_ns_per_access", "ns", times);
    drop(keys);
    let mib = |_| weigh_in_child("bank", &trace, footprint)[0] / f64::from(1 << 20);
    report(json, "models.bank_mib", "MiB", (0..runs).map(mib).collect());
    let pages = footprint.div_ceil(10);
    for name in args.value("--rss").into_iter().flat_map(|names| names.split(',')) {
        let [peak, last] = weigh_in_child(name, &trace, pages).map(|bytes| bytes / pages as f64);
        report(json, &format!("models.rss_bytes_per_page.{name}"), "bytes", vec![last]);
        report(json, &format!("models.rss_peak_bytes_per_page.{name}"), "bytes", vec![peak]);
    }
}
