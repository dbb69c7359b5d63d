// SPDX-License-Identifier: Apache-2.0
//! What applications say of their files, without privileges.

use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts;
use crate::credentials;
use crate::ensure;
use crate::error::{Context, Result};
use crate::files::{PAGE, TestFile, advise, fadvise};
use crate::mapping::Mapping;
use crate::policy;
use std::fs::{File, OpenOptions};

pub const CASES: &[Case] = &[
    case("a_policy_is_told_of_advice", &[Once], told),
    case("a_task_evicts_pages_of_its_own_cgroup_alone", &[Once], evicted),
    case("pages_that_are_to_be_kept_outlast_others", &[Once], kept),
    case("s3fifo_goes_by_advice", &[Once], s3fifo),
];

/// Of include/uapi/linux/cache_ext.h.
const FADV_CACHE_EVICT: i32 = 0x100;
const FADV_CACHE_KEEP: i32 = 0x101;

const PAGES: u64 = 256;

/// `struct advised_state` of tests/kernel/policies/advised.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Advised {
    list: u64,
    told: [u64; 5],
}

fn open(file: &TestFile) -> Result<File> {
    File::open(&file.path).context(|| file.path.display().to_string())
}

/// Runs a closure in the cgroup as somebody without any privilege.
fn as_nobody(cgroup: &Cgroup, work: impl FnOnce() -> Result<()>) -> Result<()> {
    child::run(cgroup, || {
        credentials::become_nobody()?;
        work()
    })
}

fn told(_: &Lab) -> Outcome {
    let file = TestFile::create("told", PAGES)?;
    let cgroup = Cgroup::create("told", Some(8 * MIB))?;
    let attached = policy::attach("advised", &cgroup)?;
    child::run(&cgroup, || {
        let mapping = Mapping::of_file(&file.open()?, PAGES)?;
        mapping.check_pages(0..PAGES)?;
        credentials::become_nobody()?;
        let descriptor = open(&file)?;
        for advice in
            [libc::POSIX_FADV_WILLNEED, libc::POSIX_FADV_NOREUSE, libc::POSIX_FADV_SEQUENTIAL]
        {
            advise(&descriptor, advice)?;
        }
        // Mapped pages stay, which is what the policy is told.
        advise(&descriptor, libc::POSIX_FADV_DONTNEED)?;
        let error = fadvise(&descriptor, PAGE as u64, PAGE as u64, FADV_CACHE_KEEP);
        ensure!(error == 0, "keeping a page: error {error}");
        Ok(())
    })?;
    let state = attached.policy().state::<Advised>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    let told = unsafe { state.read_volatile() }.told;
    ensure!(told == [0, PAGES, PAGES, PAGES, 1], "told of {told:?} folios");
    let stat = cgroup.stat()?;
    ensure!(
        stat.get("advised_folios") == 3 * PAGES + 1 && stat.get("advice_limited") == 0,
        "{stat:?}"
    );
    Ok(format!("{told:?}"))
}

fn evicted(_: &Lab) -> Outcome {
    let file = TestFile::create("shared", 3 * PAGES)?;
    let parent = Cgroup::create("evicting", Some(8 * MIB))?;
    let (own, other) = (parent.child("own", None)?, parent.child("other", None)?);
    let attached = counts::attach(&parent, &file)?;
    child::run(&other, || file.skim(0..PAGES))?;
    child::run(&own, || {
        child::stay_on_one_cpu()?;
        file.skim(PAGES..3 * PAGES)
    })?;
    as_nobody(&own, || {
        let writer = OpenOptions::new().write(true).open(&file.path);
        ensure!(writer.is_err(), "nobody may write to the file");
        let error = fadvise(&open(&file)?, 0, 2 * PAGES * PAGE as u64, FADV_CACHE_EVICT);
        ensure!(error == 0, "evicting: error {error}");
        Ok(())
    })?;
    let cached = file.cached_pages()?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    ensure!(
        cached == 2 * PAGES && counts.watched.evicted == PAGES && counts.watched.removed == 0,
        "{cached} of {} pages are cached: {:?}",
        file.pages,
        counts.watched
    );
    let write_only = OpenOptions::new().write(true).open(&file.path);
    let write_only = write_only.context(|| file.path.display().to_string())?;
    let error = fadvise(&write_only, 0, 0, FADV_CACHE_EVICT);
    ensure!(error == libc::EBADF, "a file that is not open for reading: error {error}");
    Ok(format!("{:?}", counts.watched))
}

