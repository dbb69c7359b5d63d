// SPDX-License-Identifier: Apache-2.0
//! Hooks are called once per event: folios that come, and accesses.

use super::{Case, Ext4, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child::{self, spawn};
use crate::counts::{self, Counts, Events};
use crate::ensure;
use crate::error::{Context, Result, checked};
use crate::files::{PAGE, TestFile, advise, read_pages, write_pages};
use crate::mapping::Mapping;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::ptr;

pub const CASES: &[Case] = &[
    case("buffered_read_once", &[Ext4, Xfs], buffered_read),
    case("reread_counts_again", &[Ext4, Xfs], reread),
    case("write_of_new_pages_once", &[Ext4, Xfs], write_new),
    case("write_of_cached_pages_once", &[Ext4, Xfs], overwrite),
    case("write_of_part_of_a_page_once", &[Ext4, Xfs], write_part),
    case("large_write_counts_pages", &[Ext4, Xfs], large_write),
    case("mmap_read_fault_once", &[Ext4, Xfs], mmap_read),
    case("mmap_write_fault_once", &[Ext4, Xfs], mmap_write),
    case("readahead_then_first_use_once", &[Ext4, Xfs], readahead),
    case("sequential_read_with_readahead_once", &[Ext4, Xfs], sequential),
    case("splice_once", &[Ext4, Xfs], splice),
    case("sendfile_once", &[Ext4, Xfs], sendfile),
    case("fork_shares_then_each_exit_counts", &[Ext4, Xfs], fork),
    case("exec_of_a_file_once", &[Ext4, Xfs], exec),
];

pub const PAGES: u64 = 256;

/// Runs work on a file in a cgroup of its own with `counting`; what was counted, checked for sense.
pub fn counted(
    file: &TestFile,
    work: impl FnOnce() -> Result<()>,
) -> Result<(Box<Counts>, Cgroup)> {
    let cgroup = Cgroup::create("hooks", Some(64 * MIB))?;
    let attached = counts::attach(&cgroup, file)?;
    child::run(&cgroup, work)?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let stat = cgroup.stat()?;
    let (all, resident) = (counts.all, stat.get("resident_pages"));
    ensure!(
        all.added_pages - all.removed_pages == resident,
        "{resident} pages are registered, but the policy was told of {all:?}"
    );
    ensure!(stat.get("unregistered") == 0, "folios were not registered: {stat:?}");
    attached.detach();
    Ok((counts, cgroup))
}

/// Fails unless the file's events are these; pages are those of folios of one page each.
pub fn expect(counts: &Counts, expected: Events) -> Outcome {
    let found = Events { added_pages: 0, removed_pages: 0, ..counts.watched };
    ensure!(found == expected, "expected {expected:?}, counted {found:?}");
    Ok(format!("{found:?}"))
}

fn expect_added_and_read(counts: &Counts, again: u64) -> Outcome {
    expect(counts, Events { added: PAGES, first: PAGES, again, ..Events::default() })
}

fn buffered_read(_: &Lab) -> Outcome {
    let file = TestFile::create("read", PAGES)?;
    let (counts, _cgroup) = counted(&file, || file.read_all())?;
    expect_added_and_read(&counts, 0)
}

fn reread(_: &Lab) -> Outcome {
    let file = TestFile::create("reread", PAGES)?;
    let (counts, _cgroup) = counted(&file, || {
        file.read_all()?;
        file.read_all()
    })?;
    expect_added_and_read(&counts, PAGES)
}

fn write_new(_: &Lab) -> Outcome {
    let file = TestFile::create("new", 0)?;
    let (counts, _cgroup) = counted(&file, || {
        let descriptor = file.open()?;
        write_pages(&descriptor, 0..PAGES)?;
        descriptor.sync_all().context(|| "fsync".into())
    })?;
    expect_added_and_read(&counts, 0)
}

fn overwrite(_: &Lab) -> Outcome {
    let file = TestFile::create("overwrite", PAGES)?;
    let (counts, _cgroup) = counted(&file, || {
        file.read_all()?;
        write_pages(&file.open()?, 0..PAGES)
    })?;
    expect_added_and_read(&counts, PAGES)
}

fn write_part(_: &Lab) -> Outcome {
    let file = TestFile::create("part", PAGES)?;
    let (counts, _cgroup) = counted(&file, || {
        let descriptor = file.open_random()?;
        for page in 0..PAGES {
            let at = page * PAGE as u64 + 1000;
            descriptor.write_all_at(b"a few bytes", at).context(|| "write".into())?;
        }
        Ok(())
    })?;
    let outcome = expect_added_and_read(&counts, 0);
    file.read_all()?;
    outcome
}

/// Large folios where the file system has them: pages must be right, whatever their sizes.
fn large_write(_: &Lab) -> Outcome {
    let file = TestFile::create("large", 0)?;
    let pages = 8 * PAGES;
    let (counts, _cgroup) = counted(&file, || {
        let bytes: Vec<u8> = (0..pages).flat_map(crate::files::page_content).collect();
        file.open()?.write_all_at(&bytes, 0).context(|| "write".into())?;
        read_pages(&file.open_random()?, 0..pages)
    })?;
    let found = counts.watched;
    ensure!(
        found.added_pages == pages && found.added == found.first && found.removed == 0,
        "{pages} pages were written: {found:?}"
    );
    Ok(format!("{pages} pages in {} folios", found.added))
}

fn mmap_read(_: &Lab) -> Outcome {
    let file = TestFile::create("mapped", PAGES)?;
    let (counts, _cgroup) =
        counted(&file, || Mapping::of_file(&file.open()?, PAGES)?.check_pages(0..PAGES))?;
    expect_added_and_all_pages_used(&counts)
}

fn mmap_write(_: &Lab) -> Outcome {
    let file = TestFile::create("dirtied", PAGES)?;
    let (counts, _cgroup) = counted(&file, || {
        Mapping::of_file(&file.open()?, PAGES)?.dirty_pages(0..PAGES);
        Ok(())
    })?;
    expect_added_and_all_pages_used(&counts)
}

/// A mapped folio counts as accessed when it is unmapped, once; readahead may make it a large one.
fn expect_added_and_all_pages_used(counts: &Counts) -> Outcome {
    let found = counts.watched;
    ensure!(
        found.added_pages == PAGES && found.first == found.added && found.removed == 0,
        "{PAGES} pages were mapped, used and unmapped: {found:?}"
    );
    ensure!(
        found.again == 0 || found.added < PAGES,
        "folios of one page were accessed twice: {found:?}"
    );
    Ok(format!("{found:?}"))
}

fn readahead(_: &Lab) -> Outcome {
    let file = TestFile::create("ahead", PAGES)?;
    let cgroup = Cgroup::create("ahead", Some(64 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || advise(&file.open()?, libc::POSIX_FADV_WILLNEED))?;
    let before = counts::of(attached.policy())?.watched;
    ensure!(
        before.added_pages == PAGES && before.first == 0 && before.again == 0,
        "{PAGES} pages were read ahead: {before:?}"
    );
    child::run(&cgroup, || file.read_all())?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let after = counts.watched;
    ensure!(
        after.added == before.added && after.first == after.added && after.again == 0,
        "pages read ahead were used: {after:?}"
    );
    Ok(format!("{after:?}"))
}

fn sequential(_: &Lab) -> Outcome {
    let file = TestFile::create("sequential", 8 * PAGES)?;
    let (counts, _cgroup) = counted(&file, || read_pages(&file.open()?, 0..8 * PAGES))?;
    let found = counts.watched;
    ensure!(
        found.added_pages == 8 * PAGES && found.first == found.added && found.again == 0,
        "{} pages were read in sequence: {found:?}",
        8 * PAGES
    );
    Ok(format!("{found:?}"))
}

fn splice(_: &Lab) -> Outcome {
    let file = TestFile::create("spliced", PAGES)?;
    let (counts, _cgroup) = counted(&file, || splice_all(&file))?;
    expect_added_and_read(&counts, 0)
}

fn splice_all(file: &TestFile) -> Result<()> {
    let (source, sink) = (file.open_random()?, open_null()?);
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends, which this process keeps.
    checked(unsafe { libc::pipe(ends.as_mut_ptr()) }, "pipe")?;
    let mut left = PAGES * PAGE as u64;
    while left > 0 {
        let chunk = 16 * PAGE;
        // SAFETY: descriptors that are open; no offsets are passed.
        let bytes = checked(
            unsafe {
                libc::splice(
                    source.as_raw_fd(),
                    ptr::null_mut(),
                    ends[1],
                    ptr::null_mut(),
                    chunk,
                    0,
                )
            },
            "splice from the file",
        )?;
        ensure!(bytes > 0, "splice ended {left} bytes early");
        let out = sink.as_raw_fd();
        // SAFETY: as above.
        let passed = checked(
            unsafe { libc::splice(ends[0], ptr::null_mut(), out, ptr::null_mut(), chunk, 0) },
            "splice to the sink",
        )?;
        ensure!(passed == bytes, "{passed} of {bytes} bytes left the pipe");
        left -= bytes.unsigned_abs() as u64;
    }
    Ok(())
}

fn open_null() -> Result<File> {
    OpenOptions::new().write(true).open("/dev/null").context(|| "/dev/null".into())
}

fn sendfile(_: &Lab) -> Outcome {
    let file = TestFile::create("sent", PAGES)?;
    let (counts, _cgroup) = counted(&file, || {
        let (source, sink) = (file.open_random()?, open_null()?);
        let mut left = usize::try_from(PAGES).unwrap_or_default() * PAGE;
        while left > 0 {
            let (from, to) = (source.as_raw_fd(), sink.as_raw_fd());
            // SAFETY: descriptors that are open; no offset is passed.
            let bytes = unsafe { libc::sendfile(to, from, ptr::null_mut(), left) };
            let bytes = checked(bytes, "sendfile")?.unsigned_abs();
            ensure!(bytes > 0, "sendfile ended {left} bytes early");
            left -= bytes;
        }
        Ok(())
    })?;
    expect_added_and_read(&counts, 0)
}

/// Parent and child map the file and use it: each access counts when its process lets go of it.
fn fork(_: &Lab) -> Outcome {
    let file = TestFile::create("forked", PAGES)?;
    let cgroup = Cgroup::create("fork", Some(64 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || {
        let mapping = Mapping::of_file(&file.open()?, PAGES)?;
        mapping.check_pages(0..PAGES)?;
        spawn(&cgroup, || mapping.check_pages(0..PAGES))?.wait()
    })?;
    let counts = counts::of(attached.policy())?;
    counts.check_sane()?;
    let found = counts.watched;
    ensure!(
        found.added_pages == PAGES && found.first == found.added && found.removed == 0,
        "two processes used {PAGES} pages: {found:?}"
    );
    ensure!(found.added < PAGES || found.again == PAGES, "the second process's: {found:?}");
    Ok(format!("{found:?}"))
}

/// The second run finds everything in the cache.
fn exec(_: &Lab) -> Outcome {
    let file = TestFile::create("program", 0)?;
    fs::copy("/bin/true", &file.path).context(|| "/bin/true".into())?;
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o755))
        .context(|| "chmod".into())?;
    file.uncache()?;
    let run = || {
        let status = Command::new(&file.path).status().context(|| "exec".into())?;
        ensure!(status.success(), "the program ended as {status}");
        Ok(())
    };
    let (counts, _cgroup) = counted(&file, || {
        run()?;
        run()
    })?;
    let (found, cached) = (counts.watched, file.cached_pages()?);
    ensure!(
        found.added_pages == cached && found.first > 0 && found.removed == 0 && found.evicted == 0,
        "{cached} pages of a program are cached: {found:?}"
    );
    ensure!(found.first <= found.added, "first accesses to {cached} pages: {found:?}");
    Ok(format!("{found:?}"))
}
