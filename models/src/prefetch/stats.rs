// SPDX-License-Identifier: Apache-2.0
//! What a simulation of readahead counts.

/// Pages that were read before they were asked for, and what became of them: `pages` is the sum of
/// the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ahead {
    /// All of them.
    pub pages: u64,
    /// Accessed since.
    pub used: u64,
    /// Evicted without an access.
    pub wasted: u64,
    /// Cached and not accessed yet.
    pub pending: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Pages that were read by applications.
    pub reads: u64,
    /// Pages that were written by them. A write waits for no page, and nothing is read ahead for it.
    pub writes: u64,
    /// Of the pages that were read, those that were not cached, which a reader waits for.
    pub misses: u64,
    /// How often a reader waited: a read of many pages mostly waits for all of them at once.
    pub waits: u64,
    /// Runs of pages that came from the disk in one piece.
    pub disk_reads: u64,
    /// Pages that came from the disk: `misses` and `ahead.pages`.
    pub disk_pages: u64,
    /// Pages read ahead, by whoever decided it.
    pub ahead: Ahead,
    /// Those among them that the policy decided, which are those that the kernel counts.
    pub own: Ahead,
    /// Decisions.
    pub asked: u64,
    /// Those that the policy left to the kernel.
    pub declined: u64,
}

impl PrefetchStats {
    /// Share of the reads that waited, 0 to 1.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.reads.max(1) as f64
    }
}
