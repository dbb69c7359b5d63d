// SPDX-License-Identifier: Apache-2.0
//! Policies without `evict_folios`: reclaim is the kernel's own, as without a policy.

use super::{Case, Ext4, Lab, Long, MIB, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::{Context, Error, Result, read_text};
use crate::files::{PAGE, TestFile, read_pages};
use crate::load::Load;
use crate::policy::{self, Attached, Policy};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("without_evict_folios_reclaim_is_the_kernels", &[Ext4, Xfs], leaves_reclaim),
    case("without_evict_folios_hits_are_those_of_no_policy", &[Ext4], hits_as_without),
    case("an_observer_is_told_of_accesses_and_asked_nothing", &[Ext4, Xfs], observed),
    case("a_filter_keeps_records_of_refused_pages_only", &[Ext4, Xfs], refused),
    case("a_refused_page_that_is_read_twice_stays", &[Ext4], read_twice),
    case("a_filter_takes_the_folios_of_a_child_from_its_parents_policy", &[Ext4], below),
    case("swaps_from_and_to_a_filter_under_load_lose_nothing", &[Ext4, Long], swaps),
];

const LIMIT: u64 = 8 * MIB;
const LIMIT_PAGES: u64 = 8 * PAGES_PER_MIB;
const PAGES: u64 = 1024;
const THREADS: usize = 8;
/// Folios that a task in reclaim takes off the LRU at a time, `SWAP_CLUSTER_MAX`.
const TAKEN_BY_RECLAIM: u64 = 32;
const EVERY: Duration = Duration::from_millis(100);

/// `struct filtering_state` of tests/kernel/policies/filtering.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct State {
    refuse: u64,
    asked: u64,
    capacity: u64,
}

/// `struct observing_state` of tests/kernel/policies/observing.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Observed {
    first: u64,
    again: u64,
}

fn set_refuse(policy: &Policy, refuse: bool) -> Result<()> {
    let state = policy.state::<State>()?;
    // SAFETY: mapped as long as the policy is open.
    unsafe { (&raw mut (*state).refuse).write_volatile(u64::from(refuse)) };
    Ok(())
}

/// What the watchdog and the requests counted.
fn requests(stat: &Stat) -> [u64; 5] {
    ["requests", "proposed_pages", "fallbacks", "fallback_pages", "ejections"]
        .map(|key| stat.get(key))
}

fn check_left_alone(stat: &Stat) -> Result<()> {
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    ensure!(requests(stat) == [0; 5], "the policy was asked for pages: {stat:?}");
    Ok(())
}

