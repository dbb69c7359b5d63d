// SPDX-License-Identifier: Apache-2.0
//! Every way in which the kernel asks for memory back reaches the policy.

use super::{Case, Ext4, Lab, MIB, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::ensure;
use crate::error::{Context, Result};
use crate::files::{TestFile, write_pages};
use crate::mapping::Mapping;
use crate::policy;

pub const CASES: &[Case] = &[
    case("memory_max_reclaims_through_the_policy", &[Ext4, Xfs], memory_max),
    case("memory_high_reclaims_through_the_policy", &[Ext4], memory_high),
    case("memory_reclaim_takes_what_was_asked", &[Ext4], memory_reclaim),
    case("lowering_memory_max_reclaims_through_the_policy", &[Ext4], lowered_max),
    case("anonymous_memory_pushes_the_cache_out", &[Ext4], anonymous),
    case("dirty_pages_beyond_the_limit_are_written", &[Ext4, Xfs], dirty),
    case("locked_pages_stay", &[Ext4], locked),
];

const LIMIT: u64 = 8 * MIB;
const LIMIT_PAGES: u64 = 8 * PAGES_PER_MIB;

/// Fails unless the policy served the requests, nearly all by itself, and the sums fit.
pub fn check_served(stat: &Stat) -> Outcome {
    let get = |key| stat.get(key);
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    ensure!(get("requests") > 0 && get("reclaimed_pages") > 0, "no requests served: {stat:?}");
    ensure!(
        get("reclaimed_pages") <= get("accepted_pages")
            && get("accepted_pages") <= get("proposed_pages"),
        "counted more than once: {stat:?}"
    );
    ensure!(
        get("rejected_stale") == 0 && get("rejected_duplicate") == 0 && get("refused_calls") == 0,
        "an honest policy was refused: {stat:?}"
    );
    ensure!(
        get("fallback_pages") * 10 <= get("reclaimed_pages"),
        "the kernel chose more than a tenth: {stat:?}"
    );
    Ok(format!(
        "requests {} reclaimed {} fallback {} busy {}",
        get("requests"),
        get("reclaimed_pages"),
        get("fallback_pages"),
        get("rejected_busy")
    ))
}

fn check_within(stat: &Stat, pages: u64) -> Result<()> {
    let resident = stat.get("resident_pages");
    ensure!(resident <= pages, "{resident} pages are resident, the limit is {pages}");
    ensure!(resident * 2 > pages, "only {resident} pages are resident of {pages}");
    Ok(())
}

fn memory_max(_: &Lab) -> Outcome {
    let file = TestFile::create("max", 3 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("max", Some(LIMIT))?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    check_within(&stat, LIMIT_PAGES)?;
    ensure!(cgroup.figure("memory.events", "oom")? == 0, "out of memory");
    check_served(&stat)
}

fn memory_high(_: &Lab) -> Outcome {
    let file = TestFile::create("high", 3 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("high", None)?;
    cgroup.write("memory.high", &LIMIT.to_string())?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    ensure!(cgroup.figure("memory.events", "high")? > 0, "memory.high was never met");
    check_within(&stat, LIMIT_PAGES + 256)?;
    check_served(&stat)
}

fn memory_reclaim(_: &Lab) -> Outcome {
    const ASKED_PAGES: u64 = 2 * PAGES_PER_MIB;
    let file = TestFile::create("asked", LIMIT_PAGES)?;
    let cgroup = Cgroup::create("asked", None)?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let before = cgroup.stat()?;
    cgroup.write("memory.reclaim", "2M")?;
    let after = cgroup.stat()?;
    let gone = before.get("resident_pages") - after.get("resident_pages");
    ensure!(
        (ASKED_PAGES * 9 / 10..=ASKED_PAGES + 64).contains(&gone),
        "{gone} pages went, {ASKED_PAGES} were asked for: {after:?}"
    );
    ensure!(
        after.get("requested_pages") <= ASKED_PAGES + 64 + after.get("rejected_busy"),
        "the policy was asked for more: {after:?}"
    );
    check_served(&after)?;
    Ok(format!("{gone} of {ASKED_PAGES} pages"))
}

fn lowered_max(_: &Lab) -> Outcome {
    let file = TestFile::create("lowered", LIMIT_PAGES)?;
    let cgroup = Cgroup::create("lowered", None)?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    cgroup.write("memory.max", &(LIMIT / 4).to_string())?;
    let stat = cgroup.stat()?;
    check_within(&stat, LIMIT_PAGES / 4)?;
    check_served(&stat)
}

fn anonymous(_: &Lab) -> Outcome {
    let file = TestFile::create("pushed", LIMIT_PAGES)?;
    let cgroup = Cgroup::create("pushed", Some(LIMIT))?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || {
        file.read_all()?;
        Mapping::private(LIMIT_PAGES * 3 / 4)?.dirty_pages(0..LIMIT_PAGES * 3 / 4);
        Ok(())
    })?;
    let stat = cgroup.stat()?;
    ensure!(cgroup.figure("memory.events", "oom_kill")? == 0, "a process was killed");
    ensure!(stat.get("resident_pages") < LIMIT_PAGES / 2, "the cache stayed: {stat:?}");
    check_served(&stat)
}

fn dirty(_: &Lab) -> Outcome {
    let file = TestFile::create("dirty", 0)?;
    let pages = 3 * LIMIT_PAGES;
    let cgroup = Cgroup::create("dirty", Some(LIMIT))?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || {
        let descriptor = file.open()?;
        write_pages(&descriptor, 0..pages)?;
        descriptor.sync_all().context(|| "fsync".into())
    })?;
    let stat = cgroup.stat()?;
    ensure!(cgroup.figure("memory.events", "oom_kill")? == 0, "a process was killed");
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    let file = TestFile { path: file.path.clone(), pages };
    file.read_all()?;
    Ok(format!("busy {} fallback {}", stat.get("rejected_busy"), stat.get("fallback_pages")))
}

fn locked(_: &Lab) -> Outcome {
    const LOCKED: u64 = LIMIT_PAGES / 4;
    let hot = TestFile::create("locked", LOCKED)?;
    let cold = TestFile::create("around", 3 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("locked", Some(LIMIT))?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || {
        let mapping = Mapping::of_file(&hot.open()?, LOCKED)?;
        mapping.lock()?;
        cold.read_all()?;
        let cached = hot.cached_pages()?;
        ensure!(cached == LOCKED, "{cached} of {LOCKED} locked pages are cached");
        mapping.check_pages(0..LOCKED)
    })?;
    // A quarter of its list cannot go, and FIFO comes back to it time and again.
    let stat = cgroup.stat()?;
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    ensure!(stat.get("reclaimed_pages") > LIMIT_PAGES, "little was reclaimed: {stat:?}");
    Ok(format!("busy {} fallback {}", stat.get("rejected_busy"), stat.get("fallback_pages")))
}
