// SPDX-License-Identifier: Apache-2.0
//! Descendants of a cgroup with a policy, and limits above and below it.

use super::limits::check_served;
use super::{Case, Ext4, Lab, MIB, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::ensure;
use crate::files::TestFile;
use crate::policy;

pub const CASES: &[Case] = &[
    case("children_inherit_the_policy", &[Ext4], inherit),
    case("a_child_has_a_policy_of_its_own", &[Ext4], own),
    case("policies_attach_below_and_above_each_other", &[Ext4], nested),
    case("a_deep_hierarchy_is_reclaimed_from_its_root", &[Ext4], deep),
    case("a_limit_above_reclaims_from_policies_below", &[Ext4], limit_above),
    case("a_child_at_its_limit_loses_only_its_own", &[Ext4], limit_below),
    case("processes_move_between_cgroups", &[Ext4], moved),
];

const PAGES: u64 = 1024;

fn inherit(_: &Lab) -> Outcome {
    let file = TestFile::create("inherited", PAGES)?;
    let parent = Cgroup::create("inherit", Some(64 * MIB))?;
    let older = parent.child("older", None)?;
    let attached = counts::attach(&parent, &file)?;
    let younger = parent.child("younger", None)?;
    for child in [&older, &younger] {
        let stat = child.stat()?;
        ensure!(
            stat.text("policy") == "counting" && stat.get("owner") == parent.id()?,
            "{}: {stat:?}",
            child.path()
        );
        child::run(child, || file.read_all())?;
        let counts = counts::of(attached.policy())?;
        counts.check_sane()?;
        ensure!(
            counts.watched.added == PAGES && counts.watched.first == PAGES,
            "{}: {:?}",
            child.path(),
            counts.watched
        );
        file.uncache()?;
        let state = counts::of(attached.policy())?.watched;
        ensure!(state.removed == PAGES, "removed: {state:?}");
        attached.policy().reset()?;
    }
    attached.detach();
    ensure!(younger.stat()?.text("policy") == "none", "the policy stays with a child");
    Ok("both children".into())
}

/// What the child has cached goes to its own policy, and back to its parent's.
fn own(_: &Lab) -> Outcome {
    let file = TestFile::create("own", PAGES)?;
    let parent = Cgroup::create("own", Some(64 * MIB))?;
    let child = parent.child("child", None)?;
    let above = counts::attach(&parent, &file)?;
    child::run(&child, || file.read_all())?;
    let below = counts::attach(&child, &file)?;
    let adopted = counts::of(below.policy())?;
    adopted.check_sane()?;
    ensure!(adopted.watched.added == PAGES, "adopted by the child's: {:?}", adopted.watched);
    ensure!(parent.stat()?.get("resident_pages") < PAGES, "the parent's keeps the child's folios");
    child::run(&child, || file.read_all())?;
    let (mine, parents) = (counts::of(below.policy())?, counts::of(above.policy())?);
    ensure!(mine.watched.again == PAGES, "accesses: {:?}", mine.watched);
    ensure!(parents.watched.again == 0, "accesses told to the parent's: {:?}", parents.watched);
    below.detach();
    let stat = parent.wait_for("the parent's again", |stat| stat.get("resident_pages") >= PAGES)?;
    ensure!(child.stat()?.get("owner") == parent.id()?, "the child does not inherit again");
    file.uncache()?;
    let last = parent.stat()?;
    ensure!(
        last.get("resident_pages") + PAGES == stat.get("resident_pages"),
        "after removal: {last:?}"
    );
    Ok(format!("{:?}", mine.watched))
}

fn nested(_: &Lab) -> Outcome {
    let top = Cgroup::create("nested", Some(64 * MIB))?;
    let middle = top.child("middle", None)?;
    let bottom = middle.child("bottom", None)?;
    let lowest = policy::attach("fifo", &bottom)?;
    let highest = policy::attach("lru", &top)?;
    let between = policy::attach("mru", &middle)?;
    let names = |cgroups: [&Cgroup; 3]| -> crate::error::Result<Vec<String>> {
        cgroups.iter().map(|cgroup| Ok(cgroup.stat()?.text("policy").to_owned())).collect()
    };
    let all = [&top, &middle, &bottom];
    ensure!(names(all)? == ["lru", "mru", "fifo"], "{:?}", names(all)?);
    lowest.detach();
    ensure!(names(all)? == ["lru", "mru", "mru"], "{:?}", names(all)?);
    highest.detach();
    ensure!(names(all)? == ["none", "mru", "mru"], "{:?}", names(all)?);
    between.detach();
    ensure!(names(all)? == ["none", "none", "none"], "{:?}", names(all)?);
    Ok("attached and detached out of order".into())
}

fn deep(_: &Lab) -> Outcome {
    let file = TestFile::create("deep", 3 * 8 * PAGES_PER_MIB)?;
    let top = Cgroup::create("deep", Some(8 * MIB))?;
    let mut path = vec![top.child("1", None)?];
    for level in 2..=8 {
        let next = path.last().map(|last| last.child(&level.to_string(), None));
        path.extend(next.transpose()?);
    }
    let _attached = policy::attach("fifo", &top)?;
    let lowest = path.last().unwrap_or(&top);
    child::run(lowest, || file.read_all())?;
    ensure!(lowest.stat()?.get("owner") == top.id()?, "the lowest does not inherit");
    ensure!(top.figure("memory.events", "oom")? == 0, "out of memory");
    check_served(&top.stat()?)
}

fn limit_above(_: &Lab) -> Outcome {
    let top = Cgroup::create("above", Some(8 * MIB))?;
    let (left, right) = (top.child("left", None)?, top.child("right", None)?);
    let files = [
        TestFile::create("left", 16 * PAGES_PER_MIB)?,
        TestFile::create("right", 16 * PAGES_PER_MIB)?,
    ];
    let _policies = [policy::attach("fifo", &left)?, policy::attach("lru", &right)?];
    let readers = [(&left, &files[0]), (&right, &files[1])];
    let mut children = Vec::new();
    for (cgroup, file) in readers {
        children.push(child::spawn(cgroup, || file.read_all())?);
    }
    children.into_iter().try_for_each(child::Child::wait)?;
    let (first, second) = (left.stat()?, right.stat()?);
    let reclaimed = first.get("reclaimed_pages") + second.get("reclaimed_pages");
    ensure!(reclaimed > 0, "nobody was asked: {first:?} {second:?}");
    ensure!(top.figure("memory.events", "oom")? == 0, "out of memory");
    Ok(format!("reclaimed {reclaimed}"))
}

/// Its sibling has the same policy, from their parent, but nothing of it helps.
fn limit_below(_: &Lab) -> Outcome {
    let parent = Cgroup::create("below", Some(64 * MIB))?;
    let (small, sibling) = (parent.child("small", Some(4 * MIB))?, parent.child("sibling", None)?);
    let quiet = TestFile::create("quiet", PAGES)?;
    let busy = TestFile::create("busy", 3 * 4 * PAGES_PER_MIB)?;
    let attached = policy::attach("fifo", &parent)?;
    child::run(&sibling, || quiet.read_all())?;
    child::run(&small, || busy.read_all())?;
    let cached = quiet.cached_pages()?;
    ensure!(cached == PAGES, "the sibling has {cached} of {PAGES} pages left");
    let stat = parent.stat()?;
    attached.detach();
    ensure!(stat.get("requests") > 0, "nobody was asked: {stat:?}");
    check_served(&stat)
}

fn moved(_: &Lab) -> Outcome {
    let file = TestFile::create("moved", 2 * PAGES)?;
    let (from, to) = (Cgroup::create("from", Some(64 * MIB))?, Cgroup::create("to", None)?);
    let old = counts::attach(&from, &file)?;
    let new = counts::attach(&to, &file)?;
    child::run(&from, || {
        let descriptor = file.open_random()?;
        crate::files::read_pages(&descriptor, 0..PAGES)?;
        to.write("cgroup.procs", "0")?;
        crate::files::read_pages(&descriptor, 0..2 * PAGES)
    })?;
    let (old, new) = (counts::of(old.policy())?, counts::of(new.policy())?);
    old.check_sane()?;
    new.check_sane()?;
    ensure!(
        old.watched.added == PAGES && old.watched.again == PAGES,
        "pages read before the move stay: {:?}",
        old.watched
    );
    ensure!(
        new.watched.added == PAGES && new.watched.again == 0,
        "pages read after the move: {:?}",
        new.watched
    );
    Ok(format!("{:?} {:?}", old.watched, new.watched))
}
