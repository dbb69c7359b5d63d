// SPDX-License-Identifier: Apache-2.0
//! The shipped readahead policies, against the kernel's own readahead on the same reads.

use super::loader::run_agent;
use super::{Case, Ext4, Lab, MIB, Outcome, Xfs, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result, read_text};
use crate::files::{TestFile, read_page};
use crate::load::next_random;
use crate::mapping::Mapping;
use crate::policy;
use std::fs;

pub const CASES: &[Case] = &[
    case("stride_serves_a_strided_reader", &[Ext4, Xfs], stride_strided),
    case("stride_leaves_a_sequential_reader_to_the_kernel", &[Ext4], stride_sequential),
    case("leap_reads_nothing_ahead_of_random_reads", &[Ext4, Xfs], leap_random),
    case("leap_reads_ahead_by_the_majority", &[Ext4], leap_majority),
    case("linux_reads_as_the_kernel_does", &[Ext4], linux_as_kernel),
    case("shipped_readahead_policies_load", &[Ext4], shipped),
    case("the_agent_attaches_readahead_policies_beside_others", &[Ext4], agent),
];

const PAGES: u64 = 4096;

/// What reading pages took.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Reads of pages that were not cached.
    misses: u64,
    /// Requests to the disk.
    requests: u64,
    /// Pages that came from there.
    pages: u64,
    /// What `memory.cache_ext` says was read ahead, and used.
    ahead: u64,
    used: u64,
}

/// Requests and pages that were read from the scratch disk so far.
fn disk() -> Result<[u64; 2]> {
    let text = read_text("/sys/block/vda/stat")?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    match fields[..] {
        [requests, _, sectors, ..] => Ok([requests, sectors / 8]),
        _ => Err(Error::Check(format!("/sys/block/vda/stat: {text:?}"))),
    }
}

/// Reads the pages one by one in a cgroup with that readahead policy, or none.
fn take(policy: Option<&str>, reads: &[u64]) -> Result<Taken> {
    let file = TestFile::create("taken", PAGES)?;
    let cgroup = Cgroup::create("taken", Some(64 * MIB))?;
    let attach = |name| policy::load_prefetch(name, &cgroup)?.attach();
    let _attached = policy.map(attach).transpose()?;
    let counted = Mapping::shared(size_of::<u64>())?;
    let before = disk()?;
    child::run(&cgroup, || {
        child::stay_on_one_cpu()?;
        let open = file.open()?;
        let mut misses = 0_u64;
        for &page in reads {
            misses += u64::from(!TestFile::is_cached(&open, page)?);
            read_page(&open, page)?;
        }
        // SAFETY: the mapping is as large as this.
        unsafe { counted.start().cast::<u64>().write_volatile(misses) };
        Ok(())
    })?;
    let after = disk()?;
    let stat = cgroup.stat()?;
    Ok(Taken {
        // SAFETY: as above.
        misses: unsafe { counted.start().cast::<u64>().read_volatile() },
        requests: after[0] - before[0],
        pages: after[1] - before[1],
        ahead: stat.get("prefetch_ahead_pages"),
        used: stat.get("prefetch_used_pages"),
    })
}

fn stride_strided(_: &Lab) -> Outcome {
    let reads: Vec<u64> = (0..PAGES).step_by(11).collect();
    let (kernel, stride) = (take(None, &reads)?, take(Some("stride"), &reads)?);
    let said = format!("the kernel {kernel:?}, stride {stride:?}");
    ensure!(stride.misses * 20 <= kernel.misses, "{said}");
    ensure!(stride.pages <= kernel.pages + kernel.pages / 20, "{said}");
    ensure!(stride.used * 10 >= stride.ahead * 9, "{said}");
    Ok(said)
}

fn stride_sequential(_: &Lab) -> Outcome {
    let reads: Vec<u64> = (0..PAGES).collect();
    let (kernel, stride) = (take(None, &reads)?, take(Some("stride"), &reads)?);
    let said = format!("the kernel {kernel:?}, stride {stride:?}");
    ensure!(stride.ahead == 0 && stride.misses == kernel.misses, "{said}");
    ensure!(stride.requests.abs_diff(kernel.requests) <= 2, "{said}");
    Ok(said)
}

/// The same random pages of a mapping, in a cgroup with that readahead policy, or none: pages that
/// came from the disk.
fn pages_of_faults(policy: Option<&str>, pages: &[u64]) -> Result<u64> {
    let file = TestFile::create("mapped", PAGES)?;
    let cgroup = Cgroup::create("mapped", Some(64 * MIB))?;
    let attach = |name| policy::load_prefetch(name, &cgroup)?.attach();
    let _attached = policy.map(attach).transpose()?;
    let before = disk()?;
    child::run(&cgroup, || {
        Mapping::of_file(&file.open()?, PAGES)?.check_pages(pages.iter().copied())
    })?;
    Ok(disk()?[1] - before[1])
}

