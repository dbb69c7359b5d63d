// SPDX-License-Identifier: Apache-2.0
//! The counters of a tenant, as in the protocol.

use crate::latency;
use crate::wire;

/// Time in which at least one operation waits: pressure stall information, `some`.
#[derive(Debug, Default)]
pub(super) struct StallClock {
    waiting: u32,
    since_ns: u64,
    total_ns: u64,
}

impl StallClock {
    pub(super) fn enter(&mut self, now_ns: u64) {
        if self.waiting == 0 {
            self.since_ns = now_ns;
        }
        self.waiting += 1;
    }

    pub(super) fn leave(&mut self, now_ns: u64) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.total_ns += now_ns - self.since_ns;
        }
    }

    fn total_us(&self, now_ns: u64) -> u64 {
        let open_ns = if self.waiting > 0 { now_ns - self.since_ns } else { 0 };
        (self.total_ns + open_ns) / 1000
    }
}

/// Totals since the tenant appeared.
pub(super) struct Counters {
    pub(super) accesses: u64,
    pub(super) misses: u64,
    pub(super) refaults: u64,
    pub(super) evictions: u64,
    pub(super) block_reads: u64,
    operations: u64,
    operation_ns: u64,
    cpu_ns: u64,
    latency: [u64; latency::LATENCY_BUCKETS],
    /// Time waiting for a read.
    pub(super) io: StallClock,
    /// Time waiting for a page that was evicted because memory was too small.
    pub(super) memory: StallClock,
}

impl Counters {
    pub(super) fn new() -> Self {
        Self {
            accesses: 0,
            misses: 0,
            refaults: 0,
            evictions: 0,
            block_reads: 0,
            operations: 0,
            operation_ns: 0,
            cpu_ns: 0,
            latency: [0; latency::LATENCY_BUCKETS],
            io: StallClock::default(),
            memory: StallClock::default(),
        }
    }

    /// Counts an operation that has ended: its duration, and the CPU time in it.
    pub(super) fn operation(&mut self, took_ns: u64, cpu_ns: u64) {
        self.operations += 1;
        self.cpu_ns += cpu_ns;
        self.operation_ns += took_ns;
        self.latency[latency::latency_bucket(took_ns)] += 1;
    }

    pub(super) fn wire(&self, now_ns: u64) -> wire::Counters {
        let buckets = self.latency.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        wire::Counters {
            accesses_total: self.accesses,
            misses_total: self.misses,
            refaults_total: self.refaults,
            evictions_total: self.evictions,
            readahead_pages_total: 0,
            mmap_accesses_total: 0,
            block_reads_total: self.block_reads,
            read_calls_total: self.operations,
            read_time_us_total: self.operation_ns / 1000,
            read_latency_total: self.latency[..buckets].to_vec(),
            memory_stall_us_total: self.memory.total_us(now_ns),
            io_stall_us_total: self.io.total_us(now_ns),
            cpu_time_us_total: Some(self.cpu_ns / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_time_and_not_the_sum_of_waits() {
        let mut stall = StallClock::default();
        stall.enter(1_000);
        stall.enter(2_000);
        assert_eq!(stall.total_us(5_000), 4);
        stall.leave(6_000);
        stall.leave(9_000);
        assert_eq!(stall.total_us(50_000), 8);
        stall.enter(60_000);
        assert_eq!(stall.total_us(61_000), 9);
    }

    #[test]
    fn operations_are_in_the_buckets_of_the_contract() {
        let mut counters = Counters::new();
        [900, 5_000, 5_500].into_iter().for_each(|ns| counters.operation(ns, 600));
        let seen = counters.wire(0);
        assert_eq!((seen.read_calls_total, seen.read_time_us_total), (3, 11));
        assert_eq!(seen.cpu_time_us_total, Some(1));
        // 5 us is 5 * 2^2 / 4, hence exponent 2 and quarter 1.
        assert_eq!(seen.read_latency_total, [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    }
}
