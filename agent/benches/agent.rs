// SPDX-License-Identifier: Apache-2.0
//! What a node does while one tenant reads as in `experiments/autopilot_cost`: ticks, and a look per
//! second, over random reads of a file that come through an `AccessSource`.
//!
//! `--fits PERCENT` of the file are in the cgroup, `--per-second N` reads are made for `--seconds N`. It
//! prints events and milliseconds per second. Under callgrind instructions are counted below
//! [`measured`], and told whenever [`second_is_over`] is called: `experiments/autopilot_cost`.
#![allow(clippy::unwrap_used)]

#[path = "support/cpu_time.rs"]
mod cpu_time;
#[path = "support/source.rs"]
mod source;

use cachepilot_agent::bpf::source::AccessSource;
use cachepilot_agent::cgroup::fs::CgroupFs;
use cachepilot_agent::curves::CurvesSettings;
use cachepilot_agent::node::Node;
use cachepilot_agent::node::kernel::config::KernelConfig;
use cachepilot_agent::node::kernel::host::Host;
use cachepilot_agent::node::kernel::{KernelNode, Parts};
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::Record;
use cpu_time::seconds;
use source::Source;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

const PAGE_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;
/// The file that is read, and what its reader takes besides, as in `kernel_overhead`.
const FILE_PAGES: u64 = 128 * MIB / PAGE_BYTES;
const MARGIN_BYTES: u64 = 8 * MIB;
const TICK: Duration = Duration::from_millis(50);
const TICKS_PER_SECOND: u64 = 20;
const TENANT: &str = "/bench";

/// The reads `first..end` of the trace, random pages of a file, by the cgroup with this id.
fn reads(cgroup: u64, first: u64, end: u64) -> impl Iterator<Item = Record> {
    (first..end).map(move |i| {
        let index = page_hash(i) % FILE_PAGES;
        Record { time_ns: i, cgroup, inode: 12, index, task: 7, ..Record::default() }
    })
}

/// A machine in `dir` with one cgroup that has `bytes`.
fn machine(dir: &Path, bytes: u64) -> (CgroupFs, Host) {
    let (proc, cgroup) = (dir.join("proc"), dir.join("cgroup"));
    let tenant = cgroup.join(TENANT.trim_start_matches('/'));
    fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
    fs::create_dir_all(&tenant).unwrap();
    fs::write(proc.join("sys/kernel/random/boot_id"), "b\n").unwrap();
    fs::write(proc.join("meminfo"), "MemTotal: 1048576 kB\nSwapFree: 0 kB\n").unwrap();
    let file = (bytes - MARGIN_BYTES).min(FILE_PAGES * PAGE_BYTES);
    let stat = format!("anon {MARGIN_BYTES}\nfile {file}\nactive_file {file}\nunevictable 0\n");
    for (name, text) in [
        ("memory.current", format!("{}\n", file + MARGIN_BYTES)),
        ("memory.high", "max\n".into()),
        ("memory.max", format!("{bytes}\n")),
        ("memory.min", "0\n".into()),
        ("memory.low", "0\n".into()),
        ("memory.stat", stat),
        ("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n".into()),
        ("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=22\n".into()),
        ("io.stat", "8:0 rbytes=0 wbytes=0 rios=33 wios=0\n".into()),
    ] {
        fs::write(tenant.join(name), text).unwrap();
    }
    (CgroupFs::new(cgroup), Host::new(proc, dir.join("sys")))
}

fn option(name: &str, default: u64) -> u64 {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == name);
    at.map_or(default, |at| words[at + 1].parse().unwrap())
}

/// What is measured: a tick of the node, and a look at it when one is due.
#[inline(never)]
#[unsafe(no_mangle)]
fn measured(node: &mut KernelNode, look: bool) {
    node.tick(TICK).unwrap();
    if look {
        black_box(node.observe().unwrap());
    }
}

/// A second is over, in which so many events were reported.
#[inline(never)]
#[unsafe(no_mangle)]
fn second_is_over(events: u64) {
    black_box(events);
}

fn main() {
    let (percent, per_second) = (option("--fits", 50), option("--per-second", 80_000));
    let dir = tempfile::tempdir().unwrap();
    let bytes = FILE_PAGES * PAGE_BYTES * percent / 100 + MARGIN_BYTES;
    let (fs, host) = machine(dir.path(), bytes);
    let tenant = fs.id(TENANT).unwrap();
    let kernel = Source::default();
    let source = Some(Box::new(kernel.clone()) as Box<dyn AccessSource>);
    let parts = Parts { fs, host, policies: None, source, managers: None };
    let config = KernelConfig::default();
    let curves = CurvesSettings::default().config((1024 - 512) * MIB);
    let mut node =
        KernelNode::with_parts(config, curves, &dir.path().join("state"), parts).unwrap();
    let mut reported = 0;
    for second in 0..option("--seconds", 40) {
        let mut took = 0.0;
        for tick in 0..TICKS_PER_SECOND {
            let first = second * per_second + per_second * tick / TICKS_PER_SECOND;
            let end = second * per_second + per_second * (tick + 1) / TICKS_PER_SECOND;
            kernel.read(tenant, reads(tenant, first, end));
            took += seconds(|| measured(&mut node, tick + 1 == TICKS_PER_SECOND)).0;
        }
        let now = kernel.reported();
        second_is_over(now - reported);
        println!("{second} {} {:.3}", now - reported, took * 1e3);
        reported = now;
    }
}
