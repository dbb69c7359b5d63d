// SPDX-License-Identifier: Apache-2.0
//! Conversion between formats, and what `info` says of the outcome.

use std::path::Path;

use cachepilot_models::Error;
use cachepilot_models::trace::{
    Header, OpenOptions, Record, RecordReader, RecordWriter, TraceInfo, convert, footprint, info,
};

use super::{NO_OPTIONS, column, file, little_endian, oracle_record, read_all};

/// Converts `src` to a sibling called `name` and reads that.
fn converted(src: &Path, name: &str, options: &OpenOptions) -> (TraceInfo, Vec<u64>) {
    let dst = src.with_file_name(name);
    let count = convert(src, &dst, options, &mut |_| Ok(())).unwrap();
    let (info, all) = (info(&dst, &NO_OPTIONS).unwrap(), read_all(&dst, &NO_OPTIONS).unwrap());
    assert_eq!((count, info.requests), (all.keys.len() as u64, all.keys.len() as u64));
    (info, all.keys)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn keys_survive_every_path() {
    let keys = vec![u64::MAX, 0, 7, 7, 1 << 40];
    let oracle: Vec<u8> = keys.iter().flat_map(|&key| oracle_record(5, key)).collect();
    let csv: String =
        std::iter::once("id".into()).chain(keys.iter().map(|key| format!("\n{key}"))).collect();
    for (name, bytes) in [
        ("a.u64", little_endian(&keys)),
        ("a.oracleGeneral.bin", oracle),
        ("a.csv", csv.into_bytes()),
    ] {
        let (_folder, src) = file(name, &bytes);
        for to in ["b.u64", "b.u64.zst", "b.cptrace", "b.cptrace.zst"] {
            let (info, read) = converted(&src, to, &column("id"));
            assert_eq!(read, keys, "{name} {to}");
            assert_eq!((info.distinct_pages, info.one_hit_ratio), (4, 0.75));
            let back = src.with_file_name(to);
            assert_eq!(converted(&back, "c.u64.zst", &NO_OPTIONS).1, keys, "{name} {to}");
        }
    }
}

#[test]
fn absent_fields_are_marked_absent() {
    let (_folder, src) = file("a.u64", &little_endian(&[3, 4]));
    let (info, _) = converted(&src, "b.cptrace", &NO_OPTIONS);
    assert_eq!((info.duration_ns, info.writes, info.tasks), (None, None, None));
    let mut reader = RecordReader::open(&src.with_file_name("b.cptrace")).unwrap();
    let mut records = Vec::new();
    reader.next_records(&mut records).unwrap();
    assert_eq!(records[1], Record { index: 4, ..Record::default() });

    let oracle = [oracle_record(10, 1), oracle_record(13, 2)].concat();
    let (_folder, src) = file("a.oracleGeneral", &oracle);
    assert_eq!(info_of(&src).duration_ns, Some(3_000_000_000));
    let (info, _) = converted(&src, "b.cptrace.zst", &NO_OPTIONS);
    assert_eq!((info.duration_ns, info.writes, info.tasks), (Some(3_000_000_000), None, None));
}

fn info_of(path: &Path) -> TraceInfo {
    info(path, &NO_OPTIONS).unwrap()
}

#[test]
fn records_are_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let src = folder.path().join("a.cptrace");
    let page = Record { time_ns: 900, cgroup: 1, inode: 2, index: 3, ..Record::default() };
    let written = [
        Record { task: 4, write: true, ..page },
        Record { time_ns: 500, task: 5, device: 6, generation: 7, ..page },
        Record { time_ns: 1500, task: 4, write: true, ..page },
    ];
    let mut writer = RecordWriter::create(&src, Header::FULL).unwrap();
    writer.write(&written).unwrap();
    writer.finish().unwrap();
    converted(&src, "b.cptrace.zst", &NO_OPTIONS);
    let copy = folder.path().join("b.cptrace.zst");
    let mut reader = RecordReader::open(&copy).unwrap();
    let mut records = Vec::new();
    reader.next_records(&mut records).unwrap();
    assert_eq!(records, written);

    let info = info_of(&copy);
    assert_eq!((info.writes, info.tasks, info.duration_ns), (Some(2), Some(2), Some(1000)));
    assert_eq!((info.requests, info.distinct_pages, info.one_hit_ratio), (3, 2, 0.5));
    assert_eq!(footprint(&copy, &NO_OPTIONS).unwrap(), 2);
    let keys: Vec<u64> = written.iter().map(Record::page_key).collect();
    assert_eq!(converted(&copy, "c.u64", &NO_OPTIONS).1, keys);
}

#[test]
fn a_failed_conversion_leaves_the_folder_as_it_was() {
    let mut bytes = little_endian(&(0..300_000).collect::<Vec<_>>());
    bytes.pop();
    let (folder, src) = file("a.u64", &bytes);
    for to in ["b.u64", "b.u64.zst", "b.cptrace", "b.cptrace.zst", "b.csv", "b.oracleGeneral", "b"]
    {
        let dst = folder.path().join(to);
        assert!(convert(&src, &dst, &NO_OPTIONS, &mut |_| Ok(())).is_err(), "{to}");
        assert_eq!(names(folder.path()), ["a.u64"]);
    }
    let missing = folder.path().join("missing.u64");
    for to in ["b.u64", "b.cptrace"] {
        let dst = folder.path().join(to);
        assert!(convert(&missing, &dst, &NO_OPTIONS, &mut |_| Ok(())).is_err());
        assert_eq!(names(folder.path()), ["a.u64"]);
    }
}

#[test]
fn progress_can_stop_a_conversion() {
    let (folder, src) = file("a.u64", &little_endian(&(0..300_000).collect::<Vec<_>>()));
    for to in ["b.u64.zst", "b.cptrace"] {
        let mut shares = Vec::new();
        let outcome = convert(&src, &folder.path().join(to), &NO_OPTIONS, &mut |share| {
            shares.push(share);
            if share > 0.5 { Err(Error::Interrupted) } else { Ok(()) }
        });
        assert!(matches!(outcome, Err(Error::Interrupted)));
        assert!(shares.len() > 1 && shares.is_sorted(), "{shares:?}");
        assert_eq!(names(folder.path()), ["a.u64"]);
    }
}

#[test]
fn a_trace_can_be_converted_onto_itself() {
    let (folder, src) = file("a.u64", &little_endian(&(0..300_000).collect::<Vec<_>>()));
    convert(&src, &src, &NO_OPTIONS, &mut |_| Ok(())).unwrap();
    assert_eq!(info_of(&src).requests, 300_000);
    assert_eq!(names(folder.path()), ["a.u64"]);
}

#[test]
fn info_is_serializable() {
    let (_folder, path) = file("a.u64", &little_endian(&[1, 1, 2, 3]));
    let json: serde_json::Value = serde_json::to_value(info_of(&path)).unwrap();
    let expected = serde_json::json!({
        "format": "u64", "requests": 4, "distinct_pages": 3, "one_hit_ratio": 2.0 / 3.0,
        "duration_ns": null, "writes": null, "tasks": null,
    });
    assert_eq!(json, expected);
}
