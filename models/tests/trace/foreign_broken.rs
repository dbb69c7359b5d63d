// SPDX-License-Identifier: Apache-2.0
//! Files of other simulators that must be refused, each with one line that says what and where.

use cachepilot_models::trace::{KeySink, OpenOptions, open};

use super::broken::{message_of, refused};
use super::{NO_OPTIONS, file, gzip, lcs_header, lcs_record, little_endian, vscsi_record, zstd};

#[test]
fn lines_that_are_no_requests_are_refused_by_number() {
    for (name, text, words) in [
        ("a.lirs", "1\n\n2x\n", "line 3 is '2x', expected the number of a block"),
        ("a.lirs", "1\n-2\n", "line 2 is '-2'"),
        ("a.lirs", "18446744073709551616\n", "line 1 is '18446744073709551616'"),
        ("a.arc", "1 2 0 0\n7\n", "line 2 is '7', expected the first block and the number"),
        ("a.arc", "1 x\n", "line 1 is '1 x'"),
        ("a.arc", "1 2097153\n", "line 1 asks for 1073742336 bytes, more than the 1073741824"),
        ("a.arc", "1 99999999999999999999\n", "line 1 is '1 99999999999999999999'"),
        ("a.arc", "1 18446744073709551615\n", "line 1 asks for 18446744073709551615 bytes"),
        ("a.arc", "36028797018963968 1\n", "line 1 reaches beyond byte 2^64"),
        ("a.msr", "1,h,0,Read,0\n", "line 1 has 5 fields, expected the 7 of an msr trace"),
        ("a.msr", "1,h,0,Read,0,1,1,1\n", "line 1 has 8 fields"),
        ("a.msr", "1,h,0,Read,0,1,1\nx,h,0,Read,0,1,1\n", "line 2 has the timestamp 'x'"),
        ("a.msr", "1,h,0,Erase,0,1,1\n", "line 1 has the type 'Erase', expected Read or Write"),
        ("a.msr", "1,h,0,Read,,1,1\n", "line 1 has the offset ''"),
        ("a.msr", "1,h,0,Read,0,-1,1\n", "line 1 has the size '-1'"),
        ("a.msr", "1,h,0,Read,18446744073709551615,2,1\n", "line 1 reaches beyond byte 2^64"),
        ("a.msr", "Timestamp,a\nTimestamp,a\n", "line 2 has 2 fields"),
    ] {
        refused(name, text.as_bytes(), &NO_OPTIONS, &[words]);
    }
    let long = "1".repeat(5000);
    refused("a.lirs", format!("1\n{long}\n").as_bytes(), &NO_OPTIONS, &["line 2 is longer than"]);
    refused("a.lirs", b"1\n\x1b[31m\n", &NO_OPTIONS, &["line 2 is '\\u{1b}[31m'"]);
}

#[test]
fn compressed_data_under_a_plain_name_is_noticed() {
    for name in ["a.lirs", "a.arc", "a.msr"] {
        let words = ["holds gzip data, but is not named .gz"];
        refused(name, &gzip(b"1 2\n"), &NO_OPTIONS, &words);
        let words = ["holds zstd data, but is not named .zst"];
        refused(name, &zstd(b"1 2\n"), &NO_OPTIONS, &words);
    }
}

#[test]
fn broken_vscsi_is_refused_by_byte() {
    let records = |versions: &[u8]| -> Vec<u8> {
        versions.iter().flat_map(|&version| vscsi_record(version, 8, 4096, 0)).collect()
    };
    let other = "the record at byte 32 is of another version than the first";
    refused("a.vscsi", &records(&[1, 2]), &NO_OPTIONS, &[other]);
    let cut = &records(&[2, 2])[..79];
    refused("a.vscsi", cut, &NO_OPTIONS, &["truncated", "record at byte 40 has 39 of 40 bytes"]);
    let words = ["record at decompressed byte 40 has 39 of 40 bytes"];
    refused("a.vscsi.gz", &gzip(cut), &NO_OPTIONS, &words);
    refused("a.vscsi", &records(&[1])[..31], &NO_OPTIONS, &["byte 0 has 31 of 32 bytes"]);
    refused("a.vscsi", &[7; 100], &NO_OPTIONS, &["neither version 1 nor 2 of vscsi"]);
    let long = vscsi_record(1, 0, u32::MAX, 0);
    refused("a.vscsi", &long, &NO_OPTIONS, &["record at byte 0 asks for 4294967295 bytes"]);
    let far = [records(&[1]), vscsi_record(1, 1 << 55, 1, 0)].concat();
    refused("a.vscsi", &far, &NO_OPTIONS, &["record at byte 32 reaches beyond byte 2^64"]);
    refused("a.vscsi", &vscsi_record(1, 5, 0, 0), &NO_OPTIONS, &["empty trace"]);
}

