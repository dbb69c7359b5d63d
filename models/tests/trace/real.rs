// SPDX-License-Identifier: Apache-2.0
//! Recorded traces, where they are present: `CACHEPILOT_TRACES`, or `shared/traces` beside the
//! repository.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cachepilot_models::trace::{OpenOptions, info};

fn folder() -> PathBuf {
    std::env::var_os("CACHEPILOT_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces"),
        PathBuf::from,
    )
}

#[test]
fn counts_are_those_of_the_index() {
    let folder = folder();
    let Ok(index) = std::fs::read_to_string(folder.join("index.tsv")) else {
        eprintln!("skipped: no index.tsv in {}", folder.display());
        return;
    };
    let mut lines = index.lines();
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let mut checked = 0;
    for line in lines.filter(|line| !line.is_empty()) {
        let row: HashMap<&str, &str> = header.iter().copied().zip(line.split('\t')).collect();
        let path = folder.join(format!("{}.u64.zst", row["name"]));
        let info = info(&path, &OpenOptions::default()).unwrap();
        assert_eq!(info.requests.to_string(), row["requests"], "{}", row["name"]);
        assert_eq!(info.distinct_pages.to_string(), row["distinct"], "{}", row["name"]);
        assert_eq!(format!("{:.4}", info.one_hit_ratio), row["one_hit_ratio"], "{}", row["name"]);
        checked += 1;
    }
    assert!(checked > 0);
}
