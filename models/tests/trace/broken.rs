// SPDX-License-Identifier: Apache-2.0
//! Input that must be refused, each with one line that says what and where.

use std::path::Path;

use cachepilot_models::Error;
use cachepilot_models::trace::{Header, OpenOptions, Record, RecordReader, RecordWriter};

use super::{NO_OPTIONS, column, file, little_endian, packed, read_all, zstd};

/// The message for `path`, which must fail and name the file in one line.
pub(super) fn message_of(path: &Path, options: &OpenOptions) -> String {
    let message = read_all(path, options).unwrap_err().to_string();
    assert!(message.starts_with(&path.display().to_string()), "{message}");
    assert!(!message.contains('\n'), "{message}");
    message
}

#[track_caller]
pub(super) fn refused(name: &str, bytes: &[u8], options: &OpenOptions, words: &[&str]) {
    let (_folder, path) = file(name, bytes);
    let message = message_of(&path, options);
    for word in words {
        assert!(message.contains(word), "no '{word}' in: {message}");
    }
}

/// The bytes of a `.cptrace` file with `count` records.
fn cptrace(count: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cptrace");
    let mut writer = RecordWriter::create(&path, Header::FULL).unwrap();
    for index in 0..count {
        writer.write(&[Record { index, ..Record::default() }]).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn truncated_records_say_at_which_byte() {
    let keys = &little_endian(&[1, 2, 3])[..21];
    refused("a.u64", keys, &NO_OPTIONS, &["truncated", "record at byte 16 has 5 of 8 bytes"]);
    let words = ["truncated", "decompressed byte 16 has 5 of 8"];
    refused("a.u64.zst", &zstd(keys), &NO_OPTIONS, &words);
    let oracle = [0; 24 * 3 + 23];
    refused("a.oracleGeneral", &oracle, &NO_OPTIONS, &["byte 72 has 23 of 24 bytes"]);
    let records = &cptrace(2)[..64 + 48 + 1];
    refused("a.cptrace", records, &NO_OPTIONS, &["byte 112 has 1 of 48 bytes"]);
}

#[test]
fn truncation_is_found_behind_many_chunks() {
    let mut bytes = little_endian(&(0..200_000).collect::<Vec<_>>());
    bytes.push(0);
    refused("a.u64", &bytes, &NO_OPTIONS, &["byte 1600000 has 1 of 8 bytes"]);
    refused("a.u64.zst", &zstd(&bytes), &NO_OPTIONS, &["byte 1600000 has 1 of 8 bytes"]);
}

#[test]
fn a_zstd_frame_cut_anywhere_is_refused() {
    let keys: Vec<u64> = (0..400).map(|i| i * i % 97).collect();
    let (raw, csv) = (little_endian(&keys), format!("id\n{}\n", "12345\n".repeat(50)));
    for (name, whole) in [("a.u64.zst", zstd(&raw)), ("a.csv.zst", zstd(csv.as_bytes()))] {
        let (_folder, path) = file(name, &whole);
        for len in 1..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            let message = message_of(&path, &column("id"));
            assert!(
                message.contains(&format!("ends inside a zstd frame at byte {len}")),
                "{message}"
            );
        }
        std::fs::write(&path, &whole).unwrap();
        read_all(&path, &column("id")).unwrap();
    }
}

#[test]
fn a_zstd_stream_with_any_bit_flipped_is_refused() {
    let keys: Vec<u64> = (0..400).map(|i| i * i % 97).collect();
    let whole = zstd(&little_endian(&keys));
    let (_folder, path) = file("a.u64.zst", &whole);
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(chunk) = read_all(&path, &NO_OPTIONS) {
            assert_eq!(chunk.keys, keys, "bit {bit} may only be one that zstd does not use");
        }
    }
}

#[test]
fn data_that_are_not_zstd_are_refused() {
    let keys = little_endian(&[1, 2, 3]);
    refused("a.u64.zst", &keys, &NO_OPTIONS, &["corrupt zstd data", "near byte 0"]);
    refused("a.csv.zst", b"id\n1\n2\n3\n4\n", &column("id"), &["corrupt zstd data"]);
}

#[test]
fn garbage_behind_the_data_is_refused() {
    let keys = little_endian(&[1, 2, 3]);
    let with = |garbage: &[u8]| [&zstd(&keys), garbage].concat();
    let words = ["garbage after it"];
    refused("a.u64.zst", &with(b"not a zstd frame at all"), &NO_OPTIONS, &words);
    refused("a.u64.zst", &with(&[0; 16]), &NO_OPTIONS, &words);
    refused("a.u64.zst", &with(b"x"), &NO_OPTIONS, &words);
    let start = &zstd(&keys)[..3];
    refused("a.u64.zst", &with(start), &NO_OPTIONS, &["ends inside a zstd frame"]);
    refused("a.u64", &[&keys[..], b"tail"].concat(), &NO_OPTIONS, &["byte 24 has 4 of 8 bytes"]);
    let records = [cptrace(1), vec![0xff; 48]].concat();
    refused("a.cptrace", &records, &NO_OPTIONS, &["byte 112 has flags 0xffffffff"]);
}

