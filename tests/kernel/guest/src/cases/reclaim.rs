// SPDX-License-Identifier: Apache-2.0
//! What a policy chose is reclaimed by the kernel's own rules, and accesses are what the read path
//! takes for one.

use super::hooks::{counted, expect};
use super::{Case, Ext4, Lab, MIB, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::counts::{self, Events};
use crate::ensure;
use crate::error::{Context, Result, checked};
use crate::files::{PAGE, TestFile, write_pages};
use crate::policy;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::ptr;

pub const CASES: &[Case] = &[
    case("reclaim_counts_where_pages_are_charged", &[Ext4], charged),
    case("folios_that_cannot_be_reclaimed_are_left_out", &[Ext4], unevictable),
    case("small_appends_to_a_page_count_once", &[Ext4, Xfs], appends),
    case("writes_to_pages_in_turn_count_each", &[Ext4, Xfs], in_turn),
];

/// The policy of a parent takes the oldest pages, all of one child, whichever the kernel is at.
fn charged(_: &Lab) -> Outcome {
    const ROUNDS: u64 = 16;
    let parent = Cgroup::create("parent", None)?;
    let (older, younger) = (parent.child("older", None)?, parent.child("younger", None)?);
    let _attached = policy::attach("fifo", &parent)?;
    let files = [
        TestFile::create("older", 4 * PAGES_PER_MIB)?,
        TestFile::create("younger", 4 * PAGES_PER_MIB)?,
    ];
    child::run(&older, || files[0].read_all())?;
    child::run(&younger, || files[1].read_all())?;
    for _ in 0..ROUNDS {
        parent.write("memory.reclaim", "128K")?;
    }
    let gone = files[0].pages - files[0].cached_pages()?;
    let stays = files[1].cached_pages()?;
    ensure!(gone >= ROUNDS * 32 && stays == files[1].pages, "{gone} went, {stays} of the younger");
    let scanned = |cgroup: &Cgroup| cgroup.figure("memory.stat", "pgscan");
    let stolen = |cgroup: &Cgroup| cgroup.figure("memory.stat", "pgsteal");
    let of_older = (scanned(&older)?, stolen(&older)?);
    let of_younger = (scanned(&younger)?, stolen(&younger)?);
    ensure!(
        of_older.1 == gone && of_older.0 >= gone && of_younger == (0, 0),
        "{gone} pages of the older went; scanned and reclaimed {of_older:?}, {of_younger:?}"
    );
    Ok(format!("{gone} pages, {of_older:?}"))
}

/// A file system in memory, whose page cache is all there is of its files.
struct Ramfs(PathBuf);

impl Ramfs {
    fn mount(name: &str) -> Result<Self> {
        let path = PathBuf::from("/run").join(name);
        fs::create_dir(&path).context(|| path.display().to_string())?;
        let target = format!("{}\0", path.display());
        let kind = c"ramfs".as_ptr();
        // SAFETY: strings that end in a zero, and no data.
        let result = unsafe { libc::mount(kind, target.as_ptr().cast(), kind, 0, ptr::null()) };
        checked(result, "mount")?;
        Ok(Self(path))
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        let target = format!("{}\0", self.0.display());
        // SAFETY: a string that ends in a zero.
        unsafe { libc::umount2(target.as_ptr().cast(), libc::MNT_DETACH) };
        let _ = fs::remove_dir(&self.0);
    }
}

fn unevictable(_: &Lab) -> Outcome {
    const PAGES: u64 = 4 * PAGES_PER_MIB;
    let place = Ramfs::mount("unevictable")?;
    let file = TestFile { path: place.0.join("file"), pages: PAGES };
    File::create(&file.path).context(|| "creating a file".into())?;
    let cgroup = Cgroup::create("unevictable", Some(64 * MIB))?;
    let attached = counts::attach(&cgroup, &file)?;
    let fill = || {
        write_pages(&file.open()?, 0..PAGES)?;
        file.read_all()
    };
    child::run(&cgroup, fill)?;
    let counts = counts::of(attached.policy())?;
    expect(&counts, Events::default())?;
    drop(attached);
    // One that comes later is not handed them either.
    let attached = counts::attach(&cgroup, &file)?;
    child::run(&cgroup, || file.read_all())?;
    let _ = cgroup.write("memory.reclaim", "1M");
    let counts = counts::of(attached.policy())?;
    expect(&counts, Events::default())?;
    let stat = cgroup.stat()?;
    ensure!(
        stat.get("resident_pages") < PAGES / 2 && stat.get("rejected_busy") == 0,
        "pages that stay are candidates: {stat:?}"
    );
    ensure!(file.cached_pages()? == PAGES, "pages of a file in memory are lost");
    file.read_all()?;
    Ok(format!("{} pages are registered", stat.get("resident_pages")))
}

const SMALL: usize = 64;

/// Appends to a file, so many bytes at a time.
fn append(file: &TestFile, pages: u64) -> Result<()> {
    let descriptor = file.open()?;
    for at in 0..pages * (PAGE / SMALL) as u64 {
        let written = descriptor.write_all_at(&[1; SMALL], at * SMALL as u64);
        written.context(|| "appending".into())?;
    }
    Ok(())
}

fn appends(_: &Lab) -> Outcome {
    const PAGES: u64 = 64;
    let file = TestFile::create("log", 0)?;
    let (counts, _cgroup) = counted(&file, || append(&file, PAGES))?;
    expect(&counts, Events { added: PAGES, first: PAGES, ..Events::default() })
}

/// Also of a file that is made anew, whose pages may stand where others did.
fn in_turn(_: &Lab) -> Outcome {
    const ROUNDS: u64 = 16;
    let file = TestFile::create("turns", 0)?;
    let (counts, _cgroup) = counted(&file, || {
        let descriptor = file.open()?;
        for _ in 0..ROUNDS {
            write_pages(&descriptor, [0, 1, 0, 1, 0])?;
            descriptor.set_len(0).context(|| "truncate".into())?;
        }
        Ok(())
    })?;
    let all = 2 * ROUNDS;
    expect(
        &counts,
        Events { added: all, first: all, again: 3 * ROUNDS, removed: all, ..Events::default() },
    )
}
