// SPDX-License-Identifier: Apache-2.0
//! Policies can tell folios that were read ahead and wait for their first access.

use super::{Case, Ext4, Lab, MIB, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::Result;
use crate::files::{PAGE, TestFile, fadvise, read_pages};
use crate::mapping::Mapping;
use crate::policy;
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("folios_that_are_read_ahead_are_unused_until_they_are_read", &[Ext4, Xfs], read_ahead),
    case("a_folio_that_two_processors_read_is_used", &[Ext4], two_processors),
    case("folios_that_a_policy_found_are_used", &[Ext4], found),
    case("lirs_lets_go_of_what_is_never_used", &[Ext4], never_used),
];

const PAGES: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(10);
/// Fewer than a processor puts on the LRU at once: they wait in its batch.
const BATCHED: u64 = 24;

/// `struct sparing_state` of tests/kernel/policies/sparing.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct State {
    list: u64,
    looked_at: u64,
    unused: u64,
}

/// What the policy sees at its first request, after `reads` of a file by a task of its cgroup.
fn seen_after(
    name: &str,
    before: impl FnOnce(&TestFile) -> Result<()>,
    reads: impl FnOnce(&TestFile) -> Result<()>,
) -> Result<State> {
    let file = TestFile::create(name, PAGES)?;
    let cgroup = Cgroup::create(name, Some(64 * MIB))?;
    child::run(&cgroup, || before(&file))?;
    let attached = policy::attach("sparing", &cgroup)?;
    child::run(&cgroup, || reads(&file))?;
    cgroup.write("memory.reclaim", "64K")?;
    // SAFETY: mapped as long as the policy is open.
    Ok(unsafe { attached.policy().state::<State>()?.read_volatile() })
}

/// Has all pages of a file read ahead; nobody uses them.
fn bring(file: &TestFile) -> Result<()> {
    let pages = file.pages;
    let opened = file.open()?;
    let error = fadvise(&opened, 0, pages * PAGE as u64, libc::POSIX_FADV_WILLNEED);
    ensure!(error == 0, "posix_fadvise: error {error}");
    // What is being read is handed over to no policy.
    let mapping = Mapping::of_file(&opened, pages)?;
    let start = Instant::now();
    while mapping.resident_pages()? < pages {
        ensure!(
            start.elapsed() < PATIENCE,
            "{} pages of {pages} are read",
            mapping.resident_pages()?
        );
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn read_ahead(_: &Lab) -> Outcome {
    let brought = seen_after("brought", |_| Ok(()), bring)?;
    ensure!(brought.unused >= PAGES / 2, "nobody read any of them: {brought:?}");
    let read = seen_after(
        "read",
        |_| Ok(()),
        |file| {
            bring(file)?;
            read_pages(&file.open_random()?, 0..PAGES)
        },
    )?;
    ensure!(read.looked_at >= PAGES / 2 && read.unused == 0, "all were read: {read:?}");
    Ok(format!("{} of {}, then {}", brought.unused, brought.looked_at, read.unused))
}

/// The second access finds `PG_referenced`, which it takes away, and no folio to activate.
fn two_processors(_: &Lab) -> Outcome {
    let seen = seen_after(
        "two",
        |_| Ok(()),
        |file| {
            let opened = file.open_random()?;
            for processor in 0..2 {
                child::stay_on_cpu(processor)?;
                read_pages(&opened, 0..BATCHED)?;
            }
            Ok(())
        },
    )?;
    ensure!(seen.looked_at >= BATCHED && seen.unused == 0, "all were read twice: {seen:?}");
    Ok(format!("{seen:?}"))
}

/// What was in the page cache before is none that readahead has just brought.
fn found(_: &Lab) -> Outcome {
    let seen = seen_after("found", bring, |file| read_pages(&file.open_random()?, 0..1))?;
    ensure!(seen.looked_at >= PAGES / 2 && seen.unused == 0, "none came since: {seen:?}");
    Ok(format!("{seen:?}"))
}

/// They go round the queue once; a queue that kept them would have that much less room for ever.
fn never_used(_: &Lab) -> Outcome {
    const AHEAD: u64 = 96;
    let (ahead, looped) =
        (TestFile::create("ahead", AHEAD)?, TestFile::create("looped", 3 * PAGES_PER_MIB)?);
    let cgroup = Cgroup::create("vain", Some(2 * MIB))?;
    let _attached = policy::attach("lirs", &cgroup)?;
    child::run(&cgroup, || {
        bring(&ahead)?;
        (0..3).try_for_each(|_| looped.read_all())
    })?;
    let left = ahead.cached_pages()?;
    ensure!(left <= AHEAD / 8, "{left} of {AHEAD} pages stay that nobody used");
    Ok(format!("{left} of {AHEAD} pages stay"))
}
