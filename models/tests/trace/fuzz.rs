// SPDX-License-Identifier: Apache-2.0
//! Arbitrary bytes under every suffix: an answer or an error, never a panic, never a loop.

use cachepilot_models::trace::{Header, OpenOptions, Record, RecordWriter, info};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{NO_OPTIONS, column, file, packed};

const SUFFIXES: [&str; 13] = [
    "u64",
    "u64.zst",
    "u64.gz",
    "oracleGeneral",
    "oracleGeneral.zst",
    "oracleGeneral.bin",
    "oracleGeneral.bin.gz",
    "csv",
    "csv.zst",
    "csv.gz",
    "cptrace",
    "cptrace.zst",
    "cptrace.gz",
];

/// A good file for each suffix, before compression.
fn good(suffix: &str) -> Vec<u8> {
    if suffix.starts_with("csv") {
        return b"time,page\n1,2\n3,0x4\n5,\"a,b\"\n6,c\n".to_vec();
    }
    if !suffix.starts_with("cptrace") {
        return (0..240).collect();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cptrace");
    let mut writer = RecordWriter::create(&path, Header::FULL).unwrap();
    let record = |index| Record { index, inode: 2, write: index % 2 == 0, ..Record::default() };
    writer.write(&(0..5).map(record).collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    std::fs::read(&path).unwrap()
}

/// Reads `bytes` as a trace; any outcome is fine that ends, and a message is one line.
pub(super) fn read(suffix: &str, bytes: &[u8]) -> Result<(), TestCaseError> {
    let (_folder, path) = file(&format!("a.{suffix}"), bytes);
    let whole = OpenOptions { whole_requests: true, ..NO_OPTIONS };
    let ranges = OpenOptions { offset: Some("page"), length: Some("time"), ..NO_OPTIONS };
    for options in [NO_OPTIONS, column("page"), whole, ranges] {
        match info(&path, &options) {
            Ok(info) => {
                prop_assert!(info.requests > 0 && info.distinct_pages > 0);
                prop_assert!(info.distinct_pages <= info.requests);
                prop_assert!((0.0..=1.0).contains(&info.one_hit_ratio));
            }
            Err(e) => {
                let message = e.to_string();
                prop_assert!(!message.contains(['\n', '\r', '\x1b']), "{:?}", message);
                prop_assert!(message.len() < 4000, "{:?}", message);
            }
        }
    }
    Ok(())
}

/// Overwrites, cuts and extends `bytes`.
pub(super) fn damage(bytes: &mut Vec<u8>, edits: &[(Index, u8)], cut: Option<Index>, tail: &[u8]) {
    for (at, value) in edits {
        let at = at.index(bytes.len());
        bytes[at] = *value;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len() + 1));
    }
    bytes.extend(tail);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..400)) {
        for suffix in SUFFIXES {
            read(suffix, &bytes)?;
            read(suffix, &packed(suffix, &bytes))?;
        }
    }

    #[test]
    fn arbitrary_text(text in "(page|a|\"|,|\n|\r|[ -~]|\\PC){0,60}") {
        read("csv", text.as_bytes())?;
        read("csv", format!("page,{text}").as_bytes())?;
    }

    #[test]
    fn damaged_files(
        edits in vec((any::<Index>(), any::<u8>()), 0..4),
        cut in any::<Option<Index>>(),
        tail in vec(any::<u8>(), 0..60),
    ) {
        for suffix in SUFFIXES {
            let mut inside = good(suffix);
            damage(&mut inside, &edits, cut, &tail);
            read(suffix, &packed(suffix, &inside))?;
            let mut outside = packed(suffix, &good(suffix));
            damage(&mut outside, &edits, cut, &tail);
            read(suffix, &outside)?;
        }
    }
}
