// SPDX-License-Identifier: Apache-2.0
//! The watchdog and the budgets: what a policy may take, and whom the watchdog leaves alone.

use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Result, write_text};
use crate::files::{TestFile, page_content, read_pages};
use crate::hostile::{self, Mode};
use crate::parameter::{Parameter, WATCHDOG_MS, WATCHDOG_SHORT};
use crate::policy;
use crate::trimming::Trimming;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

pub const CASES: &[Case] = &[
    case("a_request_ends_when_its_time_is_over", &[Once], deadline),
    case("a_request_ends_in_time_where_lists_are_empty", &[Once], searching),
    case("a_hook_forgets_a_bounded_number_of_ghosts", &[Once], trimming),
    case("a_policy_that_rests_is_not_short", &[Once], rests),
    case("a_rest_ends_by_pages_not_by_folios", &[Xfs], rested),
    case("a_policy_whose_folios_others_hold_is_not_short", &[Once], starved),
    case("a_policy_does_not_answer_for_the_one_before", &[Once], overtaken),
];

/// A policy that spins for ten seconds in the callback of one folio after another.
fn deadline(_: &Lab) -> Outcome {
    const LONGEST: Duration = Duration::from_millis(1000);
    let _watchdog = Parameter::set(WATCHDOG_MS, "50")?;
    let file = TestFile::create("late", 16 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("late", None)?;
    let (_attached, handle) = hostile::attach(&cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    handle.set_spin_ns(10_000_000_000);
    handle.set_mode(Mode::Slow);
    child::run(&cgroup, || cgroup.write("memory.reclaim", "128K"))?;
    let longest = Duration::from_nanos(handle.get().longest_ns);
    let stat = cgroup.stat()?;
    ensure!(stat.get("time_limited") > 0, "no request was cut short: {stat:?}");
    ensure!(longest < LONGEST, "a request took {longest:?}");
    Ok(format!("{longest:?}"))
}

/// A policy that looks for folios where there are none, thousands of times.
fn searching(_: &Lab) -> Outcome {
    let _watchdog = Parameter::set(WATCHDOG_MS, "1")?;
    let file = TestFile::create("sought", PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("searching", None)?;
    let _attached = policy::attach("searching", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    // It finds nothing in that time, and what comes of the request is up to the kernel.
    child::run(&cgroup, || cgroup.write("memory.reclaim", "128K"))?;
    let stat = cgroup.stat()?;
    ensure!(stat.get("time_limited") > 0, "no request was cut short: {stat:?}");
    Ok(format!("{} requests", stat.get("requests")))
}

fn trimming(_: &Lab) -> Outcome {
    const PAGES: u64 = 4 * PAGES_PER_MIB;
    let file = TestFile::create("trimmed", PAGES)?;
    let cgroup = Cgroup::create("trimmed", Some(64 * MIB))?;
    let attached = policy::attach("trimming", &cgroup)?;
    let state = attached.policy().state::<Trimming>()?;
    child::run(&cgroup, || file.read_all())?;
    file.uncache()?;
    child::run(&cgroup, || read_pages(&file.open_random()?, 0..8))?;
    // SAFETY: mapped as long as the policy is open.
    unsafe { (&raw mut (*state).trim).write_volatile(1) };
    file.uncache()?;
    // SAFETY: as above.
    let seen = unsafe { state.read_volatile() };
    ensure!(seen.before > PAGES / 2, "too few ghosts: {seen:?}");
    let dropped = seen.before - seen.after;
    ensure!(dropped > 0 && dropped <= 256, "one hook forgot {dropped}: {seen:?}");
    Ok(format!("{seen:?}"))
}

/// Reclaim asks again and again, but nothing has come that could be proposed.
fn rests(_: &Lab) -> Outcome {
    let _watchdog = Parameter::set(WATCHDOG_SHORT, "4")?;
    let file = TestFile::create("resting", 4 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("resting", None)?;
    let (_attached, handle) = hostile::attach(&cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    handle.set_mode(Mode::Silent);
    for _ in 0..16 {
        cgroup.write("memory.reclaim", "128K")?;
    }
    let stat = cgroup.stat()?;
    ensure!(stat.get("requests") >= 1, "it was never asked: {stat:?}");
    ensure!(stat.text("state") == "running", "it was ejected while it rested: {stat:?}");
    Ok(format!("{} requests", stat.get("requests")))
}

/// A policy that proposed nothing is asked again once enough pages came, however few folios they
/// are in.
fn rested(_: &Lab) -> Outcome {
    const MOST_REQUESTED: u64 = 32;
    let (file, large) =
        (TestFile::create("rested", 4 * PAGES_PER_MIB)?, TestFile::create("large", PAGES_PER_MIB)?);
    let bytes: Vec<u8> = (0..large.pages).flat_map(page_content).collect();
    let cgroup = Cgroup::create("rested", None)?;
    let (_attached, handle) = hostile::attach(&cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    cgroup.wait_for_state("running")?;
    handle.set_mode(Mode::Silent);
    cgroup.write("memory.reclaim", "128K")?;
    let resting = cgroup.stat()?;
    ensure!(resting.get("requests") >= 1, "it was never asked: {resting:?}");
    child::run(&cgroup, || {
        let descriptor = large.open()?;
        descriptor.write_all_at(&bytes, 0).context(|| "write".into())?;
        descriptor.sync_all().context(|| "fsync".into())
    })?;
    let written = cgroup.stat()?;
    let folios = written.get("added") - resting.get("added");
    let pages = written.get("resident_pages") - resting.get("resident_pages");
    ensure!(
        folios < MOST_REQUESTED && pages >= MOST_REQUESTED,
        "there are no large folios here: {pages} pages in {folios} folios"
    );
    cgroup.write("memory.reclaim", "128K")?;
    let requests = cgroup.stat()?.get("requests") - written.get("requests");
    ensure!(requests >= 1, "it was not asked after {pages} pages in {folios} folios");
    Ok(format!("{requests} requests after {pages} pages in {folios} folios"))
}

/// `struct polite_state`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Polite {
    list: u64,
    device: u64,
    inode: u64,
    asked: u64,
    busy: u64,
}

/// Pages of `file` read on one processor wait there for the LRU, where the other cannot isolate
/// them: a few pages at a time, as fifteen make a batch that goes.
fn starve(cgroup: &Cgroup, file: &TestFile, filler: &TestFile) -> Result<()> {
    let (ours, others) = (file.open_random()?, filler.open_random()?);
    child::stay_on_cpu(1)?;
    read_pages(&ours, 0..6)?;
    for round in 0..6 {
        child::stay_on_cpu(1)?;
        read_pages(&ours, 6 + round..7 + round)?;
        child::stay_on_cpu(0)?;
        read_pages(&others, 0..filler.pages)?;
        cgroup.write("memory.reclaim", "64K")?;
    }
    Ok(())
}

fn starved(_: &Lab) -> Outcome {
    let _watchdog = Parameter::set(WATCHDOG_SHORT, "4")?;
    let (file, filler) = (TestFile::create("held", 16)?, TestFile::create("filler", 96)?);
    let cgroup = Cgroup::create("starved", None)?;
    let attached = policy::attach("polite", &cgroup)?;
    let state = attached.policy().state::<Polite>()?;
    let (device, inode) = file.identity()?;
    // SAFETY: mapped as long as the policy is open.
    unsafe {
        (&raw mut (*state).device).write_volatile(device);
        (&raw mut (*state).inode).write_volatile(inode);
    }
    child::run(&cgroup, || starve(&cgroup, &file, &filler))?;
    // SAFETY: as above.
    let seen = unsafe { state.read_volatile() };
    let stat = cgroup.stat()?;
    ensure!(seen.asked > 5 && seen.busy > 5, "no folio was held: {seen:?} {stat:?}");
    ensure!(stat.text("state") == "running", "it was ejected, but was starved: {stat:?}");
    Ok(format!("{seen:?}"))
}

/// The last request of a policy that was replaced ends late; its successor stays.
fn overtaken(_: &Lab) -> Outcome {
    let file = TestFile::create("overtaken", 64)?;
    let cgroup = Cgroup::create("overtaken", None)?;
    let (mut attached, handle) = hostile::attach(&cgroup)?;
    let next = policy::load("fifo", &cgroup)?;
    let holding = hostile::hold(&cgroup, &file, handle)?;
    let swapping = child::spawn(&cgroup, || attached.swap(next).map(drop))?;
    cgroup.wait_for("swapped", |stat| stat.text("policy") == "fifo")?;
    // The old policy is late by then, and the new one has time enough on a busy host.
    write_text(WATCHDOG_MS, "200")?;
    thread::sleep(Duration::from_millis(400));
    let released = holding.finish();
    swapping.wait()?;
    released?;
    let stat = cgroup.wait_for_state("running")?;
    ensure!(stat.get("ejections") == 0, "the new policy was ejected for the old one: {stat:?}");
    Ok(stat.text("policy").into())
}
