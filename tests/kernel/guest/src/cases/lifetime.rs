// SPDX-License-Identifier: Apache-2.0
//! Nothing stale stays when files, folios and cgroups go while they are in use.

use super::{Case, Ext4, Lab, MIB, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::{Context, Result, read_text, write_text};
use crate::files::{PAGE, TestFile, page_content, write_pages};
use crate::load::Load;
use crate::mapping::Mapping;
use crate::policy;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("a_full_cgroup_is_removed", &[Ext4], removed_full),
    case("a_removed_cgroups_folios_go_to_its_parents_policy", &[Ext4], removed_below),
    case("a_cgroup_is_removed_under_load", &[Ext4], removed_under_load),
    case("a_policy_is_detached_under_load", &[Ext4, Xfs], detached_under_load),
    case("a_file_is_truncated_under_load", &[Ext4, Xfs], truncated_under_load),
    case("compaction_moves_folios", &[Ext4, Xfs], compaction),
    case("the_lru_is_switched_while_a_policy_runs", &[Ext4], lru_switched),
];

const LIMIT: u64 = 8 * MIB;
const LIMIT_PAGES: u64 = 8 * PAGES_PER_MIB;

pub fn dying() -> Result<u64> {
    let text = read_text("/sys/fs/cgroup/cgroup.stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("nr_dying_descendants "));
    Ok(line.and_then(|value| value.parse().ok()).unwrap_or(0))
}

/// A removed cgroup may stay for a page that somebody else uses now; more of them may not.
const STRAGGLERS: u64 = 1;

/// Cgroups that are removed are freed once their folios are gone.
pub fn wait_until_dead(most: u64) -> Result<()> {
    let start = Instant::now();
    loop {
        // Whatever else its processes were the first to read is charged to it as well.
        write_text("/proc/sys/vm/drop_caches", "3")?;
        let left = dying()?;
        if left <= most + STRAGGLERS {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(15), "{left} removed cgroups stay");
        thread::sleep(Duration::from_millis(200));
    }
}

fn removed_full(_: &Lab) -> Outcome {
    let file = TestFile::create("full", 2 * LIMIT_PAGES)?;
    let before = dying()?;
    let cgroup = Cgroup::create("full", Some(LIMIT))?;
    let attached = policy::attach("lfu", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    cgroup.remove()?;
    // The folios are still charged to what is left of it, and the link is open.
    file.read_all()?;
    file.uncache()?;
    attached.detach();
    wait_until_dead(before)?;
    Ok("removed, read again, dropped".into())
}

fn removed_below(_: &Lab) -> Outcome {
    let file = TestFile::create("orphans", LIMIT_PAGES / 2)?;
    let parent = Cgroup::create("heir", Some(2 * LIMIT))?;
    let above = counts::attach(&parent, &file)?;
    let child = parent.child("child", None)?;
    let below = policy::attach("fifo", &child)?;
    child::run(&child, || file.read_all())?;
    ensure!(parent.stat()?.get("resident_pages") < file.pages, "not the child's");
    child.remove()?;
    parent.wait_for("heir of its child", |stat| stat.get("resident_pages") >= file.pages)?;
    let counts = counts::of(above.policy())?;
    counts.check_sane()?;
    ensure!(counts.watched.added_pages == file.pages, "adopted: {:?}", counts.watched);
    below.detach();
    file.uncache()?;
    let left = parent.stat()?.get("resident_pages");
    ensure!(left < file.pages, "{left} pages stay registered");
    Ok(format!("{:?}", counts.watched))
}

fn removed_under_load(lab: &Lab) -> Outcome {
    let file = TestFile::create("doomed", 4 * LIMIT_PAGES)?;
    let before = dying()?;
    for round in 0..3 {
        let cgroup = Cgroup::create(&format!("doomed{round}"), Some(LIMIT))?;
        let attached = policy::attach("lfu", &cgroup)?;
        let load = Load::start(&cgroup, &file, 4)?;
        thread::sleep(lab.time / 8);
        cgroup.remove()?;
        load.was_killed()?;
        attached.detach();
    }
    file.read_all()?;
    file.uncache()?;
    wait_until_dead(before)?;
    Ok("three times".into())
}

fn detached_under_load(lab: &Lab) -> Outcome {
    let file = TestFile::create("under", 4 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("under", Some(LIMIT))?;
    let load = Load::start(&cgroup, &file, 4)?;
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < lab.time {
        let attached = policy::attach("lfu", &cgroup)?;
        thread::sleep(Duration::from_millis(50));
        if rounds % 2 == 0 {
            attached.detach();
        } else {
            attached.detach_by_call()?;
        }
        let stat = cgroup.stat()?;
        ensure!(
            stat.text("state") == "none" && stat.get("resident_pages") == 0,
            "after detaching: {stat:?}"
        );
        rounds += 1;
    }
    let reads = load.stop()?;
    Ok(format!("{rounds} times in {reads} reads"))
}

/// Its pages go away and are written anew while others read them.
fn truncated_under_load(lab: &Lab) -> Outcome {
    let file = TestFile::create("shrinking", LIMIT_PAGES)?;
    let other = TestFile::create("steady", 2 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("shrinking", Some(LIMIT))?;
    let attached = counts::attach(&cgroup, &file)?;
    let load = Load::start(&cgroup, &other, 2)?;
    let time = lab.time / 2;
    child::run(&cgroup, || {
        let descriptor = file.open()?;
        let start = Instant::now();
        while start.elapsed() < time {
            descriptor.set_len(100 * PAGE as u64 + 7).context(|| "truncate".into())?;
            write_pages(&descriptor, 0..LIMIT_PAGES / 4)?;
            let large: Vec<u8> = (0..256).flat_map(page_content).collect();
            descriptor.write_all_at(&large, 0).context(|| "write".into())?;
        }
        descriptor.set_len(0).context(|| "truncate".into())
    })?;
    load.stop()?;
    let counts = counts::of(attached.policy())?;
    let found = counts.watched;
    ensure!(
        found.added_twice == 0 && found.removed_unknown == 0,
        "folios came or went twice: {found:?}"
    );
    ensure!(found.added_pages == found.removed_pages, "an empty file has pages: {found:?}");
    Ok(format!("{found:?}"))
}

fn vm_event(name: &str) -> Result<u64> {
    let text = read_text("/proc/vmstat")?;
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(found.unwrap_or(0))
}

/// Compacts all memory until pages have moved. Pages just freed wait in lists per CPU, where
/// compaction does not see the holes; the kernel's `vmstat` work takes them from there in time.
fn compact() -> Result<u64> {
    const ATTEMPTS: u32 = 20;
    let before = vm_event("pgmigrate_success ")?;
    for _ in 0..ATTEMPTS {
        write_text("/proc/sys/vm/compact_memory", "1")?;
        let moved = vm_event("pgmigrate_success ")? - before;
        if moved > 0 {
            return Ok(moved);
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(0)
}

/// Half of the memory beside the file is freed, page by page: compaction fills the holes.
fn compaction(_: &Lab) -> Outcome {
    let file = TestFile::create("compacted", 2 * LIMIT_PAGES)?;
    let spacer = TestFile::create("spacer", 2 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("compacted", None)?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || {
        let (one, other) = (file.open_random()?, spacer.open_random()?);
        for page in 0..file.pages {
            crate::files::read_page(&one, page)?;
            crate::files::read_page(&other, page)?;
        }
        Ok(())
    })?;
    spacer.uncache()?;
    let moved = compact()?;
    child::run(&cgroup, || file.read_all())?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let found = counts.watched;
    ensure!(moved > 0, "compaction moved nothing");
    ensure!(
        found.added == file.pages && found.again == file.pages && found.removed == 0,
        "after {moved} pages were moved: {found:?}"
    );
    file.uncache()?;
    let stat = cgroup.stat()?;
    let last = counts::of(attached.policy())?;
    last.check_sane()?;
    ensure!(last.watched.removed == file.pages, "folios that were moved go: {:?}", last.watched);
    ensure!(stat.get("resident_pages") < 64, "records stay: {stat:?}");
    Ok(format!("{moved} pages moved"))
}

/// A mapping of the file keeps page tables busy while folios change from one LRU to the other.
fn lru_switched(lab: &Lab) -> Outcome {
    const SWITCH: &str = "/sys/kernel/mm/lru_gen/enabled";
    const SWITCHES: u32 = 100;
    let was = read_text(SWITCH)?;
    let file = TestFile::create("switched", 4 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("switched", Some(LIMIT))?;
    let _attached = policy::attach("lfu", &cgroup)?;
    let load = Load::start(&cgroup, &file, 4)?;
    cgroup.wait_for("full", |stat| stat.get("evicted") > LIMIT_PAGES)?;
    // While it is switched, folios wait in lists that reclaim does not look at: a moment each time.
    for round in 0..SWITCHES {
        write_text(SWITCH, if round % 2 == 0 { "y" } else { "n" })?;
        thread::sleep(lab.time / (2 * SWITCHES));
    }
    let mapping = Mapping::of_file(&file.open()?, LIMIT_PAGES)?;
    mapping.check_pages((0..LIMIT_PAGES).step_by(16))?;
    let reads = load.stop()?;
    write_text(SWITCH, if was.trim() == "0x0000" { "n" } else { "y" })?;
    super::limits::check_served(&cgroup.stat()?)?;
    Ok(format!("{reads} reads"))
}
