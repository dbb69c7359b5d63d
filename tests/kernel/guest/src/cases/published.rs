// SPDX-License-Identifier: Apache-2.0
//! Policies written against the interface that was published with cache_ext, attached by the
//! agent's command.

use super::limits::check_served;
use super::loader::run_agent;
use super::{Case, Ext4, Lab, Long, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::files::{SCRATCH, TestFile};
use crate::load::Load;
use crate::parameter::{Parameter, WATCHDOG_SHORT};
use crate::policy;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::fs;
use std::time::Duration;

pub const CASES: &[Case] = &[
    case("a_published_policy_is_attached_by_its_object", &[Once], attached),
    case("published_policies_hit_like_ours", &[Ext4, Long], hits),
    case("a_published_policy_keeps_to_a_directory", &[Once], watched),
    case("published_policies_are_asked_one_request_at_a_time", &[Once], alone),
    case("published_policies_may_leave_requests_to_the_kernel", &[Once], declined),
];

const THREADS: usize = 4;
const LIMIT_MIB: u64 = 16;
const PINS: &str = "/sys/fs/bpf/cachepilot";
const WARMING: Duration = Duration::from_secs(2);

/// Objects, what else the command is told of them, and the policy of ours that does the same. The
/// last one only tries what there is.
const POLICIES: [(&str, &[&str], &str); 3] = [
    ("published_fifo", &[], "fifo"),
    ("published_lfu", &["--max-entries", "folios=65536", "--set", "most_accesses=1000000"], "lfu"),
    ("published_two_lists", &[], ""),
];

fn attach(lab: &Lab, cgroup: &Cgroup, object: &str, more: &[&str]) -> Result<()> {
    let file = policy::object(object).display().to_string();
    let arguments: Vec<&str> = ["attach", "--object", &file].iter().chain(more).copied().collect();
    run_agent(lab, cgroup, &arguments)?;
    cgroup.wait_for_state("running").map(drop)
}

/// What the policy counts of calls that did not do what they should.
fn failures(cgroup: &Cgroup) -> Result<u64> {
    let path = format!("{PINS}/{}/map__data_failures", cgroup.id()?);
    let map = MapHandle::from_pinned_path(&path).context(|| path.clone())?;
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).context(|| path.clone())?;
    let bytes = value.and_then(|value| value.try_into().ok());
    bytes.map(u64::from_ne_bytes).ok_or_else(|| Error::Check(format!("{path}: not a number")))
}

fn attached(lab: &Lab) -> Outcome {
    let cgroup = Cgroup::create("object", Some(8 * MIB))?;
    let file = TestFile::create("object", 4 * 8 * PAGES_PER_MIB)?;
    for (object, more, _) in POLICIES {
        attach(lab, &cgroup, object, more)?;
        child::run(&cgroup, || file.read_all())?;
        let stat = cgroup.stat()?;
        ensure!(stat.text("policy") == format!("{object}_ops"), "{stat:?}");
        check_served(&stat)?;
        ensure!(failures(&cgroup)? == 0, "{object}: {} failures", failures(&cgroup)?);
        let again = run_agent(lab, &cgroup, &["attach", "--policy", "lru"]);
        ensure!(again.is_err(), "a second policy was attached");
        run_agent(lab, &cgroup, &["stat"])?;
        run_agent(lab, &cgroup, &["detach"])?;
        cgroup.wait_for_state("none")?;
    }
    attach(lab, &cgroup, "published_fifo", &[])?;
    run_agent(lab, &cgroup, &["swap", "--policy", "lru"])?;
    run_agent(lab, &cgroup, &["detach"])?;
    let left = fs::read_dir(PINS).context(|| PINS.into())?.count();
    ensure!(left == 0, "{left} cgroups with pins are left");
    Ok("attached".into())
}

/// Miss ratio of a load under whatever policy is attached.
fn measure(cgroup: &Cgroup, file: &TestFile, time: Duration) -> Result<f64> {
    let load = Load::start(cgroup, file, THREADS)?;
    load.watch(cgroup, WARMING)?;
    let window = load.watch(cgroup, time)?;
    load.stop()?;
    Ok(window.miss_ratio())
}