#[test]
fn broken_lcs_is_refused() {
    let edit = |at: usize, byte: u8| {
        let mut bytes = [lcs_header(2, 1), lcs_record(2, 0, 5)].concat();
        bytes[at] = byte;
        bytes
    };
    refused("a.lcs", &edit(0, 1), &NO_OPTIONS, &["its first 8 bytes are not the magic"]);
    refused("a.lcs", &edit(8191, 1), &NO_OPTIONS, &["no magic at its end, byte 8184"]);
    refused("a.lcs", &edit(8, 9), &NO_OPTIONS, &["version 9 of lcs is not known (known: 1 to 8)"]);
    refused("a.lcs", &edit(31, 0x80), &NO_OPTIONS, &["a negative number of requests"]);
    refused("a.lcs", &lcs_header(1, 0)[..8191], &NO_OPTIONS, &["header has 8191 of 8192 bytes"]);
    refused("a.lcs", b"1 2 3", &NO_OPTIONS, &["not an lcs trace"]);
    refused("a.lcs", &lcs_header(1, 0), &NO_OPTIONS, &["empty trace"]);
    let cut = [lcs_header(1, 2), lcs_record(1, 0, 5)].concat();
    refused("a.lcs", &cut, &NO_OPTIONS, &["truncated: 1 requests fewer than the header says"]);
    let part = &[lcs_header(1, 2), lcs_record(1, 0, 5)].concat()[..8200];
    refused("a.lcs", part, &NO_OPTIONS, &["record at byte 8192 has 8 of 24 bytes"]);
}

#[test]
fn a_gzip_member_cut_or_damaged_is_refused() {
    let text = "12345\n".repeat(200);
    let whole = gzip(text.as_bytes());
    let (_folder, path) = file("a.lirs.gz", &whole);
    for len in 1..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let message = message_of(&path, &NO_OPTIONS);
        assert!(message.contains("gzip"), "{message}");
    }
    refused("a.u64.gz", &little_endian(&[1, 2]), &NO_OPTIONS, &["corrupt gzip data"]);
    let tail = [&whole[..], b"tail"].concat();
    refused("a.lirs.gz", &tail, &NO_OPTIONS, &["gzip"]);
    let two = [&whole[..], &whole[..]].concat();
    let (_folder, path) = file("a.lirs.gz", &two);
    assert_eq!(super::read_all(&path, &NO_OPTIONS).unwrap().keys, [12345; 400]);
    refused("a.lirs.gz", &gzip(b""), &NO_OPTIONS, &["empty trace: no requests in its gzip stream"]);
}

#[test]
fn options_that_do_not_fit_the_format_are_refused() {
    let ranges = "is for byte ranges (vscsi, msr, arc, and csv with --offset); this is a";
    let page = |bytes| OpenOptions { page_bytes: Some(bytes), ..NO_OPTIONS };
    let whole = OpenOptions { whole_requests: true, ..NO_OPTIONS };
    let offset = OpenOptions { offset: Some("at"), ..NO_OPTIONS };
    let length = OpenOptions { length: Some("n"), ..NO_OPTIONS };
    for (name, options, words) in [
        ("a.u64", page(4096), format!("page_size: {ranges} u64 trace")),
        ("a.csv", whole, format!("whole_requests: {ranges} csv trace")),
        ("a.msr", offset, "offset: names a column of a csv trace; this is a msr trace".into()),
        ("a.csv", length, "length: names a column of a csv trace beside that of".into()),
        ("a.arc", page(1000), "page_size: 1000 bytes: not a power of two of 512 B".into()),
        ("a.arc", page(256), "page_size: 256 bytes".into()),
        ("a.arc", page(1 << 31), "page_size: 2147483648 bytes".into()),
        ("a.arc", OpenOptions { page_bytes: Some(512), ..whole }, "page_size: whole".into()),
        ("a.u64", OpenOptions { format: Some("spc"), ..NO_OPTIONS }, "format: unknown".into()),
    ] {
        let (_folder, path) = file(name, b"1 1\n");
        let message = open(&path, &options).err().unwrap().to_string();
        assert!(message.starts_with(&words), "{message}");
    }
}

#[test]
fn columns_of_ranges_must_hold_whole_numbers() {
    let options = OpenOptions { offset: Some("at"), length: Some("n"), ..NO_OPTIONS };
    refused("a.csv", b"at,n\n1,1\n0x5,1\n", &options, &["line 3 has '0x5' in column 'at'"]);
    refused("a.csv", b"at,n\n1,\n", &options, &["line 2 has no value in column 'n'"]);
    refused("a.csv", b"at,n\n1,9999999999\n", &options, &["line 2 asks for 9999999999 bytes"]);
    refused("a.csv", b"at,m\n1,1\n", &options, &["no column 'n'; the header has: at, m"]);
    refused("a.csv", b"at,n\n", &options, &["empty trace"]);
}

#[test]
fn foreign_formats_are_only_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.vscsi", "a.lcs", "a.msr", "a.arc", "a.lirs", "a.csv", "a.u64.gz"] {
        let message = KeySink::create(&folder.path().join(name)).err().unwrap().to_string();
        assert!(message.contains("cannot write"), "{message}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_reader_does_not_go_on_after_an_error() {
    for (name, bytes) in [
        ("a.lirs", b"x\n1\n".to_vec()),
        ("a.arc", b"1 9999999\n1 1\n".to_vec()),
        ("a.msr", b"1\n1,h,0,Read,0,1,1\n".to_vec()),
        ("a.vscsi", [vscsi_record(1, 1 << 55, 1, 0), vscsi_record(1, 8, 1, 0)].concat()),
        ("a.lcs", [lcs_header(1, 0), vec![0; 30]].concat()),
        ("a.lirs.gz", gzip(b"1\n2\n")[..20].to_vec()),
    ] {
        let (_folder, path) = file(name, &bytes);
        let mut reader = open(&path, &NO_OPTIONS).unwrap();
        for _ in 0..3 {
            assert!(reader.next_chunk(&mut <_>::default()).is_err(), "{name}");
        }
    }
}
