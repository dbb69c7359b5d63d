// SPDX-License-Identifier: Apache-2.0
//! The cost of the agent itself, CPU time and memory, under the names that Prometheus clients use.

use super::encode::Families;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;
use std::mem::MaybeUninit;

const STATUS: &str = "/proc/self/status";

/// This process, read at every scrape.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families(encoder);
        if let Some(seconds) = cpu_seconds() {
            let cpu = ("process_cpu", "Processor time of the agent", Some(&Unit::Seconds));
            families.one_counter(cpu, seconds)?;
        }
        if let Some(bytes) = resident_bytes() {
            let memory = ("process_resident_memory", "Memory of the agent", Some(&Unit::Bytes));
            families.one_gauge(memory, bytes as f64)?;
        }
        Ok(())
    }
}

/// CPU time in user mode and in the kernel, of all threads.
fn cpu_seconds() -> Option<f64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel fills `usage`, which is large enough, or returns an error.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string(STATUS).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_costs_something() {
        let before = cpu_seconds().unwrap();
        let mut sum = 0_u64;
        while cpu_seconds().unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!((1 << 20..1 << 40).contains(&resident_bytes().unwrap()));
    }
}
