// SPDX-License-Identifier: Apache-2.0
//! Folios whose policy becomes another one while they are off the LRU lists, where none is handed
//! over: no policy is told of accesses to folios that it does not have.

use super::splits::split;
use super::{Case, Ext4, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::files::{TestFile, page_content};
use crate::mapping::Mapping;
use crate::policy::{self, Attached, Policy};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("nothing_is_told_of_a_folio_that_was_not_handed_over", &[Ext4], not_handed_over),
    case("a_locked_folio_goes_to_a_policy_that_comes_below", &[Ext4], comes_below),
    case("a_locked_folio_of_a_removed_cgroup_goes_to_the_policy_above", &[Ext4], falls_above),
    case("a_cgroup_is_removed_while_its_policy_is_swapped", &[Ext4], removed_in_swaps),
    case("folios_that_come_while_a_filter_takes_over_are_no_policys", &[Ext4], before_a_filter),
    case("parts_of_a_split_are_not_those_of_a_policy_that_goes", &[Xfs], split_in_detaching),
];

const PAGES: u64 = 256;
/// Many more than there are before a cgroup is removed.
const MOST_SWAPS: u32 = 1000;

/// `struct plain_state` of tests/kernel/policies/plain.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Plain {
    list: u64,
    added: u64,
    accessed: u64,
}

/// What the policy `plain` was told so far.
fn plain(attached: &Attached) -> Result<Plain> {
    let state = attached.policy().state::<Plain>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    Ok(unsafe { state.read_volatile() })
}

/// Keeps pages of a file in memory, and off the lists that are walked.
fn lock(file: &TestFile, pages: u64) -> Result<Mapping> {
    let mapping = Mapping::of_file(&file.open()?, pages)?;
    mapping.lock()?;
    Ok(mapping)
}

fn read_twice(cgroup: &Cgroup, file: &TestFile) -> Result<()> {
    child::run(cgroup, || (0..2).try_for_each(|_| file.read_all()))
}

/// Fails if the policy is told of folios that are locked, which it was not handed.
fn check_told_nothing(attached: &Attached, pages: u64) -> Outcome {
    let found = plain(attached)?;
    ensure!(found.added < pages / 8, "what is locked was handed over: {found:?}");
    ensure!(
        found.accessed < pages / 8,
        "accesses were told of folios that the policy does not have: {found:?}"
    );
    Ok(format!("{found:?}"))
}

/// The next policy does not find a file that is locked in memory, and is not told of its accesses.
fn not_handed_over(_: &Lab) -> Outcome {
    let file = TestFile::create("locked", PAGES)?;
    let cgroup = Cgroup::create("locked", Some(8 * MIB))?;
    let first = policy::attach("plain", &cgroup)?;
    read_twice(&cgroup, &file)?;
    let _locked = lock(&file, PAGES)?;
    first.detach();
    let second = policy::attach("plain", &cgroup)?;
    (0..2).try_for_each(|_| file.read_all())?;
    check_told_nothing(&second, PAGES)
}

/// Reads a file that is locked; the policy is to get its folios by that, and not before.
fn check_handed_by_access(attached: &Attached, file: &TestFile) -> Outcome {
    let before = plain(attached)?;
    (0..2).try_for_each(|_| file.read_all())?;
    let after = plain(attached)?;
    let (added, accessed) = (after.added - before.added, after.accessed - before.accessed);
    ensure!(
        added >= PAGES * 7 / 8 && accessed >= added,
        "{added} of {PAGES} folios were handed over, {accessed} accesses told: {after:?}"
    );
    Ok(format!("{before:?}, then {after:?}"))
}

fn comes_below(_: &Lab) -> Outcome {
    let file = TestFile::create("taken", PAGES)?;
    let parent = Cgroup::create("giver", Some(16 * MIB))?;
    let child = parent.child("taker", None)?;
    let _above = policy::attach("plain", &parent)?;
    read_twice(&child, &file)?;
    let _locked = lock(&file, PAGES)?;
    let below = policy::attach("plain", &child)?;
    check_handed_by_access(&below, &file)
}

/// A file that is not locked shows when the cgroup's folios are those of its parent's policy.
fn falls_above(_: &Lab) -> Outcome {
    let file = TestFile::create("bequeathed", PAGES)?;
    let marker = TestFile::create("marker", PAGES)?;
    let parent = Cgroup::create("heiress", Some(16 * MIB))?;
    let above = policy::attach("plain", &parent)?;
    let child = parent.child("testator", None)?;
    let below = policy::attach("plain", &child)?;
    read_twice(&child, &file)?;
    read_twice(&child, &marker)?;
    let _locked = lock(&file, PAGES)?;
    child.remove()?;
    parent.wait_for("heir", |stat| stat.get("resident_pages") >= PAGES)?;
    let said = check_handed_by_access(&above, &file)?;
    below.detach();
    Ok(said)
}

