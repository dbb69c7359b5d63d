// SPDX-License-Identifier: Apache-2.0
//! A policy that keeps pages out of the cache.

use super::{Case, Ext4, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::files::TestFile;
use crate::policy;

pub const CASES: &[Case] = &[case("refused_pages_are_read_and_dropped", &[Ext4, Xfs], refused)];

const PAGES: u64 = 1024;

/// `struct refusing_state` of tests/kernel/policies/refusing.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct State {
    list: u64,
    refuse: u64,
    asked: u64,
    added: u64,
}

fn refused(_: &Lab) -> Outcome {
    let file = TestFile::create("unwanted", PAGES)?;
    let cgroup = Cgroup::create("unwanted", Some(64 * MIB))?;
    let attached = policy::attach("refusing", &cgroup)?;
    let state = attached.policy().state::<State>()?;
    // SAFETY: mapped as long as the policy is open.
    unsafe { (&raw mut (*state).refuse).write_volatile(1) };
    child::run(&cgroup, || file.read_all())?;
    let cached = file.cached_pages()?;
    let stat = cgroup.stat()?;
    ensure!(cached * 50 <= PAGES, "{cached} of {PAGES} pages that were refused are cached");
    ensure!(stat.get("unadmitted") >= PAGES, "refused: {stat:?}");
    // SAFETY: as above.
    unsafe { (&raw mut (*state).refuse).write_volatile(0) };
    child::run(&cgroup, || file.read_all())?;
    let cached = file.cached_pages()?;
    ensure!(cached == PAGES, "{cached} of {PAGES} pages that were admitted are cached");
    // SAFETY: as above.
    let state = unsafe { state.read_volatile() };
    ensure!(state.asked >= 2 * PAGES - 32 && state.added >= PAGES, "{state:?}");
    Ok(format!("{state:?}"))
}
