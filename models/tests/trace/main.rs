// SPDX-License-Identifier: Apache-2.0
//! Trace readers and writers as a user of the crate sees them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod broken;
mod convert;
mod foreign;
mod foreign_broken;
mod foreign_fuzz;
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

/// `bytes` as one gzip member.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// `bytes`, compressed when `name` says so.
fn packed(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name.rsplit('.').next() {
        Some("zst") => zstd(bytes),
        Some("gz") => gzip(bytes),
        _ => bytes.to_vec(),
    }
}

const NO_OPTIONS: OpenOptions = OpenOptions {
    format: None,
    column: None,
    offset: None,
    length: None,
    page_bytes: None,
    whole_requests: false,
};

fn column(column: &str) -> OpenOptions<'_> {
    OpenOptions { column: Some(column), ..NO_OPTIONS }
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

/// A record of vscsi: its version, first sector, length in bytes and time in microseconds.
fn vscsi_record(version: u8, sector: u64, bytes: u32, time_us: u64) -> Vec<u8> {
    let (command, version_word) = (40u16.to_le_bytes(), [0, version]);
    let (serial, entries) = (7u32.to_le_bytes(), 1u32.to_le_bytes());
    let (bytes, sector, time) = (bytes.to_le_bytes(), sector.to_le_bytes(), time_us.to_le_bytes());
    match version {
        1 => [&serial[..], &bytes, &entries, &command, &version_word, &sector, &time].concat(),
        _ => {
            let response = 9u64.to_le_bytes();
            let head = [&command[..], &version_word, &serial, &bytes, &entries].concat();
            [&head[..], &sector, &time, &response].concat()
        }
    }
}

/// A header of lcs that promises so many requests.
fn lcs_header(version: u64, requests: u64) -> Vec<u8> {
    let mut header = vec![0; 8192];
    let magic = 0x1234_5678_9abc_def0u64.to_le_bytes();
    header[..8].copy_from_slice(&magic);
    header[8..16].copy_from_slice(&version.to_le_bytes());
    header[24..32].copy_from_slice(&requests.to_le_bytes());
    header[8184..].copy_from_slice(&magic);
    header
}

/// Bytes of a record of lcs, by version from 1.
const LCS_RECORD_BYTES: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];

/// A record of lcs whose other fields are all ones, which readers must not look at.
fn lcs_record(version: u64, time_s: u32, id: u64) -> Vec<u8> {
    let mut record = vec![0xff; LCS_RECORD_BYTES[version as usize - 1]];
    record[..4].copy_from_slice(&time_s.to_le_bytes());
    record[4..12].copy_from_slice(&id.to_le_bytes());
    record
}
