// SPDX-License-Identifier: Apache-2.0
//! Requests for a part of a policy's folios: of one child, of one node, of many children.

use super::limits::check_served;
use super::nodes::{file_bytes, machine_pages, stay_on_node};
use super::{Case, Ext4, Lab, MIB, Nodes, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::counts;
use crate::ensure;
use crate::error::Result;
use crate::files::TestFile;
use crate::load::Load;
use crate::mapping::Mapping;
use crate::policy;
use std::thread;
use std::time::Instant;

pub const CASES: &[Case] = &[
    case("a_child_is_asked_past_a_hundred_thousand_folios", &[Ext4], past_siblings),
    case("a_node_is_asked_past_the_folios_of_another", &[Nodes], past_nodes),
    case("folios_that_moved_to_a_node_are_reclaimed_there", &[Nodes], moved_there),
    case("a_parent_takes_from_its_children_in_the_order_of_the_list", &[Ext4], in_order),
    case("folios_without_a_part_of_their_own_are_reclaimed_too", &[Ext4], common_parts),
    case("a_swap_hands_over_the_folios_of_children_in_order", &[Ext4], handed_over),
    case("what_a_removed_child_left_is_reclaimed_from_its_parent", &[Ext4], orphans),
    case("children_are_removed_while_their_parent_is_reclaimed", &[Ext4], removed_under_reclaim),
    case("parts_come_and_go_while_a_request_looks_for_them", &[Ext4], parts_come_and_go),
];

/// Fails unless the policy looked at hardly more folios than it gave.
fn check_scanned(stat: &Stat) -> Outcome {
    let (scanned, reclaimed) = (stat.get("scanned_folios"), stat.get("reclaimed_pages"));
    ensure!(
        scanned > 0 && scanned <= 2 * reclaimed + 32 * stat.get("requests"),
        "{scanned} folios were looked at for {reclaimed}: {stat:?}"
    );
    ensure!(stat.get("scan_limited") == 0 && stat.get("parts_lost") == 0, "{stat:?}");
    Ok(format!("{}; scanned {scanned}", check_served(stat)?))
}

/// Most of the list is a sibling's, all of it before what helps.
fn past_siblings(_: &Lab) -> Outcome {
    const OTHERS: u64 = 100_000;
    const ASKED: u64 = 4 * PAGES_PER_MIB;
    let others = TestFile::sparse("others", OTHERS)?;
    let own = TestFile::sparse("own", 2 * ASKED)?;
    let parent = Cgroup::create("past", None)?;
    let (sibling, asked) = (parent.child("sibling", None)?, parent.child("asked", None)?);
    let _attached = policy::attach("fifo", &parent)?;
    child::run(&sibling, || others.skim(0..OTHERS))?;
    child::run(&asked, || own.skim(0..2 * ASKED))?;
    asked.write("memory.reclaim", "4M")?;
    let cached = own.cached_pages()?;
    ensure!(
        cached <= ASKED && cached + 64 >= ASKED,
        "{cached} of {} pages are left, {ASKED} were asked for: {:?}",
        2 * ASKED,
        parent.stat()?
    );
    ensure!(others.cached_pages()? == OTHERS, "the sibling gave some");
    check_scanned(&parent.stat()?)
}

/// The first quarter of the machine's folios is on node 1, then node 0 is short.
fn past_nodes(_: &Lab) -> Outcome {
    let quarter = machine_pages()? / 4;
    let others = TestFile::sparse("others", quarter)?;
    let own = TestFile::sparse("own", 3 * quarter)?;
    let parent = Cgroup::create("past", None)?;
    let (sibling, asked) = (parent.child("sibling", None)?, parent.child("asked", None)?);
    let _attached = policy::attach("fifo", &parent)?;
    child::run(&sibling, || {
        stay_on_node(1)?;
        others.skim(0..quarter)
    })?;
    child::run(&asked, || {
        stay_on_node(0)?;
        own.skim(0..3 * quarter)
    })?;
    let bytes = file_bytes(&parent)?;
    Ok(format!("{}; bytes {bytes:?}", check_scanned(&parent.stat()?)?))
}

/// A request of node 0 finds what has come from node 1, and before what was read later.
fn moved_there(_: &Lab) -> Outcome {
    const MOVED: u64 = 1024;
    let pages = machine_pages()? * 3 / 4;
    let file = TestFile::create("moved", MOVED)?;
    let later = TestFile::sparse("later", pages)?;
    let cgroup = Cgroup::create("moved", None)?;
    let _attached = policy::attach("fifo", &cgroup)?;
    child::run(&cgroup, || {
        stay_on_node(1)?;
        let mapping = Mapping::of_file(&file.open()?, MOVED)?;
        mapping.check_pages(0..MOVED)?;
        let moved = mapping.move_to_node(MOVED, 0)?;
        ensure!(moved > MOVED * 9 / 10, "{moved} of {MOVED} pages moved");
        Ok(())
    })?;
    child::run(&cgroup, || {
        stay_on_node(0)?;
        later.skim(0..pages)
    })?;
    let (left, stat) = (file.cached_pages()?, cgroup.stat()?);
    ensure!(left <= MOVED / 10, "{left} of {MOVED} pages that moved are left: {stat:?}");
    check_served(&stat)
}

/// Children that read their files one after the other.
struct Family {
    parent: Cgroup,
    children: Vec<Cgroup>,
    files: Vec<TestFile>,
}

const CHILDREN: usize = 40;
const EACH: u64 = 64;

impl Family {
    fn create(name: &str) -> Result<Self> {
        let parent = Cgroup::create(name, None)?;
        let mut family = Self { parent, children: Vec::new(), files: Vec::new() };
        for number in 0..CHILDREN {
            family.children.push(family.parent.child(&format!("child{number}"), None)?);
            family.files.push(TestFile::sparse(&format!("{name}{number}"), EACH)?);
        }
        Ok(family)
    }

    fn read(&self) -> Result<()> {
        for (child, file) in self.children.iter().zip(&self.files) {
            child::run(child, || {
                child::stay_on_one_cpu()?;
                file.skim(0..EACH)
            })?;
        }
        Ok(())
    }

    /// Has the parent give a part of what was read, and fails unless that is what came first.
    fn check_order(&self, asked: u64) -> Outcome {
        self.parent.write("memory.reclaim", &(asked * 4096).to_string())?;
        let left: Vec<u64> =
            self.files.iter().map(TestFile::cached_pages).collect::<Result<_>>()?;
        let gone = CHILDREN as u64 * EACH - left.iter().sum::<u64>();
        ensure!((asked..=asked + 64).contains(&gone), "{gone} pages went, not {asked}: {left:?}");
        let whole = left.iter().position(|&pages| pages > 0).unwrap_or(CHILDREN);
        // Pages in a batch of a processor are not on the kernel's LRU, and stay.
        let held: u64 = left.iter().skip(whole + 1).map(|pages| EACH - pages).sum();
        ensure!(held <= 32, "later children gave {held} pages before earlier ones: {left:?}");
        Ok(format!("{gone} pages; {left:?}"))
    }
}

/// There are more children than an iteration merges at a time.
fn in_order(_: &Lab) -> Outcome {
    let family = Family::create("order")?;
    let _attached = policy::attach("fifo", &family.parent)?;
    family.read()?;
    let said = family.check_order(20 * EACH)?;
    check_scanned(&family.parent.stat()?)?;
    Ok(said)
}

/// The children on sixteen lists take more parts than there may be.
fn common_parts(_: &Lab) -> Outcome {
    const EACH: u64 = 16;
    const MANY: u64 = 140;
    let parent = Cgroup::create("common", None)?;
    let _attached = policy::attach("spreading", &parent)?;
    let (mut children, mut files) = (Vec::new(), Vec::new());
    for number in 0..MANY {
        let child = parent.child(&format!("child{number}"), None)?;
        let file = TestFile::sparse(&format!("common{number}"), EACH)?;
        child::run(&child, || file.skim(0..EACH))?;
        children.push(child);
        files.push(file);
    }
    let stat = parent.stat()?;
    ensure!(stat.get("parts_lost") > 0, "all found a part: {stat:?}");
    // The last one has none of its own.
    if let Some((child, file)) = children.last().zip(files.last()) {
        child.write("memory.reclaim", &(EACH * 4096).to_string())?;
        let left = file.cached_pages()?;
        ensure!(left == 0, "{left} of {EACH} pages of the last child are left");
    }
    let before: u64 = files.iter().map(TestFile::cached_pages).sum::<Result<_>>()?;
    ensure!(before == (MANY - 1) * EACH, "others gave some: {before} pages are left");
    parent.write("memory.reclaim", &(MANY / 2 * EACH * 4096).to_string())?;
    let after: u64 = files.iter().map(TestFile::cached_pages).sum::<Result<_>>()?;
    let stat = parent.stat()?;
    ensure!(before - after >= MANY / 2 * EACH, "{} pages went: {stat:?}", before - after);
    // A child that has given all that it has leaves the rest of a request to the kernel.
    let (chosen, gone) = (stat.get("reclaimed_pages"), stat.get("evicted"));
    ensure!(
        stat.text("state") == "running" && chosen * 10 >= gone * 9,
        "the policy chose {chosen} of {gone} pages: {stat:?}"
    );
    Ok(format!("parts_lost {}; {chosen} of {gone} pages", stat.get("parts_lost")))
}

/// The next policy adopts what the children have on the list of the last one, oldest first.
fn handed_over(_: &Lab) -> Outcome {
    let family = Family::create("handed")?;
    let mut attached = policy::attach("fifo", &family.parent)?;
    family.read()?;
    for next in ["lru", "fifo", "lru", "fifo"] {
        attached.swap_to(next, &family.parent)?;
    }
    family.parent.wait_for_state("running")?;
    let said = family.check_order(20 * EACH)?;
    check_scanned(&family.parent.stat()?)?;
    Ok(said)
}

/// Its folios stay charged to what is left of it, and its parent has to be able to take them.
fn orphans(_: &Lab) -> Outcome {
    let file = TestFile::sparse("orphaned", 8 * PAGES_PER_MIB)?;
    let parent = Cgroup::create("orphanage", None)?;
    let child = parent.child("child", None)?;
    let attached = counts::attach(&parent, &file)?;
    child::run(&child, || file.skim(0..file.pages))?;
    child.remove()?;
    parent.write("memory.reclaim", "4M")?;
    let cached = file.cached_pages()?;
    ensure!(cached <= 4 * PAGES_PER_MIB, "{cached} of {} pages are left", file.pages);
    let said = check_scanned(&parent.stat()?)?;
    file.uncache()?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    ensure!(
        counts.watched.evicted + counts.watched.removed == file.pages,
        "not all went: {:?}",
        counts.watched
    );
    Ok(said)
}

fn removed_under_reclaim(lab: &Lab) -> Outcome {
    let file = TestFile::create("torn", 3 * PAGES_PER_MIB)?;
    let parent = Cgroup::create("torn", Some(2 * MIB))?;
    let attached = counts::attach(&parent, &file)?;
    for round in 0..4 {
        let children: Vec<_> = (0..3)
            .map(|number| parent.child(&format!("child{round}-{number}"), None))
            .collect::<Result<_>>()?;
        let loads: Vec<_> =
            children.iter().map(|child| Load::start(child, &file, 1)).collect::<Result<_>>()?;
        thread::sleep(lab.time / 4);
        for (child, load) in children.iter().zip(loads) {
            child.remove()?;
            load.was_killed()?;
        }
    }
    let stat = parent.stat()?;
    ensure!(stat.text("state") == "running", "the policy does not run: {stat:?}");
    ensure!(stat.get("reclaimed_pages") > 0, "nothing was reclaimed: {stat:?}");
    file.uncache()?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let (was, is) = (counts.watched.added, counts.watched.evicted + counts.watched.removed);
    ensure!(was == is, "{was} folios came, {is} went: {:?}", counts.watched);
    Ok(format!("{:?}", counts.watched))
}

/// There are more parts than are looked at in one hold of the lock, and policies, too, that change.
fn parts_come_and_go(lab: &Lab) -> Outcome {
    const MANY: usize = 24;
    const EACH: u64 = 16;
    let own = TestFile::create("loaded", 6 * PAGES_PER_MIB)?;
    let files: Vec<_> = (0..MANY)
        .map(|number| TestFile::sparse(&format!("going{number}"), EACH))
        .collect::<Result<_>>()?;
    let parent = Cgroup::create("going", Some(4 * MIB))?;
    let mut attached = policy::attach("spreading", &parent)?;
    let loader = parent.child("loader", None)?;
    let load = Load::start(&loader, &own, 2)?;
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < lab.time {
        let children: Vec<_> = (0..MANY)
            .map(|number| parent.child(&format!("going{number}"), None))
            .collect::<Result<_>>()?;
        for (child, file) in children.iter().zip(&files) {
            child::run(child, || file.skim(0..EACH))?;
        }
        attached.swap_to("spreading", &parent)?;
        rounds += 1;
    }
    load.stop()?;
    let stat = parent.stat()?;
    ensure!(stat.text("state") != "ejected", "the policy was ejected: {stat:?}");
    check_all_found(&parent, &files)?;
    Ok(format!("{rounds} times, {} requests", stat.get("requests")))
}

/// All that is on the lists of a policy is still found by its requests.
fn check_all_found(parent: &Cgroup, files: &[TestFile]) -> Result<()> {
    let stat = parent.wait_for_state("running")?;
    let resident = stat.get("resident_pages");
    parent.write("memory.reclaim", &(resident / 2 * 4096).to_string())?;
    let after = parent.stat()?;
    let (chosen, gone) = (
        after.get("reclaimed_pages") - stat.get("reclaimed_pages"),
        after.get("evicted") - stat.get("evicted"),
    );
    let cached: u64 = files.iter().map(TestFile::cached_pages).sum::<Result<_>>()?;
    ensure!(
        gone >= resident / 2 && chosen * 10 >= gone * 9,
        "the policy chose {chosen} of {gone} pages, {cached} of children are left: {after:?}"
    );
    Ok(())
}
