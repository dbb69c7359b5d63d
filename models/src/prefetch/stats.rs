// SPDX-License-Identifier: Apache-2.0
//! Counts of a simulation of readahead.

/// Pages that were read before an application requested them, and their fate. `pages` is the sum of
/// the other counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// All pages read ahead.
    pub pages: u64,
    /// Pages accessed since.
    pub used: u64,
    /// Pages evicted without an access.
    pub wasted: u64,
    /// Pages that are cached and not accessed yet.
    pub pending: u64,
}

/// Counts of a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Pages that applications read.
    pub reads: u64,
    /// Pages that applications wrote. A write waits for no page, and nothing is read ahead for it.
    pub writes: u64,
    /// Pages read by applications that were not cached, so that the reader waited.
    pub misses: u64,
    /// Number of times that a reader waited. A read of many pages usually waits for all of them at
    /// once.
    pub waits: u64,
    /// Number of reads of the disk; each reads one run of consecutive pages.
    pub disk_reads: u64,
    /// Pages read from the disk: `misses` plus `ahead.pages`.
    pub disk_pages: u64,
    /// Pages read ahead, whether the policy or the kernel decided it.
    pub ahead: Ahead,
    /// Pages read ahead that the policy decided on; the kernel counts these.
    pub own: Ahead,
    /// Number of times that the policy was asked for a window.
    pub asked: u64,
    /// Number of those decisions that the policy left to the kernel.
    pub declined: u64,
}

impl PrefetchStats {
    /// Returns the share of read pages that were not cached, 0 to 1.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.reads.max(1) as f64
    }
}