fn leap_random(_: &Lab) -> Outcome {
    let mut seed = 7;
    let reads: Vec<u64> = (0..400).map(|_| next_random(&mut seed) % PAGES).collect();
    let (kernel, leap) = (take(None, &reads)?, take(Some("leap"), &reads)?);
    let said = format!("the kernel {kernel:?}, leap {leap:?}");
    ensure!(leap.pages <= kernel.pages && leap.ahead * 20 <= reads.len() as u64, "{said}");
    let faults = &reads[..80];
    let (kernel, leap) = (pages_of_faults(None, faults)?, pages_of_faults(Some("leap"), faults)?);
    let said = format!("{said}; faults: {kernel} pages, leap {leap}");
    ensure!(leap * 4 <= kernel, "{said}");
    Ok(said)
}

/// Every fifth read goes elsewhere; the others are at one distance.
fn leap_majority(_: &Lab) -> Outcome {
    let mut seed = 11;
    let mut reads = Vec::new();
    for page in (0..PAGES / 2).step_by(6) {
        reads.push(page);
        if reads.len() % 8 == 0 {
            reads.push(PAGES / 2 + next_random(&mut seed) % (PAGES / 2));
        }
    }
    let (kernel, leap) = (take(None, &reads)?, take(Some("leap"), &reads)?);
    let said = format!("the kernel {kernel:?}, leap {leap:?}");
    ensure!(leap.misses * 2 <= kernel.misses, "{said}");
    // What it reads ahead of the reads that go elsewhere is for nothing.
    ensure!(leap.used * 2 >= leap.ahead, "{said}");
    Ok(said)
}

fn linux_as_kernel(_: &Lab) -> Outcome {
    let mut seed = 13;
    let mut said = String::new();
    for (name, reads) in [
        ("sequential", (0..PAGES).collect::<Vec<u64>>()),
        ("two streams", (0..PAGES / 2).flat_map(|page| [page, PAGES / 2 + page]).collect()),
        ("random", (0..400).map(|_| next_random(&mut seed) % PAGES).collect()),
        ("strided", (0..PAGES).step_by(5).collect()),
    ] {
        let (kernel, linux) = (take(None, &reads)?, take(Some("linux"), &reads)?);
        let told = format!("{name}: the kernel {kernel:?}, linux {linux:?}");
        ensure!(linux.pages.abs_diff(kernel.pages) <= 2, "{told}");
        ensure!(linux.requests.abs_diff(kernel.requests) <= 2, "{told}");
        ensure!(linux.misses == kernel.misses, "{told}");
        said += &told;
        said += "; ";
    }
    Ok(said)
}

fn shipped(lab: &Lab) -> Outcome {
    let dir = lab.policies.join("prefetch");
    let mut said = Vec::new();
    for entry in fs::read_dir(&dir).context(|| dir.display().to_string())?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".bpf.o") else { continue };
        let cgroup = Cgroup::create("shipped", None)?;
        policy::load_prefetch(name, &cgroup)?.attach()?;
        said.push(name.to_owned());
    }
    ensure!(said.len() > 1, "there are no policies in {}", dir.display());
    Ok(said.join(", "))
}

fn agent(lab: &Lab) -> Outcome {
    let cgroup = Cgroup::create("both", Some(64 * MIB))?;
    let readahead = |arguments: &[&str]| {
        run_agent(lab, &cgroup, &[arguments, &["--kind", "readahead"]].concat())
    };
    let expect = |eviction: &str, readahead: &str| -> Result<()> {
        let stat = cgroup.stat()?;
        let found = (stat.text("policy"), stat.text("prefetch_policy"));
        ensure!(found == (eviction, readahead), "{found:?}, not {eviction} and {readahead}");
        Ok(())
    };
    run_agent(lab, &cgroup, &["attach", "--policy", "fifo"])?;
    readahead(&["attach", "--policy", "stride"])?;
    expect("fifo", "stride")?;
    readahead(&["set", "max_depth=4"])?;
    readahead(&["swap", "--policy", "leap"])?;
    expect("fifo", "leap")?;
    ensure!(readahead(&["attach", "--policy", "linux"]).is_err(), "a second one was attached");
    run_agent(lab, &cgroup, &["detach"])?;
    expect("none", "leap")?;
    readahead(&["detach"])?;
    expect("none", "none")?;
    Ok("attached, set, swapped and detached".into())
}
