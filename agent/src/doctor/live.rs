// SPDX-License-Identifier: Apache-2.0
//! The checks that use the canary.

use super::canary::{Canary, MAPPED_PAGES, READ_PAGES, SENT_PAGES, WRITTEN_PAGES, forget_cached};
use super::{Check, LIVE, Options};
use crate::bpf::event::{Event, EventKind};
use crate::bpf::layout::Counts;
use crate::bpf::sampler::load::SamplerSizes;
use crate::bpf::source::{self, AccessSource};
use crate::check_kernel;
use crate::error::Result;
use crate::policies::Policies;
use crate::policies::stats::CgroupStats;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

const SIZES: SamplerSizes = SamplerSizes { max_tenants: 1, ring_bytes: 1 << 22 };
const SLOT: u32 = 0;
const ALL_PAGES: u64 = u64::MAX;
const RECLAIMED_BYTES: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 64 << 20;
/// Policies that every folder of policies has.
const POLICIES: [&str; 2] = ["lru", "mru"];

/// All live checks that follow the one of the canary itself.
pub fn checks(canary: &Canary, options: &Options) -> Vec<Check> {
    let sampler = source::open(SIZES);
    let mut checks = match &sampler {
        Ok(sampler) => accesses(canary, sampler.as_ref()),
        Err(error) => {
            let step = "use a kernel from 5.15 on with BTF, fentry (CONFIG_FUNCTION_TRACER, \
                        CONFIG_BPF_EVENTS) and no lockdown";
            let told = |name: &&str| Check::missing(name, error.to_string(), step);
            LIVE[1..7].iter().map(told).collect()
        }
    };
    checks.extend(limits(canary));
    match &sampler {
        Ok(sampler) => {
            checks.extend(evictions(canary, sampler.as_ref()));
            checks.push(removals(canary, sampler.as_ref()));
        }
        Err(_) => checks.extend(LIVE[9..12].iter().map(|name| Check::untried(name, LIVE[1]))),
    }
    checks.push(policies(canary, options));
    checks
}

/// One run of the canary: the counts, and its events.
fn observed(canary: &Canary, sampler: &dyn AccessSource) -> Result<(Counts, Vec<Event>)> {
    let io = |e| crate::Error::io(&canary.cgroup.path)(e);
    sampler.track(canary.cgroup.id, SLOT, ALL_PAGES)?;
    canary.sing().map_err(io)?;
    Ok((sampler.counts()?.remove(&SLOT).unwrap_or_default(), events_of(sampler)?))
}

/// All events since the last call.
fn events_of(sampler: &dyn AccessSource) -> Result<Vec<Event>> {
    let mut all = Vec::new();
    sampler.drain(&mut |events| all.extend_from_slice(events))?;
    Ok(all)
}

fn inode_of(canary: &Canary) -> u64 {
    fs::metadata(&canary.file).map_or(0, |meta| meta.ino())
}

fn is_access(event: &Event, inode: u64) -> bool {
    event.record.inode == inode && event.kind != EventKind::Removal
}

fn accesses(canary: &Canary, sampler: &dyn AccessSource) -> Vec<Check> {
    let (counts, events) = match observed(canary, sampler) {
        Ok(observed) => observed,
        Err(error) => {
            let told = |name: &&str| Check::missing(name, error.to_string(), "see the reason");
            return LIVE[1..7].iter().map(told).collect();
        }
    };
    let least = READ_PAGES + MAPPED_PAGES + WRITTEN_PAGES;
    let inode = inode_of(canary);
    let of_file: Vec<&Event> = events.iter().filter(|e| is_access(e, inode)).collect();
    // Reads of the file that are not from read() calls are from sendfile().
    let reads = of_file.iter().filter(|e| !e.mmap && !e.record.write).count() as u64;
    let in_events = of_file.len() as u64;
    [
        ("reads", counts.read_calls, READ_PAGES),
        ("splices", reads.saturating_sub(READ_PAGES), SENT_PAGES),
        ("writes", counts.write_accesses, WRITTEN_PAGES),
        ("faults", counts.mmap_accesses, MAPPED_PAGES),
        ("misses", counts.misses, least),
        ("events", in_events, least),
    ]
    .map(|(name, seen, least)| fired(sampler, name, seen, least))
    .into()
}

/// Whether a hook counted at least as much as the canary did.
fn fired(sampler: &dyn AccessSource, name: &str, seen: u64, least: u64) -> Check {
    let part = sampler.parts().iter().find(|part| part.name == name);
    if let Some(reason) = part.and_then(|part| part.missing.clone()) {
        let step = "use a newer kernel, or do without these counts";
        return match name {
            "splices" | "refaults" | "removals" => Check::without(name, reason, step),
            _ => Check::missing(name, reason, step),
        };
    }
    let detail = format!("{seen} seen, {least} at least were made");
    match seen >= least {
        true => Check::works(name, detail),
        false => Check::missing(name, detail, "report it, with the kernel's version"),
    }
}

