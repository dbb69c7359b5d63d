// SPDX-License-Identifier: Apache-2.0
//! What the benchmarks share: arguments, the trace, rows of results.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Keys per read of [`for_each_block`]: 512 KiB.
const READ_KEYS: usize = 1 << 16;

/// Arguments after `--`: `--json`, `--trace FILE.u64` and whatever the benchmark itself knows.
pub struct Args {
    words: Vec<String>,
}

impl Args {
    pub fn new() -> Self {
        Self { words: std::env::args().skip(1).collect() }
    }

    pub fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    /// The word after `flag`.
    pub fn value(&self, flag: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == flag)?;
        self.words.get(at + 1).map(String::as_str)
    }

    pub fn trace(&self) -> Option<PathBuf> {
        self.value("--trace").map(PathBuf::from)
    }
}

/// Reads a `.u64` file through one small buffer, so that the trace itself costs no memory.
pub fn for_each_block(path: &Path, mut work: impl FnMut(&[u64])) {
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut bytes = vec![0u8; READ_KEYS * 8];
    let mut keys = Vec::with_capacity(READ_KEYS);
    loop {
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read(&mut bytes[filled..]).unwrap() {
                0 => break,
                count => filled += count,
            }
        }
        if filled == 0 {
            return;
        }
        keys.clear();
        keys.extend(
            bytes[..filled].as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word)),
        );
        work(&keys);
    }
}

/// All keys of a `.u64` file.
pub fn read_keys(path: &Path) -> Vec<u64> {
    let mut all = Vec::new();
    for_each_block(path, |keys| all.extend_from_slice(keys));
    all
}

pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Prints the median of `values` and their spread, as a table line or a JSON object.
pub fn report(json: bool, metric: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    print_row(json, metric, unit, values[values.len() / 2], &values);
}

/// The same with the mean for a value: for estimates, whose error is not a disturbance.
pub fn report_mean(json: bool, metric: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    print_row(json, metric, unit, values.iter().sum::<f64>() / values.len() as f64, &values);
}

fn print_row(json: bool, metric: &str, unit: &str, value: f64, sorted: &[f64]) {
    let (runs, spread) = (sorted.len(), [sorted[0], sorted[sorted.len() - 1]]);
    if json {
        let row = serde_json::json!({
            "metric": metric, "value": value, "unit": unit, "runs": runs, "spread": spread,
        });
        println!("{row}");
    } else {
        println!("{metric:40} {value:10.4} {unit} ({:.4} to {:.4})", spread[0], spread[1]);
    }
}