/// Half of what was read first is to be kept, and then more is read than there is room for.
fn kept(_: &Lab) -> Outcome {
    const LIMIT: u64 = 8 * PAGES_PER_MIB;
    let keep = TestFile::sparse("keep", LIMIT / 4)?;
    let pass = TestFile::sparse("pass", LIMIT)?;
    let cgroup = Cgroup::create("keeping", Some(8 * MIB))?;
    let work = |wanted: i32| {
        keep.skim(0..LIMIT / 4)?;
        pass.skim(0..LIMIT / 2)?;
        credentials::become_nobody()?;
        let error = fadvise(&open(&keep)?, 0, LIMIT / 8 * PAGE as u64, FADV_CACHE_KEEP);
        ensure!(error == wanted, "keeping: error {error}");
        Ok(())
    };
    child::run(&cgroup, || work(libc::EOPNOTSUPP))?;
    let mut left = Vec::new();
    // One has a hook for it, to the other it is an access.
    for name in ["advised", "lru"] {
        keep.uncache()?;
        pass.uncache()?;
        let _attached = policy::attach(name, &cgroup)?;
        child::run(&cgroup, || work(0))?;
        child::run(&cgroup, || pass.skim(LIMIT / 2..LIMIT))?;
        left.push(keep.cached_pages()?);
    }
    ensure!(
        left.iter().all(|left| (LIMIT / 8..LIMIT / 8 + 64).contains(left)),
        "{left:?} pages are left, {} were to be kept",
        LIMIT / 8
    );
    Ok(format!("{left:?} pages"))
}

/// Two files are read once, of which one is to be kept, and two are read often, of which one is
/// said to be over; then more is read than there is room for.
fn s3fifo(_: &Lab) -> Outcome {
    const LIMIT: u64 = 8 * PAGES_PER_MIB;
    const EACH: u64 = 64;
    const OFTEN: usize = 4;
    let make = |name| TestFile::sparse(name, EACH);
    let (keep, other) = (make("keep")?, make("other")?);
    let (over, hot) = (make("over")?, make("hot")?);
    let pass = TestFile::sparse("pass", 3 * LIMIT)?;
    let cgroup = Cgroup::create("going", Some(8 * MIB))?;
    let _attached = policy::attach("s3fifo", &cgroup)?;
    child::run(&cgroup, || {
        // A page in another processor's batch cannot be reclaimed.
        child::stay_on_one_cpu()?;
        // Only a cache that was full has its small queue filter.
        pass.skim(0..2 * LIMIT)?;
        [&over, &hot]
            .iter()
            .try_for_each(|file| (0..OFTEN).try_for_each(|_| file.skim(0..EACH)))?;
        keep.skim(0..EACH)?;
        other.skim(0..EACH)?;
        advise(&open(&keep)?, FADV_CACHE_KEEP)?;
        advise(&open(&over)?, libc::POSIX_FADV_NOREUSE)?;
        pass.skim(2 * LIMIT..2 * LIMIT + LIMIT / 2)
    })?;
    let left = [&keep, &hot, &other, &over].map(TestFile::cached_pages);
    let left = left.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(
        left[..2].iter().all(|&pages| pages > EACH * 3 / 4)
            && left[2..].iter().all(|&pages| pages < EACH / 4),
        "of {EACH} pages each that are to be kept, hot, neither and over are left: {left:?}"
    );
    Ok(format!("{left:?} pages"))
}
