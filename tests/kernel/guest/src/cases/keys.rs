// SPDX-License-Identifier: Apache-2.0
//! Pages that are chosen by their keys, as the owner of a file can: all that a key is made of is
//! known to him.

use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result, checked};
use crate::files::{PAGE, TestFile};
use crate::policy::{self, Attached};
use crate::trimming::Trimming;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

pub const CASES: &[Case] = &[
    case("the_ghost_of_a_page_whose_key_is_0_is_one_of_many", &[Xfs], zero),
    case("pages_cannot_be_chosen_to_share_a_bucket", &[Once], bucket),
];

/// `_IOR('v', 1, long)`.
const FS_IOC_GETVERSION: libc::c_ulong = 0x8008_7601;

/// `cx_mix()` of mm/cache_ext.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// `hash_64(key, 32)`, whose low bits are the number of a bucket.
fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x61c8_8646_80b5_83eb) >> 32
}

/// What is mixed to the key of a file: the page of that index has the key 0.
fn unmixed_key(file: &TestFile) -> Result<u64> {
    let mut generation = [0_u32; 2];
    let open = file.open()?;
    // SAFETY: the kernel writes four bytes, and there is room for eight.
    let result =
        unsafe { libc::ioctl(open.as_raw_fd(), FS_IOC_GETVERSION, generation.as_mut_ptr()) };
    checked(result, "FS_IOC_GETVERSION")?;
    let (device, inode) = file.identity()?;
    Ok(mix(device << 32 | u64::from(generation[0])) ^ inode)
}

fn skim(cgroup: &Cgroup, file: &TestFile, indexes: impl Iterator<Item = u64>) -> Result<()> {
    child::run(cgroup, || {
        let open = file.open_random()?;
        let mut byte = [0];
        for index in indexes {
            let read = open.read_at(&mut byte, index * PAGE as u64);
            ensure!(matches!(read, Ok(1)), "page {index}: {read:?}");
        }
        Ok(())
    })
}

/// Has the policy forget all that it can whenever a page is removed.
fn forget_again(attached: &Attached) -> Result<()> {
    let state = attached.policy().state::<Trimming>()?;
    // SAFETY: mapped as long as the policy is open.
    unsafe {
        (&raw mut (*state).trim).write_volatile(1);
        (&raw mut (*state).before).write_volatile(0);
    }
    Ok(())
}

/// A file that may be so long that one of its pages has the key 0: that page.
fn file_of_zero() -> Result<(TestFile, u64)> {
    const TRIES: u64 = 100_000;
    const MOST_PAGES: u64 = i64::MAX.unsigned_abs() / PAGE as u64;
    for _ in 0..TRIES {
        let file = TestFile::sparse("zero", 0)?;
        let index = unmixed_key(&file)?;
        if index < MOST_PAGES {
            let length = file.open()?.set_len((index + 1) * PAGE as u64);
            length.context(|| format!("{} pages", index + 1))?;
            return Ok((file, index));
        }
    }
    Err(Error::Check(format!("none of {TRIES} files has such a page")))
}

/// Where 0 means a free record, the table loses the ghost, or itself, when it shrinks.
fn zero(_: &Lab) -> Outcome {
    const LIMIT_PAGES: u64 = 8 * PAGES_PER_MIB;
    let (file, index) = file_of_zero()?;
    let others = TestFile::sparse("ordinary", 4 * LIMIT_PAGES)?;
    let cgroup = Cgroup::create("zero", Some(8 * MIB))?;
    let attached = policy::attach("trimming", &cgroup)?;
    // Its record is one of the last chunks of the table, which go before it is forgotten.
    skim(&cgroup, &others, 0..LIMIT_PAGES * 4 / 5)?;
    skim(&cgroup, &file, std::iter::once(index))?;
    skim(&cgroup, &others, LIMIT_PAGES * 4 / 5..2 * LIMIT_PAGES)?;
    let before = cgroup.stat()?;
    ensure!(before.get("ghost_entries") > LIMIT_PAGES / 2, "too few ghosts: {before:?}");
    // Pages go 32 at a time, and 256 ghosts with the first of them.
    for from in (2 * LIMIT_PAGES..3 * LIMIT_PAGES).step_by(64) {
        forget_again(&attached)?;
        skim(&cgroup, &others, from..from + 64)?;
    }
    let after = cgroup.stat()?;
    ensure!(after.get("ghost_entries") == 0, "there are ghosts yet: {after:?}");
    Ok(format!("page {index}, one of {} ghosts", before.get("ghost_entries")))
}

/// Processor time of the children so far.
fn spent() -> Result<Duration> {
    // SAFETY: a struct of numbers, which may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    checked(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) }, "getrusage")?;
    let micros = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
    Ok(Duration::from_secs(seconds.unsigned_abs()) + Duration::from_micros(micros.unsigned_abs()))
}

/// Time that it takes to read the pages, of which there are more than fit.
fn time_of(file: &TestFile, indexes: &[u64]) -> Result<Duration> {
    let cgroup = Cgroup::create("bucket", Some(8 * MIB))?;
    let _attached = policy::attach("trimming", &cgroup)?;
    let before = spent()?;
    skim(&cgroup, file, indexes.iter().copied())?;
    let took = spent()?.saturating_sub(before);
    let stat = cgroup.stat()?;
    ensure!(stat.get("ghost_entries") > PAGES_PER_MIB, "too few ghosts: {stat:?}");
    file.uncache()?;
    Ok(took)
}

/// Pages whose keys, as programs and the trace have them, would all be in one chain.
fn bucket(_: &Lab) -> Outcome {
    const BUCKETS: u64 = 1 << 12;
    const CHOSEN: usize = 6144;
    const PAGES: u64 = 1 << 30;
    let file = TestFile::sparse("bucket", PAGES)?;
    let key = mix(unmixed_key(&file)?);
    let is_chosen = |index: &u64| hash(key ^ mix(*index)).is_multiple_of(BUCKETS);
    let chosen: Vec<u64> = (0..PAGES).filter(is_chosen).take(CHOSEN).collect();
    // As far from each other, so that the trees of the page cache are as large.
    let others: Vec<u64> = chosen.iter().map(|index| index ^ 1).collect();
    let ordinary = time_of(&file, &others)?;
    let took = time_of(&file, &chosen)?;
    ensure!(took < 2 * ordinary, "{took:?} instead of {ordinary:?}");
    Ok(format!("{took:?} and {ordinary:?}"))
}
