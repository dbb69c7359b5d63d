// SPDX-License-Identifier: Apache-2.0
//! Trace readers and writers as a user of the crate sees them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod broken;
mod convert;
mod fuzz;
mod real;
mod roundtrip;

use std::path::{Path, PathBuf};

use cachepilot_models::Result;
use cachepilot_models::trace::{Chunk, OpenOptions, open};
use tempfile::TempDir;

/// A file called `name` that holds `bytes`, in a folder of its own.
fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// `bytes` as one zstd frame with a checksum.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// `bytes`, compressed when `name` says so.
fn packed(name: &str, bytes: &[u8]) -> Vec<u8> {
    if name.ends_with(".zst") { zstd(bytes) } else { bytes.to_vec() }
}

fn column(column: &str) -> OpenOptions<'_> {
    OpenOptions { column: Some(column) }
}

/// Every request of `path` in one chunk.
fn read_all(path: &Path, options: &OpenOptions) -> Result<Chunk> {
    let mut reader = open(path, options)?;
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    let mut before = 0.0;
    loop {
        reader.next_chunk(&mut chunk)?;
        let progress = reader.progress();
        assert!((before..=1.0).contains(&progress), "progress went from {before} to {progress}");
        before = progress;
        if chunk.keys.is_empty() {
            reader.next_chunk(&mut chunk)?;
            assert!(chunk.keys.is_empty(), "the end is final");
            return Ok(all);
        }
        assert!(chunk.tasks.is_empty() || chunk.tasks.len() == chunk.keys.len());
        assert!(chunk.times_ns.is_empty() || chunk.times_ns.len() == chunk.keys.len());
        all.keys.extend(&chunk.keys);
        all.tasks.extend(&chunk.tasks);
        all.times_ns.extend(&chunk.times_ns);
    }
}

fn little_endian(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

/// An oracleGeneral record with a size and a next access, which readers must not look at.
fn oracle_record(time_s: u32, id: u64) -> Vec<u8> {
    let mut bytes = time_s.to_le_bytes().to_vec();
    bytes.extend(id.to_le_bytes());
    bytes.extend(4096u32.to_le_bytes());
    bytes.extend((-1i64).to_le_bytes());
    bytes
}
