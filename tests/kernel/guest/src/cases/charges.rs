// SPDX-License-Identifier: Apache-2.0
//! Who pays for the memory of policies, and what becomes of it when memory is short.

use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::files::{self, TestFile};
use crate::parameter::Parameter;
use crate::policy::{self, Attached};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("records_are_charged_to_the_cgroup", &[Once], records),
    case("rings_are_charged_to_the_cgroup", &[Once], rings),
    case("ghosts_are_charged_to_the_cgroup", &[Once], ghosts),
    case("ghosts_shrink_under_pressure", &[Once], pressure),
    case("ghosts_of_thirty_cgroups_are_bounded", &[Once], bounded),
];

const BOUND: &str = "/sys/module/cache_ext/parameters/max_ghost_permille";
const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: u64 = 4096;

fn kernel_bytes(cgroup: &Cgroup) -> Result<u64> {
    cgroup.figure("memory.stat", "kernel")
}

/// Waits until the kernel's memory of the cgroup is in a range.
fn wait_for_kernel_bytes(cgroup: &Cgroup, least: u64, most: u64) -> Result<u64> {
    wait_for_bytes(cgroup, "kernel", least, most)
}

/// The same of a figure of memory.stat: they are summed up now and then, and some memory is freed
/// after RCU.
fn wait_for_bytes(cgroup: &Cgroup, figure: &str, least: u64, most: u64) -> Result<u64> {
    let start = Instant::now();
    loop {
        let bytes = cgroup.figure("memory.stat", figure)?;
        if (least..=most).contains(&bytes) {
            return Ok(bytes);
        }
        if start.elapsed() > PATIENCE {
            let stat = cgroup.stat()?;
            let said = format!("{bytes} bytes of {figure}, not {least} to {most}: {stat:?}");
            return Err(Error::Check(said));
        }
        sleep(Duration::from_millis(100));
    }
}