#[test]
fn empty_input_is_refused() {
    for name in ["a.u64", "a.oracleGeneral.bin", "a.csv", "a.cptrace"] {
        refused(name, b"", &column("id"), &["empty file"]);
        let name = format!("{name}.zst");
        refused(&name, b"", &column("id"), &["empty file"]);
        refused(&name, &zstd(b""), &column("id"), &["empty trace", "zstd stream"]);
    }
    for name in ["a.cptrace", "a.cptrace.zst"] {
        let header = packed(name, &cptrace(1)[..64]);
        refused(name, &header, &NO_OPTIONS, &["empty trace"]);
    }
    for text in ["id", "id\n", "id\n\n\n"] {
        refused("a.csv", text.as_bytes(), &column("id"), &["empty trace"]);
    }
}

#[test]
fn broken_cptrace_headers_are_refused() {
    let edit = |at: usize, value: u8| {
        let mut bytes = cptrace(1);
        bytes[at] = value;
        bytes
    };
    refused("a.cptrace", &edit(0, 0), &NO_OPTIONS, &["bad magic"]);
    refused("a.cptrace.zst", &zstd(&edit(7, 1)), &NO_OPTIONS, &["bad magic"]);
    refused("a.cptrace", &edit(8, 2), &NO_OPTIONS, &["version 2", "expected 1"]);
    refused("a.cptrace", &edit(12, 56), &NO_OPTIONS, &["record size is 56, expected 48"]);
    refused("a.cptrace", &cptrace(1)[..63], &NO_OPTIONS, &["header has 63 of 64 bytes"]);
}

#[test]
fn cptrace_records_that_contradict_the_header_are_refused() {
    let mut bytes = cptrace(3);
    bytes[64 + 48 + 40] = 7;
    bytes[16] = 1 << 2;
    refused("a.cptrace", &bytes, &NO_OPTIONS, &["byte 112 has a task"]);
}

#[test]
fn csv_needs_a_column_that_exists_once() {
    let text = b"time, page id,size,size\n1,2,3,4\n";
    let listed = "the header has: time, page id, size, size";
    refused("a.csv", text, &NO_OPTIONS, &["needs a column (--column or --offset)", listed]);
    refused("a.csv", text, &column("page"), &["no column 'page'", listed]);
    refused("a.csv", text, &column("size"), &["columns 3 and 4 are both named 'size'"]);
    let wide = (0..100).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",") + "\n";
    refused("a.csv", wide.as_bytes(), &NO_OPTIONS, &["c30, c31 and 68 more"]);
    refused("a.csv", b"1,2\n3,4\n", &column("a"), &["line 1 has '1' where a column's name"]);
    refused("a.csv", b"\"a\nb\",c\n1,2\n", &column("x\ny"), &["'x\\ny'", "a\\nb, c"]);
}

#[test]
fn broken_csv_rows_are_refused() {
    refused("a.csv", b"a,b\n1,2\n3\n", &column("b"), &["line 3 has 1 fields, the header has 2"]);
    refused("a.csv", b"a,b\n1,2\n3,4,5\n", &column("b"), &["line 3 has 3 fields"]);
    refused("a.csv", b"a,b\n1,2\n3, \n", &column("b"), &["line 3 has no value in column 'b'"]);
    let unclosed = [b"a,b\n1,\"2\n".to_vec(), b"3,4\n".repeat(1 << 20)].concat();
    refused("a.csv", &unclosed, &column("b"), &["starts at line 2", "quote"]);
}

#[test]
fn paths_that_are_no_trace_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(message_of(folder.path(), &NO_OPTIONS).contains("is a directory"));
    let named = folder.path().join("a.u64");
    std::fs::create_dir(&named).unwrap();
    assert!(message_of(&named, &NO_OPTIONS).contains("is a directory"));
    let missing = folder.path().join("missing.u64");
    assert!(matches!(read_all(&missing, &NO_OPTIONS), Err(Error::Io { .. })));
    assert!(message_of(&missing, &NO_OPTIONS).contains("No such file"));
    refused("a.trace", b"12345678", &NO_OPTIONS, &["unknown trace suffix", ".u64", ".cptrace"]);
}

#[test]
fn record_readers_take_only_cptrace() {
    let (_folder, path) = file("a.u64", &little_endian(&[1]));
    let message = RecordReader::open(&path).err().unwrap().to_string();
    assert!(message.contains("is a u64 trace, expected .cptrace"), "{message}");
}

#[test]
fn a_reader_does_not_go_on_after_an_error() {
    let mut bytes = cptrace(3);
    bytes[64 + 44] = 2;
    for (name, bytes, column) in [
        ("a.u64", little_endian(&[1, 2, 3])[..20].to_vec(), None),
        ("a.u64.zst", zstd(&little_endian(&[1, 2, 3]))[..20].to_vec(), None),
        ("a.cptrace", bytes, None),
        ("a.csv", b"a,b\n1\n1,2\n".to_vec(), Some("a")),
        ("a.csv", b"a,b\n,2\n1,2\n".to_vec(), Some("a")),
        ("a.csv", b"a,b\n".to_vec(), Some("a")),
    ] {
        let (_folder, path) = file(name, &bytes);
        let options = OpenOptions { column, ..NO_OPTIONS };
        let mut reader = cachepilot_models::trace::open(&path, &options).unwrap();
        for _ in 0..3 {
            assert!(reader.next_chunk(&mut <_>::default()).is_err(), "{name}");
        }
    }
}