fn hits(lab: &Lab) -> Outcome {
    let mut said = Vec::new();
    for (object, more, ours) in POLICIES.into_iter().filter(|(_, _, ours)| !ours.is_empty()) {
        let file = TestFile::create("hits", 4 * LIMIT_MIB * PAGES_PER_MIB)?;
        let cgroup = Cgroup::create("hits", Some(LIMIT_MIB * MIB))?;
        attach(lab, &cgroup, object, more)?;
        let theirs = measure(&cgroup, &file, lab.time)?;
        let stat = cgroup.stat()?;
        check_served(&stat)?;
        ensure!(stat.get("ejections") == 0, "{object} was ejected: {stat:?}");
        ensure!(failures(&cgroup)? == 0, "{object}: {} failures", failures(&cgroup)?);
        run_agent(lab, &cgroup, &["detach"])?;
        let attached = policy::attach(ours, &cgroup)?;
        let usual = measure(&cgroup, &file, lab.time.min(Duration::from_secs(60)))?;
        drop(attached);
        said.push(format!("{object} {theirs:.4}, {ours} {usual:.4}"));
        ensure!((theirs - usual).abs() <= lab.tolerance, "{}", said.join("; "));
    }
    Ok(said.join("; "))
}

fn watched(lab: &Lab) -> Outcome {
    let cgroup = Cgroup::create("watched", Some(64 * MIB))?;
    let dir = format!("{SCRATCH}/watched");
    fs::create_dir_all(&dir).context(|| dir.clone())?;
    let inside = TestFile::create("watched/inside", 4 * PAGES_PER_MIB)?;
    let outside = TestFile::create("outside", 4 * PAGES_PER_MIB)?;
    attach(lab, &cgroup, "published_fifo", &["--watch", &dir])?;
    child::run(&cgroup, || inside.read_all().and_then(|()| outside.read_all()))?;
    let path = format!("{PINS}/{}/map_inode_watchlist", cgroup.id()?);
    let map = MapHandle::from_pinned_path(&path).context(|| path.clone())?;
    let inodes = map.keys().count();
    ensure!(inodes == 1, "{inodes} inodes are watched");
    let before = cgroup.stat()?;
    cgroup
        .write("memory.reclaim", &format!("{}", 2 * MIB))
        .or_else(|_| cgroup.write("memory.reclaim", &format!("{MIB}")))?;
    let after = cgroup.stat()?;
    ensure!(after.get("reclaimed_pages") > before.get("reclaimed_pages"), "{after:?}");
    ensure!(failures(&cgroup)? == 0, "{} failures", failures(&cgroup)?);
    run_agent(lab, &cgroup, &["detach"])?;
    Ok(format!("{} reclaimed", after.get("reclaimed_pages")))
}

fn alone(lab: &Lab) -> Outcome {
    let cgroup = Cgroup::create("alone", Some(8 * MIB))?;
    let file = TestFile::create("alone", 4 * 8 * PAGES_PER_MIB)?;
    attach(lab, &cgroup, "published_alone", &[])?;
    measure(&cgroup, &file, WARMING)?;
    let stat = cgroup.stat()?;
    check_served(&stat)?;
    ensure!(failures(&cgroup)? == 0, "{} at the same time", failures(&cgroup)?);
    run_agent(lab, &cgroup, &["detach"])?;
    Ok(format!("{} requests", stat.get("requests")))
}

/// One that looks at nothing is not ejected, one that looks and finds nothing is.
fn declined(lab: &Lab) -> Outcome {
    let cgroup = Cgroup::create("declined", Some(8 * MIB))?;
    let file = TestFile::create("declined", 4 * 8 * PAGES_PER_MIB)?;
    let few = Parameter::set(WATCHDOG_SHORT, "32")?;
    attach(lab, &cgroup, "published_alone", &["--set", "declines=1"])?;
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    ensure!(stat.text("state") == "running" && stat.get("requests") > 64, "ejected: {stat:?}");
    ensure!(stat.get("fallback_pages") > 0, "the kernel did not step in: {stat:?}");
    run_agent(lab, &cgroup, &["detach"])?;
    let dir = format!("{SCRATCH}/nothing");
    fs::create_dir_all(&dir).context(|| dir.clone())?;
    attach(lab, &cgroup, "published_fifo", &["--watch", &dir])?;
    child::run(&cgroup, || file.read_all())?;
    drop(few);
    let idle = cgroup.stat()?;
    ensure!(idle.text("state") == "ejected", "it was not ejected: {idle:?}");
    run_agent(lab, &cgroup, &["detach"])?;
    Ok(format!("{} requests left to the kernel", stat.get("requests")))
}
