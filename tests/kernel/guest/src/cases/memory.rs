// SPDX-License-Identifier: Apache-2.0
//! What the registry costs, and that it all comes back.

use super::lifetime::{dying, wait_until_dead};
use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Error, Result, read_text, write_text};
use crate::files::TestFile;
use crate::policy;

pub const CASES: &[Case] = &[
    case("the_registry_takes_1_2_percent_at_most", &[Once], registry),
    case("the_registry_shrinks_with_the_cache", &[Once], shrinks),
    case("ghosts_follow_the_limit", &[Once], ghosts),
    case("twenty_attachments_leak_nothing", &[Once], leaks),
];

fn registry(_: &Lab) -> Outcome {
    let file = TestFile::create("costly", 48 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("costly", Some(64 * MIB))?;
    let none = cgroup.stat()?;
    ensure!(none.get("registry_bytes") == 0, "without a policy: {none:?}");
    let _attached = policy::attach("lfu", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    let (bytes, cached) = (stat.get("registry_bytes"), stat.get("resident_pages") * 4096);
    ensure!(cached >= 48 * MIB, "resident: {stat:?}");
    ensure!(bytes * 1000 <= cached * 12, "{bytes} bytes for {cached} that are cached");
    Ok(format!("{bytes} bytes for {cached}"))
}

fn shrinks(_: &Lab) -> Outcome {
    let file = TestFile::create("freed", 32 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("freed", Some(64 * MIB))?;
    let _attached = policy::attach("lfu", &cgroup)?;
    let empty = cgroup.stat()?.get("registry_bytes");
    child::run(&cgroup, || file.read_all())?;
    let full = cgroup.stat()?.get("registry_bytes");
    file.uncache()?;
    let stat = cgroup.stat()?;
    let last = stat.get("registry_bytes");
    ensure!(last < empty + (full - empty) / 8, "{empty} bytes, {full} full, {last}: {stat:?}");
    ensure!(stat.get("resident_pages") < 64, "an empty cache: {stat:?}");
    Ok(format!("{empty} bytes, {full} full, {last} at the end"))
}

/// Ghosts of s3fifo: as many as pages fit, at most.
fn ghosts(_: &Lab) -> Outcome {
    let file = TestFile::create("haunted", 32 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("haunted", Some(8 * MIB))?;
    let _attached = policy::attach("s3fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let before = cgroup.stat()?;
    let most = 8 * PAGES_PER_MIB;
    ensure!(
        (most / 4..=most).contains(&before.get("ghost_entries")),
        "at most {most} ghosts: {before:?}"
    );
    cgroup.write("memory.max", &(2 * MIB).to_string())?;
    child::run(&cgroup, || file.read_all())?;
    let after = cgroup.stat()?;
    ensure!(
        after.get("ghost_entries") <= most / 4 && after.get("ghost_entries") > 0,
        "the limit is a quarter: {after:?}"
    );
    ensure!(after.get("ghosts_lost") == 0, "{after:?}");
    Ok(format!("{} then {}", before.get("ghost_entries"), after.get("ghost_entries")))
}

/// Free memory of the machine in KiB, once caches are empty.
fn free_kib() -> Result<i64> {
    for _ in 0..2 {
        write_text("/proc/sys/vm/drop_caches", "3")?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let text = read_text("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kib.ok_or_else(|| Error::Check("/proc/meminfo has no MemFree".into()))
}

/// Fills a cgroup and removes it, with a policy or without.
fn fill(file: &TestFile, policy: Option<&str>) -> Result<()> {
    let cgroup = Cgroup::create("leaky", Some(2 * MIB))?;
    let attached = policy.map(|name| policy::attach(name, &cgroup)).transpose()?;
    child::run(&cgroup, || file.read_all())?;
    drop(attached);
    let stat = cgroup.stat()?;
    ensure!(
        stat.text("state") == "none"
            && stat.get("resident_pages") == 0
            && stat.get("registry_bytes") == 0
            && stat.get("ghost_bytes") == 0,
        "after detaching: {stat:?}"
    );
    file.uncache()
}

/// Memory that is missing after so many rounds, in KiB.
fn missing_kib(file: &TestFile, policy: Option<&str>, rounds: u64) -> Result<i64> {
    for _ in 0..4 {
        fill(file, policy)?;
    }
    let removed = dying()?;
    let before = free_kib()?;
    for _ in 0..rounds {
        fill(file, policy)?;
    }
    wait_until_dead(removed)?;
    Ok(before - free_kib()?)
}

/// Without a policy the kernel keeps some memory of the cgroups, too: as much as some megabytes, and
/// another number of them each time. So each attempt is compared with one without a policy just
/// before, and what others take meanwhile passes for a leak once, not every time.
fn leaks(_: &Lab) -> Outcome {
    const ROUNDS: u64 = 20;
    const NOISE_KIB: i64 = 512;
    const ATTEMPTS: u64 = 4;
    let file = TestFile::create("leaky", 3 * PAGES_PER_MIB)?;
    let mut found = Vec::new();
    for _ in 0..ATTEMPTS {
        let without = missing_kib(&file, None, ROUNDS)?.max(0);
        let with = missing_kib(&file, Some("s3fifo"), ROUNDS)?;
        found.push((with, without));
        if with <= without + NOISE_KIB {
            return Ok(format!(
                "{with} KiB are missing after {ROUNDS} policies, {without} without"
            ));
        }
    }
    Err(Error::Check(format!("missing after {ROUNDS} policies, and without, in KiB: {found:?}")))
}
