// SPDX-License-Identifier: Apache-2.0
//! Formats of other simulators: what a file of each holds, derived by hand.

use cachepilot_models::trace::{CHUNK_REQUESTS, OpenOptions, convert, info};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    LCS_RECORD_BYTES, NO_OPTIONS, file, lcs_header, lcs_record, packed, read_all, vscsi_record,
};

const WHOLE: OpenOptions = OpenOptions { whole_requests: true, ..NO_OPTIONS };

fn pages_of(page_bytes: u64) -> OpenOptions<'static> {
    OpenOptions { page_bytes: Some(page_bytes), ..NO_OPTIONS }
}

/// The keys of a file, read plain and with each compression.
#[track_caller]
fn keys(suffix: &str, bytes: &[u8], options: &OpenOptions) -> Vec<u64> {
    let read = |packing: &str| {
        let name = format!("a.{suffix}{packing}");
        let (_folder, path) = file(&name, &packed(&name, bytes));
        read_all(&path, options).unwrap()
    };
    let plain = read("");
    for packing in [".zst", ".gz"] {
        assert_eq!(read(packing).keys, plain.keys, "{packing}");
        assert_eq!(read(packing).times_ns, plain.times_ns, "{packing}");
    }
    plain.keys
}

#[test]
fn a_block_per_line_is_lirs() {
    let text = b"5\n*\n\n 7 \r\n18446744073709551615\n5";
    for suffix in ["lirs", "trc"] {
        assert_eq!(keys(suffix, text, &NO_OPTIONS), [5, 7, u64::MAX, 5]);
    }
}

#[test]
fn ranges_of_blocks_are_arc() {
    let text = b"10 3 0 0\n12 1 0 1\n\n7\t2\n900 0 0 3\n";
    for suffix in ["arc", "lis"] {
        assert_eq!(keys(suffix, text, &NO_OPTIONS), [10, 11, 12, 12, 7, 8]);
        assert_eq!(keys(suffix, text, &pages_of(4096)), [1, 1, 0, 1], "blocks 7 and 8 meet there");
        assert_eq!(keys(suffix, text, &WHOLE), [10, 12, 7, 900]);
    }
}

#[test]
fn both_versions_of_vscsi_are_recognised() {
    for version in [1, 2] {
        let record = |sector, bytes, time_us| vscsi_record(version, sector, bytes, time_us);
        assert_eq!(record(0, 0, 0).len(), if version == 1 { 32 } else { 40 });
        // Sectors 15 and 16 are of pages 1 and 2; 16 to 31 of pages 2 and 3; the third asks nothing.
        let trace =
            [record(15, 1024, 1_000_005), record(16, 8192, 1_000_007), record(99, 0, 2_000_005)];
        let bytes = trace.concat();
        assert_eq!(keys("vscsi", &bytes, &NO_OPTIONS), [1, 2, 2, 3], "version {version}");
        assert_eq!(keys("vscsi", &bytes, &WHOLE), [15, 16, 99]);
        assert_eq!(keys("vscsi", &bytes, &pages_of(8192)), [0, 1, 1]);
        let (_folder, path) = file("a.vscsi", &bytes);
        assert_eq!(read_all(&path, &NO_OPTIONS).unwrap().times_ns, [0, 0, 2000, 2000]);
        assert_eq!(info(&path, &WHOLE).unwrap().duration_ns, Some(1_000_000_000));
    }
}

#[test]
fn a_serial_number_does_not_pass_for_a_version() {
    let mut records = [vscsi_record(1, 8, 4096, 0), vscsi_record(1, 16, 4096, 1)].concat();
    records[3] = 2;
    assert_eq!(keys("vscsi", &records, &NO_OPTIONS), [1, 2]);
}

#[test]
fn every_version_of_lcs_is_read() {
    for (version, size) in (1..).zip(LCS_RECORD_BYTES) {
        let record = |time_s, id| lcs_record(version, time_s, id);
        assert_eq!(record(0, 0).len(), size);
        let records = [record(100, 9), record(103, u64::MAX), record(90, 9)].concat();
        for promised in [0, 3] {
            let bytes = [lcs_header(version, promised), records.clone()].concat();
            assert_eq!(keys("lcs", &bytes, &NO_OPTIONS), [9, u64::MAX, 9], "version {version}");
            let (_folder, path) = file("a.lcs", &bytes);
            assert_eq!(read_all(&path, &NO_OPTIONS).unwrap().times_ns, [0, 3_000_000_000, 0]);
        }
    }
}

