// SPDX-License-Identifier: Apache-2.0
//! The memory that the agent itself needs by its configuration, which service managers have to
//! allow.

use crate::bpf::layout::{COUNTS_BYTES, COUNTS_PART};
use crate::curves::CurvesSettings;
use crate::node::kernel::config::KernelConfig;

/// The program, its threads, the observation of every tenant, snapshots of at most 4 MiB that wait
/// to be sent, and the events of a second: measured with 1,000 tenants, rounded up.
const BASE_BYTES: u64 = 64 << 20;
/// Factor for what the allocator takes on top of the curves themselves.
const OVERHEAD: f64 = 1.25;

/// The most memory in bytes that an agent takes for this many tenants and CPUs, with the kernel
/// memory that is charged to it. A kernel that has policies counts by itself, so there is either
/// the memory of policies or that of the maps in which the sampler counts.
#[must_use]
pub fn most_bytes(curves: &CurvesSettings, kernel: &KernelConfig, tenants: u32, cpus: u64) -> u64 {
    let curves = ((curves.node_memory_mib << 20) as f64 * OVERHEAD) as u64;
    let policies = kernel.policy_memory_mib << 20;
    let either = policies.max(counts_bytes(tenants, cpus));
    BASE_BYTES + curves + u64::from(kernel.ring_bytes) + either
}

/// Memory in which the sampler's programs count, per tenant and CPU.
fn counts_bytes(tenants: u32, cpus: u64) -> u64 {
    let slots = u64::from(tenants.next_multiple_of(COUNTS_PART));
    slots * COUNTS_BYTES as u64 * cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;
    const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs");

    /// The value, in MiB, of the first line of a file that begins with `key`, ignoring leading
    /// spaces.
    fn mebibytes(file: &str, key: &str) -> u64 {
        let text = fs::read_to_string(format!("{CONFIGS}/{file}")).unwrap();
        let value = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
        let digits = value.trim_matches(|c: char| !c.is_ascii_digit());
        assert!(value.contains('M'), "{value}");
        digits.parse().unwrap()
    }

    #[test]
    fn shipped_memory_limits_fit_a_thousand_tenants_on_128_cpus() {
        let (curves, kernel) = (CurvesSettings::default(), KernelConfig::default());
        assert!(kernel.max_tenants >= 1000);
        let most = most_bytes(&curves, &kernel, 1000, 128).div_ceil(MIB);
        let high = mebibytes("systemd/cachepilot-agent.service", "MemoryHigh=");
        let max = mebibytes("systemd/cachepilot-agent.service", "MemoryMax=");
        let pod = mebibytes("kubernetes/agent.yaml", "limits: {memory: ");
        assert!(most <= high && high < max, "{most} MiB, MemoryHigh {high}, MemoryMax {max}");
        assert!(max <= most + most / 4, "MemoryMax {max} for {most} MiB");
        assert_eq!(pod, max);
    }

    #[test]
    fn memory_of_policies_is_part_of_the_sum_if_it_exceeds_that_of_counts() {
        let most = |policy_memory_mib| {
            let kernel = KernelConfig { policy_memory_mib, ..KernelConfig::default() };
            most_bytes(&CurvesSettings::default(), &kernel, 1000, 128)
        };
        assert_eq!(most(256) - most(128), 128 * MIB);
        assert_eq!(most(1), most(100), "the counts of a kernel without policies");
    }

    #[test]
    fn counts_follow_the_number_of_tenants() {
        assert_eq!(counts_bytes(0, 128), 0);
        assert_eq!(counts_bytes(1, 2), 16 * 904 * 2);
        assert_eq!(counts_bytes(1000, 128) / MIB, 111);
    }
}
