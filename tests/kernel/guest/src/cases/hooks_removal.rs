// SPDX-License-Identifier: Apache-2.0
//! Hooks are called once per event: folios that go.

use super::hooks::{PAGES, counted, expect};
use super::{Case, Ext4, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts::{self, Events};
use crate::ensure;
use crate::error::{Context, Result, write_text};
use crate::files::{PAGE, TestFile, advise, page_content};
use crate::policy;
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("truncate_once", &[Ext4, Xfs], truncate),
    case("unlink_once", &[Ext4, Xfs], unlink),
    case("direct_write_invalidates_once", &[Ext4, Xfs], direct_write),
    case("fadvise_dontneed_once", &[Ext4, Xfs], dontneed),
    case("drop_caches_once", &[Ext4, Xfs], drop_caches),
    case("punched_hole_once", &[Ext4, Xfs], punched_hole),
    case("eviction_once", &[Ext4, Xfs], eviction),
    case("large_folios_split_and_go_once", &[Xfs], split),
    case("folios_go_once_while_records_move", &[Ext4], while_records_move),
];

/// `struct departing_state` of tests/kernel/policies/departing.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Departing {
    added: u64,
    removed: u64,
    pages: u64,
}

/// Reads the file, then does what takes its pages out of the cache.
fn read_then(file: &TestFile, removal: impl FnOnce() -> Result<()>) -> Outcome {
    let (counts, _cgroup) = counted(file, || {
        file.read_all()?;
        removal()
    })?;
    expect(&counts, Events { added: PAGES, first: PAGES, removed: PAGES, ..Events::default() })
}

fn truncate(_: &Lab) -> Outcome {
    let file = TestFile::create("cut", PAGES)?;
    read_then(&file, || {
        let descriptor = file.open()?;
        descriptor.set_len(PAGES / 2 * PAGE as u64).context(|| "truncate".into())?;
        descriptor.set_len(0).context(|| "truncate".into())
    })
}

fn unlink(_: &Lab) -> Outcome {
    let file = TestFile::create("unlinked", PAGES)?;
    read_then(&file, || fs::remove_file(&file.path).context(|| "unlink".into()))
}

fn direct_write(_: &Lab) -> Outcome {
    let file = TestFile::create("direct", PAGES)?;
    let outcome = read_then(&file, || {
        let memory = crate::mapping::Mapping::private(PAGES)?;
        for page in 0..PAGES {
            let content = page_content(page);
            let bytes = usize::try_from(page).unwrap_or_default() * PAGE;
            // SAFETY: the mapping has so many pages, at page boundaries as direct I/O wants them.
            let aligned =
                unsafe { std::slice::from_raw_parts_mut(memory.start().wrapping_add(bytes), PAGE) };
            aligned.copy_from_slice(&content);
            let at = page * PAGE as u64;
            file.open_direct()?.write_all_at(aligned, at).context(|| "direct write".into())?;
        }
        Ok(())
    });
    file.read_all()?;
    outcome
}

fn dontneed(_: &Lab) -> Outcome {
    let file = TestFile::create("unneeded", PAGES)?;
    read_then(&file, || advise(&file.open()?, libc::POSIX_FADV_DONTNEED))
}

fn drop_caches(_: &Lab) -> Outcome {
    let file = TestFile::create("dropped", PAGES)?;
    read_then(&file, || write_text("/proc/sys/vm/drop_caches", "1"))
}

fn punched_hole(_: &Lab) -> Outcome {
    let file = TestFile::create("holed", PAGES)?;
    read_then(&file, || {
        let descriptor = file.open()?;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let bytes = i64::try_from(PAGES).unwrap_or_default() * 4096;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&descriptor);
        // SAFETY: takes numbers only.
        crate::error::checked(unsafe { libc::fallocate(fd, mode, 0, bytes) }, "fallocate")?;
        Ok(())
    })
}

fn eviction(_: &Lab) -> Outcome {
    let file = TestFile::create("evicted", 16 * PAGES)?;
    let cgroup = Cgroup::create("evicted", Some(8 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || file.read_all())?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let (found, cached) = (counts.watched, file.cached_pages()?);
    ensure!(
        found.added == 16 * PAGES && found.first == found.added && found.removed == 0,
        "{} pages were read: {found:?}",
        16 * PAGES
    );
    ensure!(
        found.evicted == found.added - cached && found.evicted > 0,
        "{cached} of {} pages are cached: {found:?}",
        16 * PAGES
    );
    let stat = cgroup.stat()?;
    ensure!(stat.get("evicted") == counts.all.evicted, "evictions: {stat:?}, {:?}", counts.all);
    Ok(format!("{found:?}"))
}

/// A truncation in the middle of a large folio splits it, unless it leaves a dirty page.
fn split(_: &Lab) -> Outcome {
    const LARGE_PAGES: u64 = 2048;
    let file = TestFile::create("split", 0)?;
    let bytes: Vec<u8> = (0..LARGE_PAGES).flat_map(page_content).collect();
    let kept = 777;
    let (counts, cgroup) = counted(&file, || {
        let descriptor = file.open()?;
        descriptor.write_all_at(&bytes, 0).context(|| "write".into())?;
        descriptor.sync_all().context(|| "fsync".into())?;
        descriptor.set_len(kept * PAGE as u64).context(|| "truncate".into())
    })?;
    let found = counts.watched;
    ensure!(found.added < LARGE_PAGES, "there are no large folios here: {found:?}");
    ensure!(found.added_pages - found.removed_pages == kept, "{kept} pages were kept: {found:?}");
    let cached = file.cached_pages()?;
    ensure!(cached == kept, "{cached} pages are cached, not {kept}");
    drop(cgroup);
    Ok(format!("{found:?}"))
}

/// Reads a file and cuts it, again and again, on a processor of its own.
fn come_and_go(file: &TestFile, cpu: u32, time: Duration) -> Result<()> {
    child::stay_on_cpu(cpu)?;
    let descriptor = file.open()?;
    let start = Instant::now();
    while start.elapsed() < time {
        file.skim(0..file.pages)?;
        descriptor.set_len(0).context(|| "truncate".into())?;
        descriptor.set_len(file.pages * PAGE as u64).context(|| "truncate".into())?;
    }
    Ok(())
}

/// The table shrinks under the folios of one file as those of another one go.
fn while_records_move(lab: &Lab) -> Outcome {
    const FEW: u64 = 1024;
    let files = [TestFile::sparse("going", FEW)?, TestFile::sparse("gone", FEW)?];
    let cgroup = Cgroup::create("going", None)?;
    let attached = policy::attach("departing", &cgroup)?;
    let time = 2 * lab.time;
    let first = child::spawn(&cgroup, || come_and_go(&files[0], 0, time))?;
    child::run(&cgroup, || come_and_go(&files[1], 1, time))?;
    first.wait()?;
    // SAFETY: mapped as long as the policy is open.
    let told = unsafe { attached.policy().state::<Departing>()?.read_volatile() };
    let stat = cgroup.stat()?;
    ensure!(
        told.removed == stat.get("removed") && told.pages == told.removed,
        "{} folios went: {told:?}",
        stat.get("removed")
    );
    Ok(format!("{told:?}"))
}