fn records(_: &Lab) -> Outcome {
    let file = TestFile::create("charged", 48 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("charged", Some(64 * MIB))?;
    // What the page cache itself takes, for nodes of its tree.
    child::run(&cgroup, || file.read_all())?;
    let without = kernel_bytes(&cgroup)?;
    let attached = policy::attach("lfu", &cgroup)?;
    let bytes = cgroup.stat()?.get("registry_bytes");
    ensure!(bytes > MIB / 2, "the registry is small: {:?}", cgroup.stat()?);
    let with = wait_for_kernel_bytes(&cgroup, without + bytes * 9 / 10, u64::MAX)?;
    drop(attached);
    let after = wait_for_kernel_bytes(&cgroup, 0, without + bytes / 10)?;
    Ok(format!("{without} bytes, {with} with {bytes} of the registry, {after} at the end"))
}

/// Of moves that hits leave for later, on each processor; what attaches runs in another cgroup.
fn rings(_: &Lab) -> Outcome {
    const RING: u64 = 256 * size_of::<u64>() as u64;
    // The first chunk of the memory of processors is charged to nobody: cgroups fill it.
    const CGROUPS: u32 = 64;
    let fill = |number| Cgroup::create(&format!("filling{number}"), None);
    let _filling = (0..CGROUPS).map(fill).collect::<Result<Vec<_>>>()?;
    let cgroup = Cgroup::create("rings", None)?;
    let before = cgroup.figure("memory.stat", "percpu")?;
    let _attached = policy::attach("lru", &cgroup)?;
    let with = wait_for_bytes(&cgroup, "percpu", before + 2 * RING, u64::MAX)?;
    Ok(format!("{before} bytes, {with} with rings"))
}

/// Reclaims pages; there may be fewer.
fn reclaim(cgroup: &Cgroup, pages: u64) -> Result<()> {
    const PART: u64 = 256;
    for _ in 0..pages / PART {
        if cgroup.write("memory.reclaim", &(PART * PAGE).to_string()).is_err() {
            break;
        }
    }
    Ok(())
}

fn ghosts(_: &Lab) -> Outcome {
    let file = TestFile::create("ghostly", 32 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("ghostly", Some(16 * MIB))?;
    let attached = policy::attach("s3fifo", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    let stat = cgroup.stat()?;
    let bytes = stat.get("ghost_bytes") + stat.get("registry_bytes");
    ensure!(stat.get("ghost_entries") > 1024, "few ghosts: {stat:?}");
    ensure!(stat.get("ghosts_lost") == 0, "lost at the limit: {stat:?}");
    let with = wait_for_kernel_bytes(&cgroup, bytes * 9 / 10, u64::MAX)?;
    drop(attached);
    let after = wait_for_kernel_bytes(&cgroup, 0, with - bytes * 8 / 10)?;
    Ok(format!("{with} with {bytes} of records and ghosts, {after} at the end"))
}

/// Of a cgroup that had much and has little: ghosts of more pages than are resident go.
fn pressure(_: &Lab) -> Outcome {
    let file = TestFile::create("pressed", 48 * PAGES_PER_MIB)?;
    let other = TestFile::create("presser", 32 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("pressed", None)?;
    let _attached = policy::attach("arc", &cgroup)?;
    child::run(&cgroup, || file.read_all())?;
    reclaim(&cgroup, file.pages * 3 / 4)?;
    let before = cgroup.stat()?;
    child::run(&cgroup, || other.read_all())?;
    reclaim(&cgroup, file.pages)?;
    reclaim(&cgroup, file.pages)?;
    let after = cgroup.stat()?;
    ensure!(after.get("ghosts_shrunk") > 0, "none were given back: {after:?}");
    // 200% of what is resident, and what is left of a batch.
    let most = 2 * after.get("resident_pages") + 1024;
    ensure!(after.get("ghost_entries") <= most, "at most {most} ghosts: {after:?}");
    Ok(format!("{} then {}", before.get("ghost_entries"), after.get("ghost_entries")))
}

/// A file without data, all of it read and half of it evicted: half of its pages are ghosts.
fn haunt(cgroup: &Cgroup, file: &TestFile) -> Result<()> {
    child::run(cgroup, || {
        let mut page = [0; files::PAGE];
        let descriptor = file.open_random()?;
        (0..file.pages).try_for_each(|at| {
            descriptor.read_exact_at(&mut page, at * PAGE).context(|| "reading a hole".into())
        })
    })?;
    reclaim(cgroup, file.pages / 2)
}

/// A cgroup without a limit that has as many ghosts as pages.
struct Haunted {
    _file: TestFile,
    _attached: Attached,
    cgroup: Cgroup,
}

fn haunted(number: u32) -> Result<Haunted> {
    const PAGES: u64 = 12 * PAGES_PER_MIB;
    let name = format!("crowd{number}");
    let mut file = TestFile::create(&name, 0)?;
    file.pages = PAGES;
    file.open()?.set_len(PAGES * PAGE).context(|| name.clone())?;
    let cgroup = Cgroup::create(&name, None)?;
    let attached = policy::attach("arc", &cgroup)?;
    haunt(&cgroup, &file)?;
    Ok(Haunted { _file: file, _attached: attached, cgroup })
}

fn bounded(_: &Lab) -> Outcome {
    const CGROUPS: u32 = 30;
    let _bound = Parameter::set(BOUND, "1")?;
    let crowd = (0..CGROUPS).map(haunted).collect::<Result<Vec<_>>>()?;
    let (mut sum, mut bounded) = (0, 0);
    for one in &crowd {
        let stat = one.cgroup.stat()?;
        sum += stat.get("ghost_bytes");
        bounded += stat.get("ghosts_bounded");
    }
    let stat = crowd[0].cgroup.stat()?;
    let (all, most) = (stat.get("all_ghost_bytes"), stat.get("max_all_ghost_bytes"));
    // Each has a page at least.
    let bound = most + u64::from(CGROUPS) * PAGE;
    ensure!(most > 0 && all <= bound, "{all} bytes of ghosts, at most {most}");
    // A table has a page of pointers, and anchors, beside its chunks.
    ensure!(
        (all..=all + u64::from(CGROUPS) * 2 * PAGE).contains(&sum),
        "{sum} bytes of all cgroups, {all} were counted"
    );
    ensure!(bounded > 0, "nothing was refused or trimmed: {stat:?}");
    drop(crowd);
    let last = Cgroup::create("crowd", None)?;
    let _attached = policy::attach("arc", &last)?;
    let left = last.stat()?.get("all_ghost_bytes");
    ensure!(left == PAGE, "{left} bytes are left of them");
    Ok(format!("{all} of {most} bytes, {bounded} refused or trimmed"))
}
