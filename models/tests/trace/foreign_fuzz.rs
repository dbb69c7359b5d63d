// SPDX-License-Identifier: Apache-2.0
//! Arbitrary and damaged files of other simulators: an answer or an error, never a panic, never a
//! loop.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::fuzz::{damage, read};
use super::{lcs_header, lcs_record, packed, vscsi_record};

const TEXTS: [&str; 4] = ["lirs", "arc", "msr", "csv"];
const PACKINGS: [&str; 3] = ["", ".zst", ".gz"];

/// A good file for each suffix, before compression.
fn good() -> Vec<(&'static str, Vec<u8>)> {
    let lcs = |version| {
        let records = (0..4).flat_map(|i| lcs_record(version, i, i.into()));
        lcs_header(version, 4).into_iter().chain(records).collect::<Vec<u8>>()
    };
    let vscsi = |version| (0..4).flat_map(|i| vscsi_record(version, i * 9, 5000, i)).collect();
    vec![
        ("vscsi", vscsi(1)),
        ("vscsi", vscsi(2)),
        ("lcs", lcs(1)),
        ("lcs", lcs(8)),
        ("msr", b"5,h,0,Read,0,9000,1\n6,h,1,Write,4096,512,2\n".to_vec()),
        ("arc", b"1 8 0 0\n70 2 0 1\n".to_vec()),
        ("lirs", b"1\n2\n*\n1\n".to_vec()),
        ("csv", b"time,page\n4096,1\n1,8192\n".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..200), version in 1u8..3, record in 1u64..10) {
        for suffix in ["vscsi", "lcs", "lirs", "arc", "msr"] {
            for packing in PACKINGS {
                read(&format!("{suffix}{packing}"), &bytes)?;
                let name = format!("{suffix}{packing}");
                read(&name, &packed(&name, &bytes))?;
            }
        }
        read("vscsi", &[vscsi_record(version, 8, 1, 0), bytes.clone()].concat())?;
        read("lcs", &[lcs_header(record, 3), bytes].concat())?;
    }

    #[test]
    fn arbitrary_text(
        lines in vec("([0-9]{1,21}|Read|[ -~]|\\*|\\PC)?([ ,\t]([0-9]{1,20}|h|Write|\\PC)){0,8}", 0..6),
    ) {
        for suffix in TEXTS {
            read(suffix, lines.join("\n").as_bytes())?;
            read(suffix, format!("page,time\n{}", lines.join("\n")).as_bytes())?;
        }
    }

    #[test]
    fn damaged_files(
        edits in vec((any::<Index>(), any::<u8>()), 0..4),
        cut in any::<Option<Index>>(),
        tail in vec(any::<u8>(), 0..60),
    ) {
        for (suffix, bytes) in good() {
            for packing in PACKINGS {
                let name = format!("{suffix}{packing}");
                let mut inside = bytes.clone();
                damage(&mut inside, &edits, cut, &tail);
                read(&name, &packed(&name, &inside))?;
                let mut outside = packed(&name, &bytes);
                damage(&mut outside, &edits, cut, &tail);
                read(&name, &outside)?;
            }
        }
    }
}
