// SPDX-License-Identifier: Apache-2.0
//! Re-references that the kernel counts: told before a folio is shown or removed, and not sooner.

use super::{Case, Ext4, Lab, MIB, Outcome, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::Result;
use crate::files::TestFile;
use crate::parameter::{Parameter, WATCHDOG_MS};
use crate::policy::{self, Policy};

pub const CASES: &[Case] = &[
    case("counted_accesses_are_told_before_removal", &[Ext4], told_before_removal),
    case("counted_accesses_are_told_before_a_folio_is_shown", &[Ext4], told_before_shown),
    case("counted_accesses_are_told_when_a_request_is_late", &[Ext4], told_late),
    case("accesses_are_counted_up_to_63", &[Ext4], saturates),
    case("counts_end_and_begin_with_a_swap", &[Ext4], swapped),
    case("hooks_that_call_nothing_are_told_the_same", &[Ext4], unaided),
];

const PAGES: u64 = 512;
const MAX_COUNT: u64 = 63;

/// `struct tallying_state` of tests/kernel/policies/tallying.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Tally {
    list: u64,
    first: u64,
    calls: u64,
    accesses: u64,
    shown: u64,
    shown_accesses: u64,
    removed_accesses: u64,
    spin_ns: u64,
}

/// `struct unaided_state` of tests/kernel/policies/unaided.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Unaided {
    added: u64,
    first: u64,
    accesses: u64,
    removed: u64,
    evicted: u64,
    counted_folio: u64,
    told_in_order: u64,
}

fn tally(policy: &Policy) -> Result<Tally> {
    let state = policy.state::<Tally>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    Ok(unsafe { state.read_volatile() })
}

fn read(cgroup: &Cgroup, file: &TestFile, times: u64) -> Result<()> {
    child::run(cgroup, || (0..times).try_for_each(|_| file.read_all()))
}

fn told_before_removal(_: &Lab) -> Outcome {
    let file = TestFile::create("tallied", PAGES)?;
    let cgroup = Cgroup::create("tallied", Some(64 * MIB))?;
    let attached = policy::attach("tallying", &cgroup)?;
    read(&cgroup, &file, 6)?;
    let before = tally(attached.policy())?;
    ensure!(before.first == PAGES && before.calls == 0, "hits ran a program: {before:?}");
    file.uncache()?;
    let after = tally(attached.policy())?;
    ensure!(
        after.calls == PAGES && after.accesses == 5 * PAGES,
        "{PAGES} pages were each read five times more: {after:?}"
    );
    ensure!(after.removed_accesses == after.accesses, "told after the removal: {after:?}");
    Ok(format!("{after:?}"))
}

fn told_before_shown(_: &Lab) -> Outcome {
    let file = TestFile::create("shown", PAGES)?;
    let cgroup = Cgroup::create("shown", Some(64 * MIB))?;
    let attached = policy::attach("tallying", &cgroup)?;
    read(&cgroup, &file, 3)?;
    cgroup.write("memory.reclaim", "1M")?;
    let found = tally(attached.policy())?;
    ensure!(found.shown >= PAGES / 2, "a megabyte was reclaimed: {found:?}");
    ensure!(
        found.shown_accesses == 2 * found.shown,
        "of pages read twice more, some were shown before that was told: {found:?}"
    );
    Ok(format!("{found:?}"))
}

/// The time of a request is over while more folios are about to be shown.
fn told_late(_: &Lab) -> Outcome {
    let _watchdog = Parameter::set(WATCHDOG_MS, "40")?;
    let file = TestFile::create("overdue", PAGES)?;
    let cgroup = Cgroup::create("overdue", None)?;
    let attached = policy::attach("tallying", &cgroup)?;
    read(&cgroup, &file, 4)?;
    let state = attached.policy().state::<Tally>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    unsafe { (&raw mut (*state).spin_ns).write_volatile(2_000_000) };
    cgroup.write("memory.reclaim", "128K")?;
    file.uncache()?;
    let (found, stat) = (tally(attached.policy())?, cgroup.stat()?);
    ensure!(
        stat.get("time_limited") > 0 && stat.get("ejections") == 0,
        "no request was late, or too many: {stat:?}"
    );
    ensure!(found.accesses == 3 * PAGES, "{PAGES} pages were read three times more: {found:?}");
    Ok(format!("{found:?}"))
}

fn saturates(_: &Lab) -> Outcome {
    const FEW: u64 = 16;
    let file = TestFile::create("often", FEW)?;
    let cgroup = Cgroup::create("often", Some(64 * MIB))?;
    let attached = policy::attach("tallying", &cgroup)?;
    read(&cgroup, &file, MAX_COUNT + 20)?;
    file.uncache()?;
    let found = tally(attached.policy())?;
    ensure!(found.accesses == FEW * MAX_COUNT, "{FEW} pages, {MAX_COUNT} each: {found:?}");
    Ok(format!("{found:?}"))
}

/// What was counted for one policy is not told to the next, which is told all that comes after.
fn swapped(_: &Lab) -> Outcome {
    let file = TestFile::create("passed", PAGES)?;
    let cgroup = Cgroup::create("passed", Some(64 * MIB))?;
    let mut attached = policy::attach("tallying", &cgroup)?;
    read(&cgroup, &file, 4)?;
    attached.swap(counts::load(&cgroup, &file)?)?;
    cgroup.wait_for_state("running")?;
    read(&cgroup, &file, 2)?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let found = counts.watched;
    ensure!(
        found.added == PAGES && found.first == 0 && found.again == 2 * PAGES,
        "{PAGES} pages were handed over and read twice: {found:?}"
    );
    attached.swap_to("tallying", &cgroup)?;
    cgroup.wait_for_state("running")?;
    read(&cgroup, &file, 3)?;
    file.uncache()?;
    let last = tally(attached.policy())?;
    ensure!(
        last.first == 0 && last.accesses == 3 * PAGES,
        "{PAGES} pages were handed back and read three times: {last:?}"
    );
    Ok(format!("{found:?}, then {last:?}"))
}

/// Programs that call no function of the kernel run without the folio's record.
fn unaided(_: &Lab) -> Outcome {
    let file = TestFile::create("unaided", PAGES)?;
    let cgroup = Cgroup::create("unaided", Some(64 * MIB))?;
    read(&cgroup, &file, 1)?;
    let attached = policy::attach("unaided", &cgroup)?;
    read(&cgroup, &file, 2)?;
    cgroup.write("memory.reclaim", "1M")?;
    file.uncache()?;
    let state = attached.policy().state::<Unaided>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    let found = unsafe { state.read_volatile() };
    let stat = cgroup.stat()?;
    ensure!(
        found.added >= PAGES + found.first && found.accesses >= 2 * PAGES,
        "{PAGES} pages were handed over and read twice: {found:?}"
    );
    ensure!(found.evicted > 0 && found.removed > 0, "some were evicted, some not: {found:?}");
    ensure!(
        found.evicted + found.removed >= PAGES && found.told_in_order >= PAGES,
        "{PAGES} pages went, each after its counts: {found:?}"
    );
    ensure!(
        stat.get("evicted") == found.evicted
            && stat.get("removed") == found.evicted + found.removed,
        "not all that went was told: {found:?}, {stat:?}"
    );
    Ok(format!("{found:?}"))
}