fn leaves_reclaim(_: &Lab) -> Outcome {
    let file = TestFile::create("left", 3 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("left", Some(LIMIT))?;
    let attached = policy::attach("filtering", &cgroup)?;
    child::run(&cgroup, || {
        file.read_all()?;
        file.read_all()
    })?;
    cgroup.write("memory.reclaim", "1M")?;
    let stat = cgroup.stat()?;
    check_left_alone(&stat)?;
    ensure!(stat.get("resident_pages") == 0, "admitted pages are registered: {stat:?}");
    ensure!(stat.get("added") >= file.pages, "additions were not counted: {stat:?}");
    ensure!(cgroup.figure("memory.events", "oom")? == 0, "out of memory");
    let stolen = cgroup.figure("memory.stat", "pgsteal")?;
    ensure!(stolen >= 4 * LIMIT_PAGES - LIMIT_PAGES / 2, "{stolen} pages were reclaimed");
    // SAFETY: mapped as long as the policy is open.
    let state = unsafe { attached.policy().state::<State>()?.read_volatile() };
    ensure!(state.asked >= file.pages, "{state:?}");
    ensure!((LIMIT_PAGES / 2..=LIMIT_PAGES).contains(&state.capacity), "{state:?}");
    Ok(format!("{stolen} reclaimed, {state:?}"))
}

/// Pages read from disks so far.
fn pages_in() -> Result<u64> {
    let text = read_text("/proc/vmstat")?;
    let value = text.lines().find_map(|line| line.strip_prefix("pgpgin ")?.parse::<u64>().ok());
    Ok(value.unwrap_or(0) * 1024 / PAGE as u64)
}

/// Reads from disk of a scan with a hot set between its pages, which an active list protects.
fn reads_of_mix(policy: Option<&str>) -> Result<u64> {
    const HOT: u64 = LIMIT_PAGES / 3;
    let file = TestFile::create("mix", 4 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("mix", Some(LIMIT))?;
    let _attached = policy.map(|name| policy::attach(name, &cgroup)).transpose()?;
    let before = pages_in()?;
    child::run(&cgroup, || {
        child::stay_on_one_cpu()?;
        let mix = (HOT..file.pages).flat_map(|page| [page * 7 % HOT, page]);
        read_pages(&file.open_random()?, mix)
    })?;
    Ok(pages_in()? - before)
}

fn hits_as_without(_: &Lab) -> Outcome {
    let usual = reads_of_mix(None)?;
    let filtered = reads_of_mix(Some("filtering"))?;
    let observed = reads_of_mix(Some("observing"))?;
    let said = format!("{usual} reads without a policy, {filtered} and {observed} with one");
    for reads in [filtered, observed] {
        ensure!(reads.abs_diff(usual) * 50 <= usual, "{said}");
    }
    Ok(said)
}

fn observed(_: &Lab) -> Outcome {
    let file = TestFile::create("observed", PAGES)?;
    let cgroup = Cgroup::create("observed", Some(64 * MIB))?;
    let attached = policy::attach("observing", &cgroup)?;
    child::run(&cgroup, || {
        file.read_all()?;
        file.read_all()
    })?;
    cgroup.write("memory.reclaim", "2M")?;
    let stat = cgroup.stat()?;
    check_left_alone(&stat)?;
    ensure!(stat.get("evicted") > 0, "nothing was evicted: {stat:?}");
    // SAFETY: mapped as long as the policy is open.
    let state = unsafe { attached.policy().state::<Observed>()?.read_volatile() };
    ensure!(state.first >= PAGES && state.again >= PAGES, "{state:?}");
    Ok(format!("{state:?}"))
}

fn refused(_: &Lab) -> Outcome {
    let file = TestFile::create("refused", PAGES)?;
    let cgroup = Cgroup::create("refused", Some(64 * MIB))?;
    let attached = policy::attach("filtering", &cgroup)?;
    let empty = cgroup.stat()?.get("registry_bytes");
    set_refuse(attached.policy(), true)?;
    child::run(&cgroup, || file.read_all())?;
    let (cached, stat) = (file.cached_pages()?, cgroup.stat()?);
    ensure!(cached * 50 <= PAGES, "{cached} of {PAGES} pages that were refused are cached");
    ensure!(stat.get("unadmitted") >= PAGES, "refused: {stat:?}");
    ensure!(stat.get("resident_pages") * 50 <= PAGES, "records stay: {stat:?}");
    set_refuse(attached.policy(), false)?;
    child::run(&cgroup, || file.read_all())?;
    let (cached, stat) = (file.cached_pages()?, cgroup.stat()?);
    ensure!(cached == PAGES, "{cached} of {PAGES} pages that were admitted are cached");
    ensure!(stat.get("resident_pages") * 50 <= PAGES, "admitted ones have records: {stat:?}");
    let grown = stat.get("registry_bytes") - empty;
    ensure!(grown <= 16 * PAGE as u64, "the registry grew by {grown} bytes");
    check_left_alone(&stat)?;
    Ok(format!("registry of {empty} and {grown} bytes"))
}

/// Reads that end within the page do not drop it, and the second one is the kernel's to count.
fn read_twice(_: &Lab) -> Outcome {
    let file = TestFile::create("twice", 1)?;
    let cgroup = Cgroup::create("twice", Some(64 * MIB))?;
    let attached = policy::attach("filtering", &cgroup)?;
    set_refuse(attached.policy(), true)?;
    let mut records = Vec::new();
    for _ in 0..2 {
        child::run(&cgroup, || {
            let descriptor = file.open_random()?;
            descriptor.read_exact_at(&mut [0; 8], 0).context(|| "read".into())
        })?;
        records.push(cgroup.stat()?.get("resident_pages"));
    }
    ensure!(records == [1, 0], "records after each read: {records:?}");
    child::run(&cgroup, || file.read_all())?;
    ensure!(file.cached_pages()? == 1, "it was dropped all the same");
    Ok(format!("records: {records:?}"))
}

fn below(_: &Lab) -> Outcome {
    let file = TestFile::create("below", PAGES)?;
    let parent = Cgroup::create("below", Some(64 * MIB))?;
    let child = parent.child("child", None)?;
    let above = counts::attach(&parent, &file)?;
    child::run(&child, || file.read_all())?;
    let filter = policy::attach("filtering", &child)?;
    let kept = parent.stat()?.get("resident_pages");
    ensure!(kept < PAGES, "the parent's policy keeps {kept} folios");
    child::run(&child, || file.read_all())?;
    let told = counts::of(above.policy())?.watched.again;
    ensure!(told == 0, "{told} accesses were told to the parent's policy");
    child.write("memory.reclaim", "1M")?;
    check_left_alone(&child.stat()?)?;
    ensure!(parent.stat()?.get("requests") == 0, "the parent's policy was asked");
    let left = file.cached_pages()?;
    ensure!(left < PAGES, "nothing was reclaimed");
    filter.detach();
    parent.wait_for("the parent's again", |stat| stat.get("resident_pages") >= kept + left)?;
    Ok(format!("{left} of {PAGES} pages are the parent's again"))
}

/// The filter for a while, during which nothing is asked, and the policy with lists again.
fn there_and_back(cgroup: &Cgroup, attached: &mut Attached, filter: Policy) -> Result<Policy> {
    let lru = attached.swap(filter)?;
    let before = cgroup.wait_for_state("running")?;
    thread::sleep(EVERY);
    let after = cgroup.stat()?;
    ensure!(requests(&before) == requests(&after), "asked: {before:?} {after:?}");
    ensure!(after.get("resident_pages") == 0, "records stay: {after:?}");
    let filter = attached.swap(lru)?;
    let asked = after.get("requests");
    let served = cgroup.wait_for("asked again", |stat| stat.get("requests") > asked)?;
    ensure!(served.get("ejections") == 0, "ejected: {served:?}");
    Ok(filter)
}

/// Pages of the file that are cached and not known to `counting`.
fn unknown(attached: &Attached, file: &TestFile) -> Result<u64> {
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let (known, cached) = (counts.watched, file.cached_pages()?);
    let pages = cached.checked_sub(known.added_pages - known.removed_pages);
    pages.ok_or_else(|| Error::Check(format!("{cached} pages are cached, and it knows {known:?}")))
}

/// What comes after a filter finds the folios on the kernel's LRU. Those that a task in reclaim has
/// off it meanwhile are handed over by their next access, which is made here: a page that is unknown
/// after it is lost. How many waited for it.
fn check_all_known(attached: &Attached, file: &TestFile) -> Result<u64> {
    const MOST: u64 = THREADS as u64 * TAKEN_BY_RECLAIM;
    let missed = unknown(attached, file)?;
    ensure!(missed <= MOST, "{missed} pages were not handed over");
    let open = file.open_random()?;
    let mut cached = Vec::new();
    for page in 0..file.pages {
        if TestFile::is_cached(&open, page)? {
            cached.push(page);
        }
    }
    read_pages(&open, cached)?;
    let lost = unknown(attached, file)?;
    ensure!(lost == 0, "{lost} pages are lost, of {missed} that had not been handed over");
    Ok(missed)
}

fn swaps(lab: &Lab) -> Outcome {
    let file = TestFile::create("to-and-fro", 4 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("to-and-fro", Some(LIMIT))?;
    let mut attached = policy::attach("lru", &cgroup)?;
    let load = Load::start(&cgroup, &file, THREADS)?;
    cgroup.wait_for("full", |stat| stat.get("evicted") > LIMIT_PAGES)?;
    let mut filter = policy::load("filtering", &cgroup)?;
    let start = Instant::now();
    let mut times = 0;
    while start.elapsed() < lab.time {
        filter = there_and_back(&cgroup, &mut attached, filter)?;
        times += 1;
    }
    attached.swap(filter)?;
    cgroup.wait_for_state("running")?;
    attached.swap(counts::load(&cgroup, &file)?)?;
    let reads = load.stop()?;
    cgroup.wait_for_state("running")?;
    let missed = check_all_known(&attached, &file)?;
    ensure!(times > 1, "only {times} swaps to the filter");
    Ok(format!("{times} times to the filter and back, {reads} reads, {missed} handed over late"))
}
