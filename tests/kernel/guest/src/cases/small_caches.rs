// SPDX-License-Identifier: Apache-2.0
//! Policies in page caches that are smaller than what reclaim takes in sixteen requests.

use super::{Case, Ext4, Lab, MIB, Outcome, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::files::{TestFile, read_pages};
use crate::policy;
use std::ops::Range;

pub const CASES: &[Case] = &[case("lirs_keeps_its_pages_in_a_small_cache", &[Ext4], keeps)];

const LIMIT: u64 = 2 * MIB;
/// Of some 420 pages that fit.
const HOT_PAGES: u64 = 340;
const ALL_PAGES: u64 = 4096;
const READS: u64 = 12_000;

/// Every other page is one of those that are read again and again, or else one of many.
fn page(read: u64) -> u64 {
    if read.is_multiple_of(2) {
        return read / 2 % HOT_PAGES;
    }
    HOT_PAGES + read.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (ALL_PAGES - HOT_PAGES)
}

/// The framework asks for a sixteenth of the pages at most, and then for the rest of what reclaim
/// wants, for which the queue has to have pages, too: without them nearly all is missed.
fn keeps(_: &Lab) -> Outcome {
    let file = TestFile::create("hot", ALL_PAGES)?;
    let cgroup = Cgroup::create("hot", Some(LIMIT))?;
    let _attached = policy::attach("lirs", &cgroup)?;
    let read = |reads: Range<u64>| {
        child::run(&cgroup, || read_pages(&file.open_random()?, reads.map(page)))
    };
    read(0..READS)?;
    let before = cgroup.stat()?.get("added");
    read(READS..2 * READS)?;
    let missed = cgroup.stat()?.get("added") - before;
    ensure!(missed * 10 < 7 * READS, "{missed} of {READS} were missed");
    Ok(format!("{missed} of {READS} missed"))
}