#[test]
fn lines_of_msr_are_ranges_of_a_disk() {
    let text = b"128166372003061629,hm,0,Read,4096,8192,153\n\
                 128166372003061729,hm,0,Write,8191,2,40\n\
                 128166372003062629,hm,1,read,4096,1,1\n\
                 128166372003063629,src,0,READ,4096,1\n";
    for suffix in ["msr", "msr.csv"] {
        let found = keys(suffix, text, &NO_OPTIONS);
        let [a, b, c, d, e, f] = found[..] else { panic!("{found:?}") };
        assert_eq!([c, d], [a, b], "pages 1 and 2 of one disk");
        assert!(a != b && e != a && f != a && e != f, "the same page of three disks");
        assert_eq!(keys(suffix, text, &WHOLE).len(), 4);
        let (_folder, path) = file(&format!("a.{suffix}"), text);
        let times = read_all(&path, &NO_OPTIONS).unwrap().times_ns;
        assert_eq!(times, [0, 0, 10_000, 10_000, 100_000, 200_000]);
    }
    let named = [b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n", &text[..]];
    assert_eq!(keys("msr", &named.concat(), &NO_OPTIONS), keys("msr", text, &NO_OPTIONS));
}

#[test]
fn page_a_of_disk_b_is_not_page_b_of_disk_a() {
    let csv = b"disk,at\n1,8192\n2,4096\n";
    let options = OpenOptions { column: Some("disk"), offset: Some("at"), ..NO_OPTIONS };
    let found = keys("csv", csv, &options);
    assert_ne!(found[0], found[1]);
}

#[test]
fn columns_of_csv_may_be_ranges() {
    let csv = b"file,bytes,at\nx,8193,4096\ny,1,4096\nx,1,8192\n";
    let at = OpenOptions { offset: Some("at"), ..NO_OPTIONS };
    assert_eq!(keys("csv", csv, &at), [1, 1, 2]);
    let with_length = OpenOptions { length: Some("bytes"), ..at };
    assert_eq!(keys("csv", csv, &with_length), [1, 2, 3, 1, 2]);
    let large = OpenOptions { page_bytes: Some(16384), ..with_length };
    assert_eq!(keys("csv", csv, &large), [0, 0, 0]);
    let whole = OpenOptions { whole_requests: true, ..with_length };
    assert_eq!(keys("csv", csv, &whole), [4096, 4096, 8192]);
    let of_files = OpenOptions { column: Some("file"), ..with_length };
    let found = keys("csv", csv, &of_files);
    assert_eq!(found.len(), 5);
    assert!(found[0] != found[3] && found[1] == found[4], "{found:?}");
}

#[test]
fn a_range_longer_than_a_chunk_is_read_whole() {
    let pages = CHUNK_REQUESTS as u64 * 2 + 5;
    let text = format!("1,h,0,Read,0,{},1\n2,h,0,Read,0,1,1\n", pages * 4096);
    let found = keys("msr", text.as_bytes(), &NO_OPTIONS);
    assert_eq!(found.len() as u64, pages + 1);
    assert_eq!(found.last(), found.first());
}

#[test]
fn a_format_that_is_named_counts_before_the_suffix() {
    let text = b"3\n4\n3\n";
    let lirs = OpenOptions { format: Some("lirs"), ..NO_OPTIONS };
    for suffix in ["txt", "csv", "u64"] {
        assert_eq!(keys(suffix, text, &lirs), [3, 4, 3], "{suffix}");
    }
}

#[test]
fn foreign_traces_convert_to_written_formats() {
    let (folder, path) = file("a.arc", b"10 3 0 0\n12 1 0 1\n");
    for name in ["b.u64", "b.cptrace.zst"] {
        let to = folder.path().join(name);
        assert_eq!(convert(&path, &to, &NO_OPTIONS, &mut |_| Ok(())).unwrap(), 4);
        assert_eq!(read_all(&to, &NO_OPTIONS).unwrap().keys, [10, 11, 12, 12]);
    }
}

/// Ranges of at most some pages, near each other and anywhere.
fn ranges() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let start = prop_oneof![0u64..100_000, any::<u64>().prop_map(|at| at >> 20)];
    vec((start, 0u32..70_000), 1..200)
}

/// The pages that ranges of bytes touch, by the definition.
fn touched(ranges: &[(u64, u32)], unit: u64, page: u64) -> Vec<u64> {
    let of = |&(start, bytes): &(u64, u32)| {
        let bytes = start * unit..start * unit + u64::from(bytes);
        let mut pages: Vec<u64> = bytes.step_by(1).map(|byte| byte / page).collect();
        pages.dedup();
        pages
    };
    ranges.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ranges_are_expanded_as_defined(ranges in ranges(), page in prop::sample::select(vec![512, 4096, 65536u64])) {
        prop_assume!(ranges.iter().any(|(_, bytes)| *bytes > 0));
        let csv: String = ranges.iter().map(|(at, bytes)| format!("\n{at},{bytes}")).collect();
        let options = OpenOptions {
            offset: Some("at"),
            length: Some("n"),
            page_bytes: Some(page),
            ..NO_OPTIONS
        };
        let (_folder, path) = file("a.csv", format!("at,n{csv}\n").as_bytes());
        prop_assert_eq!(read_all(&path, &options).unwrap().keys, touched(&ranges, 1, page));
        for version in [1, 2] {
            let records: Vec<u8> =
                ranges.iter().flat_map(|&(at, bytes)| vscsi_record(version, at, bytes, 0)).collect();
            let (_folder, path) = file("a.vscsi", &records);
            let expected = touched(&ranges, 512, page);
            prop_assert_eq!(read_all(&path, &pages_of(page)).unwrap().keys, expected);
        }
    }

    #[test]
    fn numbers_written_are_numbers_read(blocks in vec(any::<u64>(), 1..300)) {
        let text: String = blocks.iter().map(|block| format!("{block}\n")).collect();
        let (_folder, path) = file("a.lirs", text.as_bytes());
        prop_assert_eq!(read_all(&path, &NO_OPTIONS).unwrap().keys, blocks.clone());
        for version in 1..=8 {
            let records: Vec<u8> =
                blocks.iter().flat_map(|&block| lcs_record(version, 0, block)).collect();
            let header = lcs_header(version, blocks.len() as u64);
            let (_folder, path) = file("a.lcs", &[header, records].concat());
            prop_assert_eq!(&read_all(&path, &NO_OPTIONS).unwrap().keys, &blocks);
        }
    }
}
