// SPDX-License-Identifier: Apache-2.0
//! Policies that misbehave: work completes, what was refused is counted, the watchdog ejects.

use super::{Case, Lab, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::ensure;
use crate::error::{Error, Result};
use crate::files::{TestFile, read_pages};
use crate::hostile::{self, Handle, Mode, hold, hold_in};
use crate::parameter::{Parameter, WATCHDOG_MS, WATCHDOG_SHORT};
use std::fs;

const ATTEMPTS: u32 = 8;

pub const CASES: &[Case] = &[
    case("a_policy_that_proposes_nothing_is_ejected", &[Once], silent),
    case("the_same_folio_32_times_counts_once", &[Once], same),
    case("stale_folios_are_refused", &[Once], stale),
    case("folios_of_a_cgroup_with_another_policy_are_refused", &[Once], of_another_policy),
    case("folios_of_a_cgroup_that_cannot_help_are_refused", &[Once], of_a_sibling),
    case("folios_that_are_shown_are_not_used_for_other_pages", &[Once], while_shown),
    case("scanning_without_end_is_bounded", &[Once], scanning),
    case("lists_that_it_does_not_own_are_refused", &[Once], foreign_lists),
    case("a_slow_policy_is_ejected", &[Once], slow),
    case("one_request_that_is_very_slow_is_enough", &[Once], very_slow),
    case("an_ejected_policy_is_replaced_by_a_swap", &[Once], replaced),
];

const LIMIT: u64 = LIMIT_PAGES * 4096;
const LIMIT_PAGES: u64 = 8 * PAGES_PER_MIB;
const PAGES: u64 = 3 * LIMIT_PAGES;
/// Short requests in a row: fewer than reading so many pages makes.
const FEW: &str = "32";
/// Reads far more than fits, with a policy that misbehaves so.
fn read_with(mode: Mode, prepare: impl FnOnce(&Handle)) -> Result<(Stat, hostile::State)> {
    let file = TestFile::create("victim", PAGES)?;
    let cgroup = Cgroup::create("victim", Some(LIMIT))?;
    let (_attached, handle) = hostile::attach(&cgroup)?;
    prepare(&handle);
    handle.set_mode(mode);
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    ensure!(cgroup.figure("memory.events", "oom")? == 0, "out of memory: {stat:?}");
    ensure!(
        stat.get("reclaimed_pages") <= stat.get("accepted_pages")
            && stat.get("accepted_pages") <= stat.get("proposed_pages"),
        "counted more than once: {stat:?}"
    );
    Ok((stat, handle.get()))
}

fn check_ejected(stat: &Stat, reason: &str) -> Outcome {
    ensure!(
        stat.text("state") == "ejected" && stat.get("ejections") == 1,
        "it was not ejected: {stat:?}"
    );
    ensure!(stat.text("reason").contains(reason), "the reason is not {reason:?}: {stat:?}");
    Ok(stat.text("reason").into())
}

fn silent(_: &Lab) -> Outcome {
    let short = Parameter::set(WATCHDOG_SHORT, FEW)?;
    let (stat, _) = read_with(Mode::Silent, |_| ())?;
    drop(short);
    ensure!(stat.get("fallbacks") > 0, "the kernel did not step in: {stat:?}");
    check_ejected(&stat, "too few candidates")
}

fn same(_: &Lab) -> Outcome {
    let short = Parameter::set(WATCHDOG_SHORT, "1000000")?;
    let (stat, state) = read_with(Mode::Same, |_| ())?;
    drop(short);
    ensure!(state.proposed > 0, "no proposal was accepted: {state:?}");
    ensure!(
        stat.get("rejected_duplicate") >= 16 * state.proposed,
        "duplicates: {stat:?}, accepted {}",
        state.proposed
    );
    ensure!(stat.get("accepted_pages") <= state.proposed, "counted twice: {stat:?}");
    Ok(format!("{} duplicates", stat.get("rejected_duplicate")))
}

/// The file is removed while its folios are held; their memory is free.
fn stale(_: &Lab) -> Outcome {
    let file = TestFile::create("stale", 64)?;
    let other = TestFile::create("filler", 1024)?;
    let cgroup = Cgroup::create("stale", None)?;
    let (_attached, handle) = hostile::attach(&cgroup)?;
    let holding = hold(&cgroup, &file, handle)?;
    fs::remove_file(&file.path)
        .map_err(|source| Error::System { what: "unlink".into(), source })?;
    // Memory that was free is used again for folios that no policy knows.
    other.read_all()?;
    holding.finish()?;
    let stat = cgroup.stat()?;
    ensure!(stat.get("rejected_stale") >= 4, "refused: {stat:?}");
    Ok(format!("stale {}", stat.get("rejected_stale")))
}

/// The memory of the folios that are held becomes the cache of a cgroup that has its own policy.
fn of_another_policy(_: &Lab) -> Outcome {
    let file = TestFile::create("stolen", 64)?;
    let other = TestFile::create("thief", 1024)?;
    let (cgroup, thief) = (Cgroup::create("stolen", None)?, Cgroup::create("thief", None)?);
    let (_attached, handle) = hostile::attach(&cgroup)?;
    let _policy = crate::policy::attach("fifo", &thief)?;
    let holding = hold(&cgroup, &file, handle)?;
    child::run(&thief, || {
        file.open()?.set_len(0).map_err(|source| Error::System { what: "cut".into(), source })?;
        other.read_all()
    })?;
    holding.finish()?;
    let stat = cgroup.stat()?;
    ensure!(stat.get("rejected_stale") >= 4, "refused: {stat:?}");
    let cached = other.cached_pages()?;
    ensure!(cached == 1024, "the other cgroup lost {} pages", 1024 - cached);
    Ok(format!("stale {}", stat.get("rejected_stale")))
}

/// Pages of a sibling that the policy proposed, and that were refused because of it.
fn refused_of_a_sibling(mode: Mode) -> Result<u64> {
    let file = TestFile::create("ours", 64)?;
    let other = TestFile::create("theirs", 4096)?;
    let parent = Cgroup::create("family", None)?;
    let (cgroup, sibling) = (parent.child("ours", None)?, parent.child("theirs", None)?);
    let (_attached, handle) = hostile::attach(&parent)?;
    let holding = hold_in(mode, &cgroup, &file, handle)?;
    child::run(&sibling, || {
        file.open()?.set_len(0).map_err(|source| Error::System { what: "cut".into(), source })?;
        read_pages(&other.open_random()?, 0..4096)
    })?;
    holding.finish()?;
    let stat = parent.stat()?;
    ensure!(stat.get("rejected_foreign") + stat.get("rejected_stale") >= 4, "refused: {stat:?}");
    ensure!(other.cached_pages()? == 4096, "the sibling lost pages");
    Ok(stat.get("rejected_foreign"))
}

/// The same of a cgroup with the same policy, whose folios do not help the one that is reclaimed.
/// Whether the sibling gets the memory that was held is up to the allocator.
fn of_a_sibling(_: &Lab) -> Outcome {
    for _ in 0..ATTEMPTS {
        let foreign = refused_of_a_sibling(Mode::Held)?;
        if foreign > 0 {
            return Ok(format!("foreign {foreign}"));
        }
    }
    Err(Error::Check(format!("no folio was of the sibling, {ATTEMPTS} times")))
}

/// The memory of folios that are being shown is not the sibling's before that is over.
fn while_shown(_: &Lab) -> Outcome {
    for attempt in 1..=ATTEMPTS {
        let foreign = refused_of_a_sibling(Mode::Shown)?;
        ensure!(foreign == 0, "{foreign} folios were of the sibling, attempt {attempt}");
    }
    Ok("none was of the sibling".into())
}

fn scanning(_: &Lab) -> Outcome {
    let short = Parameter::set(WATCHDOG_SHORT, FEW)?;
    let (stat, _) = read_with(Mode::Scanning, |_| ())?;
    drop(short);
    ensure!(stat.get("scan_limited") > 0, "no scan was limited: {stat:?}");
    check_ejected(&stat, "")
}

fn foreign_lists(_: &Lab) -> Outcome {
    let (stat, state) = read_with(Mode::ForeignLists, |_| ())?;
    ensure!(state.succeeded == 0 && state.refused > 0, "calls should have been refused: {state:?}");
    ensure!(
        stat.get("refused_calls") >= state.refused / 2,
        "not all were counted: {stat:?} {state:?}"
    );
    ensure!(stat.text("state") == "running", "its own list is in order: {stat:?}");
    Ok(format!("{} calls", state.refused))
}

fn slow(_: &Lab) -> Outcome {
    let watchdog = Parameter::set(WATCHDOG_MS, "20")?;
    let (stat, _) = read_with(Mode::Slow, |handle| handle.set_spin_ns(60_000_000))?;
    drop(watchdog);
    check_ejected(&stat, "took")
}

fn very_slow(_: &Lab) -> Outcome {
    let watchdog = Parameter::set(WATCHDOG_MS, "1")?;
    let (stat, _) = read_with(Mode::Slow, |handle| handle.set_spin_ns(400_000_000))?;
    drop(watchdog);
    check_ejected(&stat, "took")
}

/// Memory of the ejected policy is back, and the next one works.
fn replaced(_: &Lab) -> Outcome {
    let _short = Parameter::set(WATCHDOG_SHORT, FEW)?;
    let file = TestFile::create("second", PAGES)?;
    let cgroup = Cgroup::create("second", Some(LIMIT))?;
    let (mut attached, handle) = hostile::attach(&cgroup)?;
    handle.set_mode(Mode::Silent);
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.wait_for("without registry", |stat| {
        stat.text("state") == "ejected" && stat.get("registry_bytes") == 0
    })?;
    ensure!(stat.get("resident_pages") == 0, "an ejected policy has folios: {stat:?}");
    attached.swap_to("fifo", &cgroup)?;
    let stat = cgroup.wait_for_state("running")?;
    ensure!(stat.get("resident_pages") > LIMIT_PAGES / 2, "not adopted: {stat:?}");
    let before = stat.get("reclaimed_pages");
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    ensure!(stat.text("state") == "running", "it was ejected, too: {stat:?}");
    ensure!(stat.get("reclaimed_pages") > before + PAGES / 2, "not in use: {stat:?}");
    Ok("replaced".into())
}