fn limits(canary: &Canary) -> Vec<Check> {
    let path = |name: &str| canary.cgroup.path.join(name);
    let set = fs::write(path("memory.high"), LIMIT_BYTES.to_string())
        .and_then(|()| canary.cgroup.read("memory.high"));
    let high = match set {
        Ok(text) if text.trim() == LIMIT_BYTES.to_string() => {
            Check::works("memory.high", format!("set to {LIMIT_BYTES} and read back"))
        }
        Ok(text) => {
            let detail = format!("{} after {LIMIT_BYTES} was written", text.trim());
            Check::missing("memory.high", detail, "report it, with the kernel's version")
        }
        Err(error) => Check::missing("memory.high", error.to_string(), "is /sys writable?"),
    };
    let current = || canary.cgroup.read("memory.current").unwrap_or_default();
    let before: u64 = current().trim().parse().unwrap_or(0);
    let reclaim = match fs::write(path("memory.reclaim"), RECLAIMED_BYTES.to_string()) {
        Ok(()) => {
            let after = current().trim().parse().unwrap_or(0);
            let detail = format!("{before} bytes used before, {after} after");
            match before > after {
                true => Check::works("memory.reclaim", detail),
                false => Check::missing("memory.reclaim", detail, "see the canary above"),
            }
        }
        Err(error) => Check::without(
            "memory.reclaim",
            format!("{error}: limits are lowered by memory.high alone"),
            "use a kernel from 5.19 on",
        ),
    };
    vec![high, reclaim]
}

/// The evictions by the reclaim above, and the refaults when the canary reads the same pages again.
fn evictions(canary: &Canary, sampler: &dyn AccessSource) -> Vec<Check> {
    let evicted = sampler.counts().map(|all| all.get(&SLOT).map_or(0, |counts| counts.evictions));
    let refaulted = observed(canary, sampler).map(|(counts, _)| counts.refaults);
    [("evictions", evicted), ("refaults", refaulted)]
        .map(|(name, seen)| match seen {
            Ok(seen) => fired(sampler, name, seen, 1),
            Err(error) => Check::missing(name, error.to_string(), "see the reason"),
        })
        .into()
}

/// Truncates and rewrites the canary's file, which removes its pages from the page cache.
fn removals(canary: &Canary, sampler: &dyn AccessSource) -> Check {
    const NAME: &str = "removals";
    let inode = inode_of(canary);
    let told = events_of(sampler).and_then(|_| {
        canary.fill().map_err(crate::Error::io(&canary.file))?;
        events_of(sampler)
    });
    let is_removal = |e: &&Event| e.record.inode == inode && e.kind == EventKind::Removal;
    match told {
        Ok(events) => {
            fired(sampler, NAME, events.iter().filter(is_removal).count() as u64, READ_PAGES)
        }
        Err(error) => Check::missing(NAME, error.to_string(), "see the reason"),
    }
}

fn policies(canary: &Canary, options: &Options) -> Check {
    const NAME: &str = "policies";
    if let Err(error) = check_kernel() {
        let step = "boot a kernel with the patches, see docs/operating/kernel.md";
        return Check::without(NAME, error.to_string(), step);
    }
    match attach_and_swap(canary, options) {
        Ok(detail) => Check::works(NAME, detail),
        Err(error) => Check::missing(NAME, error.to_string(), "see the reason"),
    }
}

/// Attaches a policy, swaps it for another under reads, and detaches it.
fn attach_and_swap(canary: &Canary, options: &Options) -> Result<String> {
    let [first, second] = POLICIES;
    let machine = Policies::open()?;
    let file = |name: &str| options.policies.policy(name);
    let tunables = |name: &str| file(name).map(|file| file.manifest.tunable_defaults());
    machine.attach(&canary.cgroup, &file(first)?, &tunables(first)?)?;
    let io = |e| crate::Error::io(&canary.file)(e);
    let tried = File::open(&canary.file)
        .and_then(|file| forget_cached(&file))
        .and_then(|()| canary.sing())
        .map_err(io)
        .and_then(|()| machine.swap(&canary.cgroup, &file(second)?, &tunables(second)?))
        .and_then(|_| CgroupStats::read(&canary.cgroup));
    machine.detach(&canary.cgroup)?;
    let stats = tried?;
    let (policy, added) = (stats.policy().unwrap_or("none"), stats.number("added").unwrap_or(0));
    Ok(format!("{first} attached, {policy} in its place, {added} folios seen, detached"))
}
