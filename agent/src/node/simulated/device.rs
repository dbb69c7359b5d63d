// SPDX-License-Identifier: Apache-2.0
//! A storage device: a first-come, first-served queue with several servers, a fixed time per read,
//! and a maximum number of reads begun per second.
//!
//! As every read takes the same time and reads arrive in order, the end of a read is known when it
//! arrives. It begins when the first server becomes free, but not before the spacing of the maximum
//! rate has passed since the read before it.

use super::config::DeviceConfig;
use crate::wire;
use std::collections::VecDeque;

const SECOND_NS: f64 = 1e9;

/// The device and its totals.
pub(super) struct Device {
    read_ns: u64,
    spacing_ns: u64,
    parallelism: usize,
    /// Ends of the last reads, in order, at most one per server.
    ends_ns: VecDeque<u64>,
    next_start_ns: u64,
    reads: u64,
    read_time_ns: u64,
}

impl Device {
    pub(super) fn new(config: &DeviceConfig) -> Self {
        Self {
            read_ns: (config.read_us * 1e3).round() as u64,
            // Rounded up, so that the rate never exceeds the maximum.
            spacing_ns: (SECOND_NS / f64::from(config.iops)).ceil() as u64,
            parallelism: config.parallelism as usize,
            ends_ns: VecDeque::new(),
            next_start_ns: 0,
            reads: 0,
            read_time_ns: 0,
        }
    }

    /// Submits a read that arrives now, and returns when it ends. `now_ns` must never decrease.
    pub(super) fn submit(&mut self, now_ns: u64) -> u64 {
        let free_ns = match self.ends_ns.len() < self.parallelism {
            true => 0,
            false => self.ends_ns.pop_front().unwrap_or(0),
        };
        let start_ns = now_ns.max(free_ns).max(self.next_start_ns);
        self.next_start_ns = start_ns + self.spacing_ns;
        let end_ns = start_ns + self.read_ns;
        self.ends_ns.push_back(end_ns);
        end_ns
    }

    /// Counts a read that has ended.
    pub(super) fn complete(&mut self, submitted_ns: u64, now_ns: u64) {
        self.reads += 1;
        self.read_time_ns += now_ns - submitted_ns;
    }

    pub(super) fn wire(&self) -> wire::Device {
        let servers = self.parallelism as f64 * SECOND_NS / self.read_ns as f64;
        wire::Device {
            capacity_iops: servers.min(SECOND_NS / self.spacing_ns as f64),
            idle_read_us: self.read_ns as f64 / 1e3,
            reads_total: self.reads,
            read_time_us_total: self.read_time_ns / 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn device(read_us: f64, parallelism: u32, iops: u32) -> Device {
        Device::new(&DeviceConfig { read_us, parallelism, iops })
    }

    #[test]
    fn an_idle_device_takes_the_time_of_a_read() {
        let mut device = device(100.0, 2, 1_000_000);
        assert_eq!(device.submit(5_000), 105_000);
        assert_eq!(device.submit(500_000), 600_000);
        device.complete(5_000, 105_000);
        let seen = device.wire();
        assert_eq!((seen.reads_total, seen.read_time_us_total), (1, 100));
        assert_eq!((seen.capacity_iops, seen.idle_read_us), (20_000.0, 100.0));
    }

    proptest! {
        #[test]
        fn never_more_at_once_nor_per_second_than_it_can(
            gaps in prop::collection::vec(0u64..200_000, 1..300),
            parallelism in 1u32..9,
            iops in 1_000u32..200_000,
        ) {
            let mut device = device(100.0, parallelism, iops);
            let mut now = 0;
            let mut ends = Vec::new();
            for gap in gaps {
                now += gap;
                let end = device.submit(now);
                prop_assert!(end >= now + 100_000);
                ends.push(end);
            }
            let spacing = 1e9 / f64::from(iops);
            for pair in ends.windows(2) {
                prop_assert!((pair[1] - pair[0]) as f64 >= spacing);
            }
            // The read `parallelism` places later begins when this one has ended.
            for window in ends.windows(parallelism as usize + 1) {
                prop_assert!(window[parallelism as usize] - 100_000 >= window[0]);
            }
        }
    }
}
