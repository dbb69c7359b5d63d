// SPDX-License-Identifier: Apache-2.0
//! Curves of a thousand tenants, in a process of their own: what they take is what the node is
//! configured to have, by their own account and by that of the kernel.
#![allow(clippy::unwrap_used)]

#[path = "../benches/support/source.rs"]
mod source;

use cachepilot_agent::curves::{CurvesConfig, CurvesSettings};
use cachepilot_agent::node::kernel::sampling::Sampling;
use cachepilot_agent::node::kernel::tenant::found::Found;
use cachepilot_agent::wire;
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::Record;
use source::Source;
use std::time::Duration;

const TENANTS: u64 = 1000;
const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
/// What the allocator takes beside what it was asked for, as in `config::memory`.
const OVERHEAD: f64 = 1.25;

/// Each tenant of `tenants` reads so many random pages of some thousand of its own.
fn read(kernel: &Source, tenants: std::ops::Range<u64>, reads: u64, round: u64) {
    for cgroup in tenants {
        let accesses = (0..reads).map(|i| {
            let index = page_hash(cgroup << 32 | round << 16 | i) % 4000;
            Record { cgroup, inode: cgroup, index, ..Record::default() }
        });
        kernel.read(cgroup, accesses);
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn found(ids: std::ops::Range<u64>) -> Vec<Found> {
    ids.map(|id| Found { cgroup: format!("/{id}"), id, members: vec![id] }).collect()
}

/// A second in which `tenants` read, with a look at all; who has no curves for want of memory.
fn second(kernel: &Source, sampling: &mut Sampling, tenants: &[Found], round: u64) -> Vec<u64> {
    read(kernel, 1..TENANTS + 1, 400, round);
    sampling.tick(SECOND / 2).unwrap();
    sampling.begin_judging().unwrap();
    let mut refused = Vec::new();
    for tenant in tenants {
        let policy = wire::DEFAULT_POLICY.into();
        let mut shown = wire::Tenant { cgroup_id: tenant.id, policy, ..wire::Tenant::default() };
        sampling.tell_at(&mut shown, 8 * MIB);
        if shown.distrust.contains("node_memory_mib") {
            refused.push(tenant.id);
        }
    }
    refused
}

#[test]
fn a_thousand_tenants_share_the_memory_for_curves() {
    let settings = CurvesSettings { node_memory_mib: 64, ..CurvesSettings::default() };
    let config: CurvesConfig = settings.config(1 << 30);
    let (kernel, all) = (Source::default(), found(1..TENANTS + 1));
    let source = Box::new(kernel.clone());
    let mut sampling = Sampling::new(source, config.clone(), TENANTS as u32).unwrap();
    sampling.follow(&all);
    // What is there before the first of them learns.
    let before = resident_bytes();
    let mut refused = Vec::new();
    for round in 0..24 {
        refused = second(&kernel, &mut sampling, &all, round);
        let (bytes, resident) = (sampling.curves_bytes(), resident_bytes() - before);
        assert!(bytes <= config.node_bytes + config.node_bytes / 8, "{bytes} in round {round}");
        // Events that wait, the looks and the threads of this test.
        let most = (config.node_bytes as f64 * OVERHEAD) as u64 + 32 * MIB;
        assert!(resident <= most, "{} MiB in round {round}", resident / MIB);
    }
    let with = TENANTS as usize - refused.len();
    println!("{with} of {TENANTS} tenants have curves in {} MiB", sampling.curves_bytes() / MIB);
    assert!(with >= 16, "{with} tenants have curves");
    assert!(sampling.loss().untracked_tenants_total >= refused.len() as u64);
    let before = kernel.reported();
    read(&kernel, refused[0]..refused[0] + 1, 400, 0);
    assert_eq!(kernel.reported(), before, "nothing is sampled of those without curves");

    // Most of the others go: there is room for those that had none.
    let few = [all[0].clone(), all[refused[0] as usize - 1].clone()];
    sampling.follow(&few);
    let mut refused = vec![0];
    for round in 24..27 {
        refused = second(&kernel, &mut sampling, &few, round);
    }
    assert!(refused.is_empty(), "{refused:?}");
}
