// SPDX-License-Identifier: Apache-2.0
//! Traces for tests and benchmarks.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use cachepilot_models::hash::page_hash;

/// A trace: its name, how many pages it has and its page keys.
pub struct Trace {
    pub name: String,
    pub distinct: usize,
    pub keys: Vec<u64>,
}

impl Trace {
    fn new(name: String, keys: Vec<u64>) -> Self {
        let distinct = keys.iter().collect::<HashSet<_>>().len();
        Self { name, distinct, keys }
    }
}

/// Where recorded traces are: `CACHEPILOT_TRACES`, or `shared/traces` beside the checkout.
/// `None`, with a note on stderr, when they are not there.
pub fn trace_dir() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/traces");
    let dir = std::env::var_os("CACHEPILOT_TRACES").map_or_else(|| beside.into(), PathBuf::from);
    if dir.join("index.tsv").exists() {
        return Some(dir);
    }
    eprintln!("skipped: no recorded traces in {} (set CACHEPILOT_TRACES)", dir.display());
    None
}

/// Rows of a tab-separated file as (column name -> value) lookups.
pub fn rows(file: &str) -> Vec<impl Fn(&str) -> String> {
    let Some(text) = trace_dir().and_then(|dir| fs::read_to_string(dir.join(file)).ok()) else {
        return Vec::new();
    };
    let mut lines = text.lines();
    let header: Vec<String> = lines.next().unwrap().split('\t').map(String::from).collect();
    lines
        .map(|line| {
            let values: Vec<String> = line.split('\t').map(String::from).collect();
            let header = header.clone();
            move |column: &str| {
                let at = header.iter().position(|name| name == column).unwrap();
                values.get(at).cloned().unwrap_or_default()
            }
        })
        .collect()
}

/// Every recorded trace of at least `min_distinct` pages; empty when there are none.
pub fn recorded(min_distinct: u64) -> Vec<Trace> {
    let big =
        |row: &dyn Fn(&str) -> String| row("distinct").parse::<u64>().unwrap() >= min_distinct;
    rows("index.tsv").into_iter().filter(|row| big(row)).map(|row| load(&row("name"))).collect()
}

/// The recorded trace `name`.
pub fn load(name: &str) -> Trace {
    let file = trace_dir().unwrap().join(format!("{name}.u64.zst"));
    let mut bytes = Vec::new();
    zstd::Decoder::new(File::open(file).unwrap()).unwrap().read_to_end(&mut bytes).unwrap();
    let (words, _) = bytes.as_chunks::<8>();
    Trace::new(name.into(), words.iter().map(|&word| u64::from_le_bytes(word)).collect())
}

/// `requests` independent draws from `pages` pages with popularity rank^-alpha.
pub fn zipf(requests: usize, pages: usize, alpha: f64, seed: u64) -> Trace {
    let mut cumulative = Vec::with_capacity(pages);
    let mut sum = 0.0;
    for rank in 1..=pages {
        sum += (rank as f64).powf(-alpha);
        cumulative.push(sum);
    }
    let draw = |i: u64| {
        let uniform = page_hash(i ^ (seed << 40)) as f64 / 2f64.powi(64);
        page_hash(cumulative.partition_point(|&c| c < uniform * sum) as u64)
    };
    Trace::new(format!("zipf-{alpha}"), (0..requests as u64).map(draw).collect())
}
