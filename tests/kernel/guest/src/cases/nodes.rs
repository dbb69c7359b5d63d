// SPDX-License-Identifier: Apache-2.0
//! Two nodes, and a machine that runs out of memory as a whole.

use super::limits::check_served;
use super::{Case, Lab, MIB, Nodes, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::{Error, Result, checked, read_text};
use crate::files::TestFile;
use crate::mapping::Mapping;

pub const CASES: &[Case] = &[
    case("a_limit_is_kept_on_two_nodes", &[Nodes], limit_on_two_nodes),
    case("folios_migrate_between_nodes", &[Nodes], migration),
    case("global_reclaim_reaches_the_policy", &[Nodes], global_reclaim),
    case("global_reclaim_of_one_node", &[Nodes], one_node),
];

/// Has new memory of this process come from the nodes in turn.
fn interleave() -> Result<()> {
    let nodes: u64 = 0b11;
    // SAFETY: the mask has 64 bits.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, 3, &raw const nodes, 64) };
    checked(result, "set_mempolicy")?;
    Ok(())
}

/// Has new memory of this process come from one node.
pub fn stay_on_node(node: u32) -> Result<()> {
    let nodes = 1_u64 << node;
    // SAFETY: the mask has 64 bits.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, 2, &raw const nodes, 64) };
    checked(result, "set_mempolicy")?;
    Ok(())
}

/// Bytes of file pages of the cgroup on each node.
pub fn file_bytes(cgroup: &Cgroup) -> Result<Vec<u64>> {
    let text = cgroup.read("memory.numa_stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("file "));
    let line = line.ok_or_else(|| Error::Check("memory.numa_stat has no file pages".into()))?;
    let parse = |word: &str| word.split_once('=').and_then(|(_, bytes)| bytes.parse().ok());
    Ok(line.split_whitespace().filter_map(parse).collect())
}

fn limit_on_two_nodes(_: &Lab) -> Outcome {
    let file = TestFile::create("both", 4 * 16 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("both", Some(16 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || {
        interleave()?;
        file.read_all()
    })?;
    counts::of(attached.policy())?.check_sane()?;
    let bytes = file_bytes(&cgroup)?;
    ensure!(bytes.len() == 2, "there are {} nodes, not 2", bytes.len());
    ensure!(bytes.iter().all(|&bytes| bytes > MIB), "file pages are on one node: {bytes:?}");
    let served = check_served(&cgroup.stat()?)?;
    Ok(format!("{served}; bytes {bytes:?}"))
}

fn migration(_: &Lab) -> Outcome {
    const PAGES: u64 = 1024;
    let file = TestFile::create("migrated", PAGES)?;
    let cgroup = Cgroup::create("migrated", Some(64 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || {
        let mapping = Mapping::of_file(&file.open()?, PAGES)?;
        for node in [1, 0, 1] {
            mapping.check_pages(0..PAGES)?;
            let moved = mapping.move_to_node(PAGES, node)?;
            ensure!(moved > PAGES * 9 / 10, "{moved} of {PAGES} pages moved to node {node}");
        }
        mapping.check_pages(0..PAGES)
    })?;
    child::run(&cgroup, || file.read_all())?;
    let before = counts::of(attached.policy())?;
    before.check_sane()?;
    ensure!(
        before.watched.added == PAGES && before.watched.removed == 0 && before.watched.evicted == 0,
        "after pages moved: {:?}",
        before.watched
    );
    file.uncache()?;
    let after = counts::of(attached.policy())?;
    after.check_sane()?;
    ensure!(after.watched.removed == PAGES, "pages that moved go: {:?}", after.watched);
    Ok(format!("{:?}", after.watched))
}

pub fn machine_pages() -> Result<u64> {
    let text = read_text("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib / 4).ok_or_else(|| Error::Check("/proc/meminfo has no MemTotal".into()))
}

/// Nobody has a limit: the memory of the machine is what ends.
fn global_reclaim(_: &Lab) -> Outcome {
    let file = TestFile::create("global", machine_pages()? * 5 / 4)?;
    let cgroup = Cgroup::create("global", None)?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || file.read_all())?;
    // kswapd may still be at work: a page that it takes after this look is cached and evicted.
    let cached = file.cached_pages()?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let stat = cgroup.stat()?;
    ensure!(stat.get("requests") > 0, "the policy was never asked: {stat:?}");
    ensure!(stat.get("reclaimed_pages") > 0, "nothing was reclaimed: {stat:?}");
    ensure!(
        counts.watched.evicted + cached >= file.pages,
        "{} pages were read, {cached} are cached: {:?}",
        file.pages,
        counts.watched
    );
    check_served(&stat)
}

/// Node 0 is short, node 1 is not: candidates on node 1 are of no use.
fn one_node(_: &Lab) -> Outcome {
    let half = machine_pages()? / 2;
    let file = TestFile::create("oneside", half * 5 / 4)?;
    let cgroup = Cgroup::create("oneside", None)?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || {
        stay_on_node(0)?;
        file.read_all()
    })?;
    counts::of(attached.policy())?.check_sane()?;
    let stat = cgroup.stat()?;
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    ensure!(stat.get("reclaimed_pages") > 0, "nothing was reclaimed: {stat:?}");
    Ok(format!("reclaimed {}; bytes {:?}", stat.get("reclaimed_pages"), file_bytes(&cgroup)?))
}
