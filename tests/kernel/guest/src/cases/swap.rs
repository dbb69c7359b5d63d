// SPDX-License-Identifier: Apache-2.0
//! One policy replaces another under load.

use super::{Case, Ext4, Lab, Long, MIB, Once, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::Result;
use crate::files::{TestFile, read_pages};
use crate::load::Load;
use crate::policy::{self, Attached, Policy};
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("attaching_adopts_what_is_resident", &[Ext4, Xfs], adopts),
    case("a_swap_adopts_everything_oldest_first", &[Ext4, Xfs], oldest_first),
    case("a_swap_calls_exit_once_and_the_old_one_no_more", &[Once], old_one_rests),
    case("folios_that_wait_through_256_swaps_are_handed_over", &[Once], waits_long),
    case("swaps_under_load_lose_nothing", &[Ext4, Long], under_load),
];

const PAGES: u64 = 2048;
const THREADS: usize = 8;
const EVERY: Duration = Duration::from_millis(100);

fn adopts(_: &Lab) -> Outcome {
    let file = TestFile::create("found", PAGES)?;
    let cgroup = Cgroup::create("found", Some(64 * MIB))?;
    child::run(&cgroup, || {
        child::stay_on_one_cpu()?;
        file.read_all()
    })?;
    let attached = counts::attach(&cgroup, &file)?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let found = counts.watched;
    ensure!(
        found.added_pages == PAGES && found.first == 0 && found.again == 0,
        "{PAGES} pages were resident, and none was accessed: {found:?}"
    );
    ensure!(counts.order()?.is_sorted(), "they were not adopted oldest first");
    Ok(format!("{found:?}"))
}

/// Seven is prime to the number of pages: an order that is not that of the file.
fn oldest_first(_: &Lab) -> Outcome {
    let file = TestFile::create("ordered", PAGES)?;
    let cgroup = Cgroup::create("ordered", Some(64 * MIB))?;
    let mut attached = policy::attach("lru", &cgroup)?;
    let order: Vec<u64> = (0..PAGES).map(|i| i * 7 % PAGES).collect();
    child::run(&cgroup, || {
        // What hits ask to be moved is moved in the order of each processor.
        child::stay_on_one_cpu()?;
        file.read_all()?;
        read_pages(&file.open_random()?, order.iter().copied())
    })?;
    attached.swap(counts::load(&cgroup, &file)?)?;
    let stat = cgroup.wait_for_state("running")?;
    ensure!(stat.get("swaps") == 1, "swaps: {stat:?}");
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    ensure!(counts.watched.added == PAGES, "adopted: {:?}", counts.watched);
    ensure!(counts.order()? == order, "not in the order of the list before");
    Ok(format!("{:?}", counts.watched))
}

fn old_one_rests(_: &Lab) -> Outcome {
    let file = TestFile::create("before", PAGES)?;
    let cgroup = Cgroup::create("before", Some(64 * MIB))?;
    let mut attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || file.read_all())?;
    let old = attached.swap_to("fifo", &cgroup)?;
    let before = counts::of(&old)?;
    ensure!(before.inits == 1 && before.exits == 1, "{} {}", before.inits, before.exits);
    child::run(&cgroup, || file.read_all())?;
    file.uncache()?;
    let after = counts::of(&old)?;
    ensure!(before.all == after.all, "it was called afterwards: {:?}", after.all);
    Ok(format!("{:?}", after.watched))
}

/// Swaps follow each other faster than the last folios in line can be handed over.
fn waits_long(_: &Lab) -> Outcome {
    const MANY: u64 = 8192;
    let file = TestFile::create("waiting", MANY)?;
    let cgroup = Cgroup::create("waiting", None)?;
    let mut attached = policy::attach("dawdling", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let last = counts::load(&cgroup, &file)?;
    let mut next = policy::load("dawdling", &cgroup)?;
    let start = Instant::now();
    for _ in 0..255 {
        next = attached.swap(next)?;
    }
    attached.swap(last)?;
    let took = start.elapsed();
    cgroup.wait_for_state("running")?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let told = counts.watched.added_pages;
    ensure!(told == MANY, "{told} of {MANY} pages were handed over: {:?}", counts.watched);
    Ok(format!("256 swaps in {took:?}"))
}

/// Two policies take turns: a table that was replaced can be used again.
fn swap_for(attached: &mut Attached, mut next: Policy, time: Duration) -> Result<(u32, Policy)> {
    let start = Instant::now();
    let mut swaps = 0;
    while start.elapsed() < time {
        next = attached.swap(next)?;
        swaps += 1;
        thread::sleep((EVERY * swaps).saturating_sub(start.elapsed()));
    }
    Ok((swaps, next))
}

fn under_load(lab: &Lab) -> Outcome {
    let limit_pages = 8 * PAGES_PER_MIB;
    let file = TestFile::create("swapped", 4 * limit_pages)?;
    let cgroup = Cgroup::create("swapped", Some(8 * MIB))?;
    let mut attached = policy::attach("lru", &cgroup)?;
    let load = Load::start(&cgroup, &file, THREADS)?;
    cgroup.wait_for("full", |stat| stat.get("evicted") > limit_pages)?;
    let before = load.watch(&cgroup, lab.time)?;
    let next = policy::load("lru", &cgroup)?;
    let mut swapped = None;
    let during = load.watch_while(&cgroup, || {
        swapped = Some(swap_for(&mut attached, next, lab.time)?);
        Ok(())
    })?;
    let swaps = swapped.map_or(0, |(swaps, _)| swaps);
    let after = load.watch(&cgroup, lab.time)?;
    let reads = load.stop()?;
    let ratios = [before.miss_ratio(), during.miss_ratio(), after.miss_ratio()];
    let stat = cgroup.stat()?;
    let said = format!("miss ratios {ratios:.4?}, {swaps} swaps, {reads} reads");
    ensure!(stat.get("swaps") == u64::from(swaps), "{said}: {stat:?}");
    ensure!((ratios[1] - ratios[0]).abs() <= lab.tolerance, "while swapping: {said}");
    ensure!((ratios[2] - ratios[0]).abs() <= lab.tolerance, "afterwards: {said}");
    ensure!(f64::from(swaps) >= lab.time.as_secs_f64() * 2.0, "too few swaps: {said}");
    Ok(said)
}