/// Swaps a policy with another one until the cgroup is gone; how often that went well.
fn swap_until_gone(attached: &mut Attached, mut next: Policy) -> Result<u32> {
    let mut swaps = 0;
    while swaps < MOST_SWAPS {
        match attached.swap(next) {
            Ok(old) => next = old,
            Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
                return Ok(swaps);
            }
            Err(error) => return Err(error),
        }
        swaps += 1;
    }
    Err(Error::Check(format!("the cgroup is there after {swaps} swaps")))
}

/// What a removed cgroup leaves goes to the policy above once, whatever was being installed.
fn removed_in_swaps(lab: &Lab) -> Outcome {
    let file = TestFile::create("contested", 4 * PAGES)?;
    let parent = Cgroup::create("contested", Some(64 * MIB))?;
    let outside = Cgroup::create("outside", None)?;
    let above = policy::attach("plain", &parent)?;
    let start = Instant::now();
    let (mut rounds, mut swaps) = (0_u32, 0);
    while start.elapsed() < lab.time {
        let child = parent.child(&format!("short-lived{rounds}"), None)?;
        let mut below = policy::attach("lru", &child)?;
        let next = policy::load("lru", &child)?;
        read_twice(&child, &file)?;
        let removal = child::spawn(&outside, || {
            thread::sleep(Duration::from_millis(u64::from(rounds) * 7 % 50));
            child.remove()
        })?;
        swaps += swap_until_gone(&mut below, next)?;
        removal.wait()?;
        parent.wait_for("heir", |stat| stat.get("resident_pages") >= file.pages)?;
        file.uncache()?;
        let stat = parent.stat()?;
        ensure!(stat.get("resident_pages") < PAGES, "pages stay registered: {stat:?}");
        rounds += 1;
        let found = plain(&above)?;
        let (told, least) = (found.added, u64::from(rounds) * file.pages);
        ensure!(told >= least, "{told} of {least} folios were handed over: {found:?}");
    }
    Ok(format!("{rounds} cgroups, {swaps} swaps"))
}

/// What is read while the filter is being installed has no notes of the policy that goes.
fn before_a_filter(_: &Lab) -> Outcome {
    const MANY: u64 = 16384;
    let file = TestFile::sparse("stream", MANY)?;
    let cgroup = Cgroup::create("stream", None)?;
    let mut attached = policy::attach("plain", &cgroup)?;
    let filter = policy::load("filtering", &cgroup)?;
    let reader = child::spawn(&cgroup, || file.skim(0..MANY))?;
    cgroup.wait_for("half read", |stat| stat.get("added") > MANY / 2)?;
    let was = attached.swap(filter)?;
    let read = cgroup.stat()?.get("added");
    reader.wait()?;
    drop(was);
    let _locked = lock(&file, MANY)?;
    attached.swap_to("plain", &cgroup)?;
    cgroup.wait_for_state("running")?;
    let before = plain(&attached)?;
    file.skim(0..MANY)?;
    let after = plain(&attached)?;
    ensure!(read < MANY, "all was read when the filter came");
    ensure!(
        after.accessed == before.accessed && after.added < MANY / 8,
        "told of what it does not have: {before:?}, then {after:?}"
    );
    Ok(format!("{read} of {MANY} pages had been read"))
}

/// A file in large folios, each of which a policy knows and was read since it came.
fn write_large(file: &TestFile) -> Result<()> {
    let bytes: Vec<u8> = (0..file.pages).flat_map(page_content).collect();
    let descriptor = file.open()?;
    descriptor.write_all_at(&bytes, 0).context(|| "write".into())?;
    descriptor.sync_all().context(|| "fsync".into())?;
    file.read_all()
}

/// The parts are locked before the next policy comes, so that it does not find them.
fn split_in_detaching(lab: &Lab) -> Outcome {
    const LARGE: u64 = 2048;
    let file = TestFile::create("breaking", LARGE)?;
    let cgroup = Cgroup::create("breaking", None)?;
    let start = Instant::now();
    let mut rounds = 0_u32;
    while start.elapsed() < lab.time {
        let first = policy::attach("plain", &cgroup)?;
        child::run(&cgroup, || write_large(&file))?;
        let splitter = child::spawn(&cgroup, || split(&file))?;
        thread::sleep(Duration::from_millis(u64::from(rounds) % 16));
        first.detach();
        splitter.wait()?;
        let locked = lock(&file, LARGE)?;
        let second = policy::attach("plain", &cgroup)?;
        file.read_all()?;
        check_told_nothing(&second, LARGE)?;
        second.detach();
        drop(locked);
        file.uncache()?;
        rounds += 1;
    }
    Ok(format!("{rounds} times"))
}
