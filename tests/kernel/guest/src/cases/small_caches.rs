// SPDX-License-Identifier: Apache-2.0
//! Policies in page caches that are smaller than what reclaim takes in sixteen requests.

use super::{Case, Ext4, Lab, MIB, Outcome, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::files::{TestFile, read_pages};
use crate::policy;

pub const CASES: &[Case] =
    &[case("lirs_keeps_what_fits_of_a_loop_in_a_small_cache", &[Ext4], loops)];

const LIMIT: u64 = 2 * MIB;
/// Of these some 420 fit.
const LOOP_PAGES: u64 = 600;
const PASSES: u64 = 8;

/// The framework asks for a sixteenth of them at most, and then for the rest of what reclaim wants.
/// Taken from what the policy keeps, the rest would be what the loop reads next.
fn loops(_: &Lab) -> Outcome {
    let file = TestFile::create("loop", LOOP_PAGES)?;
    let cgroup = Cgroup::create("loop", Some(LIMIT))?;
    let _attached = policy::attach("lirs", &cgroup)?;
    let pass = |passes: u64| {
        child::run(&cgroup, || {
            let opened = file.open_random()?;
            (0..passes).try_for_each(|_| read_pages(&opened, 0..LOOP_PAGES))
        })
    };
    pass(PASSES)?;
    let before = cgroup.stat()?.get("added");
    pass(PASSES)?;
    let missed = cgroup.stat()?.get("added") - before;
    let read = PASSES * LOOP_PAGES;
    ensure!(missed * 2 < read, "{missed} of {read} were missed");
    Ok(format!("{missed} of {read} missed"))
}
