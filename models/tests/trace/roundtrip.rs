// SPDX-License-Identifier: Apache-2.0
//! What a writer wrote, its reader gives back.

use std::fmt::Write;

use cachepilot_models::trace::{
    CHUNK_REQUESTS, Chunk, Header, KeyWriter, OpenOptions, Record, RecordReader, RecordWriter,
    TraceReader, open,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{column, file, oracle_record, packed, read_all};

/// Lengths around the size of a chunk, where off-by-one errors live, and short ones.
fn lengths() -> impl Strategy<Value = usize> {
    let around = |n: usize| n - 2..n + 3;
    prop_oneof![6 => 1..300usize, 1 => around(CHUNK_REQUESTS), 1 => around(2 * CHUNK_REQUESTS)]
}

/// `len` values that a seed determines, cheaper to generate and to shrink than a vector.
fn values(len: usize, seed: u64) -> Vec<u64> {
    (0..len as u64).map(|i| cachepilot_models::hash::page_hash(seed ^ i)).collect()
}

fn header() -> impl Strategy<Value = Header> {
    any::<[bool; 4]>().prop_map(|[opaque_keys, has_times, has_tasks, has_directions]| Header {
        opaque_keys,
        has_times,
        has_tasks,
        has_directions,
    })
}

/// Records with every field random that `header` allows.
fn records(header: Header, len: usize, seed: u64) -> Vec<Record> {
    values(len, seed)
        .chunks(6)
        .map(|v| v.iter().copied().chain(std::iter::repeat(u64::MAX)))
        .map(|mut v| {
            let mut next = || v.next().unwrap();
            let (full, times) = (!header.opaque_keys, header.has_times);
            let (time_ns, cgroup, inode, index) = (next(), next(), next(), next());
            let (a, b) = (next(), next());
            Record {
                time_ns: if times { time_ns } else { 0 },
                cgroup,
                inode: if full { inode } else { 0 },
                index,
                device: if full { a as u32 } else { 0 },
                generation: if full { (a >> 32) as u32 } else { 0 },
                task: if header.has_tasks { b as u32 } else { 0 },
                write: header.has_directions && b >> 63 == 1,
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn keys(len in lengths(), seed: u64, step in 1..5000usize, zstd: bool) {
        let keys = values(len, seed);
        let (_folder, path) = file(if zstd { "a.u64.zst" } else { "a.u64" }, b"");
        let mut writer = KeyWriter::create(&path).unwrap();
        for part in keys.chunks(step) {
            writer.write(part).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap(), len as u64);
        let all = read_all(&path, &OpenOptions::default()).unwrap();
        prop_assert_eq!(all.keys, keys);
        prop_assert!(all.tasks.is_empty() && all.times_ns.is_empty());
    }

    #[test]
    fn record_columns(len in lengths(), seed: u64, header in header(), zstd: bool) {
        let written = records(header, len, seed);
        let (_folder, path) = file(if zstd { "a.cptrace.zst" } else { "a.cptrace" }, b"");
        let mut writer = RecordWriter::create(&path, header).unwrap();
        writer.write(&written).unwrap();
        writer.finish().unwrap();

        let mut reader = RecordReader::open(&path).unwrap();
        prop_assert_eq!(reader.header(), header);
        let (mut read, mut part) = (Vec::new(), Vec::new());
        loop {
            reader.next_records(&mut part).unwrap();
            if part.is_empty() {
                break;
            }
            read.extend_from_slice(&part);
        }
        prop_assert_eq!(&read, &written);

        let all = read_all(&path, &OpenOptions::default()).unwrap();
        let keys: Vec<u64> = written.iter().map(|record| header.page_key(record)).collect();
        prop_assert_eq!(all.keys, keys);
        let tasks: Vec<u32> = written.iter().map(|record| record.task).collect();
        prop_assert_eq!(all.tasks, if header.has_tasks { tasks } else { vec![] });
        let since = |record: &Record| record.time_ns.saturating_sub(written[0].time_ns);
        let times: Vec<u64> = written.iter().map(since).collect();
        prop_assert_eq!(all.times_ns, if header.has_times { times } else { vec![] });
    }

    #[test]
    fn oracle_general(len in lengths(), seed: u64, bin: bool, zstd: bool) {
        let ids = values(len, seed);
        let bytes: Vec<u8> = ids
            .iter()
            .enumerate()
            .flat_map(|(i, &id)| oracle_record(1000 + i as u32 / 3, id))
            .collect();
        let mut name = String::from(if bin { "a.oracleGeneral.bin" } else { "a.oracleGeneral" });
        name += if zstd { ".zst" } else { "" };
        let (_folder, path) = file(&name, &packed(&name, &bytes));
        let all = read_all(&path, &OpenOptions::default()).unwrap();
        prop_assert_eq!(all.keys, ids);
        let times: Vec<u64> = (0..len as u64).map(|i| i / 3 * 1_000_000_000).collect();
        prop_assert_eq!(all.times_ns, times);
    }

    #[test]
    fn csv_numbers(len in lengths(), seed: u64, hex: bool, crlf: bool, zstd: bool) {
        let keys = values(len, seed);
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("\u{feff}page , note{end}");
        for key in &keys {
            if hex {
                write!(text, "{key:#x},\"a, b\"{end}").unwrap();
            } else {
                write!(text, " {key} ,{end}").unwrap();
            }
        }
        let name = if zstd { "a.csv.zst" } else { "a.csv" };
        let (_folder, path) = file(name, &packed(name, text.as_bytes()));
        prop_assert_eq!(read_all(&path, &column("page")).unwrap().keys, keys);
    }

    #[test]
    fn csv_texts_are_equal_exactly_when_their_keys_are(
        texts in vec("[a-c/]{1,3}|[ -~&&[^\",]]{1,20}".prop_filter("empty", |t| !t.trim().is_empty()), 1..60),
    ) {
        let hashed: Vec<String> = texts.iter().map(|text| format!("/{}", text.trim())).collect();
        let (_folder, path) = file("a.csv", format!("id\n{}\n", hashed.join("\n")).as_bytes());
        let keys = read_all(&path, &column("id")).unwrap().keys;
        prop_assert_eq!(keys.len(), hashed.len());
        for (a, key_a) in hashed.iter().zip(&keys) {
            for (b, key_b) in hashed.iter().zip(&keys) {
                prop_assert_eq!(a == b, key_a == key_b, "{} {}", a, b);
            }
        }
    }
}

#[test]
fn concatenated_zstd_files_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.u64.zst");
    let mut bytes = Vec::new();
    for part in [[1, 2], [3, 4]] {
        let mut writer = KeyWriter::create(&path).unwrap();
        writer.write(&part).unwrap();
        writer.finish().unwrap();
        bytes.extend(std::fs::read(&path).unwrap());
    }
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(read_all(&path, &OpenOptions::default()).unwrap().keys, [1, 2, 3, 4]);
}

#[test]
fn progress_follows_the_file() {
    let keys = values(40 * CHUNK_REQUESTS, 1);
    for name in ["a.u64", "a.u64.zst"] {
        let (_folder, path) = file(name, b"");
        let mut writer = KeyWriter::create(&path).unwrap();
        writer.write(&keys).unwrap();
        writer.finish().unwrap();
        let mut reader = open(&path, &OpenOptions::default()).unwrap();
        assert!(reader.progress() < 0.01);
        let mut chunk = Chunk::default();
        (0..20).for_each(|_| reader.next_chunk(&mut chunk).unwrap());
        assert!((0.45..0.55).contains(&reader.progress()), "{name}: {}", reader.progress());
        (0..21).for_each(|_| reader.next_chunk(&mut chunk).unwrap());
        assert!((reader.progress() - 1.0).abs() < 1e-9, "{name}: {}", reader.progress());
    }
}

#[test]
fn chunks_are_full_until_the_last() {
    let keys = values(CHUNK_REQUESTS + 7, 1);
    let (_folder, path) = file("a.u64", b"");
    let mut writer = KeyWriter::create(&path).unwrap();
    writer.write(&keys).unwrap();
    writer.finish().unwrap();
    let mut reader = open(&path, &OpenOptions::default()).unwrap();
    let mut chunk = Chunk::default();
    for expected in [CHUNK_REQUESTS, 7, 0, 0] {
        TraceReader::next_chunk(reader.as_mut(), &mut chunk).unwrap();
        assert_eq!(chunk.keys.len(), expected);
    }
}
