// SPDX-License-Identifier: Apache-2.0
//! The accesses of one tenant in the order in which its operations make them, and the result of
//! each in the page cache.
//!
//! The n-th access belongs to the n-th turn, whichever operation has it, so the cache can serve a
//! block of accesses at once, ahead of time. A block is as long as the accesses of about a
//! millisecond. A new policy, limit or phase may take effect late by that much, and the resident
//! pages may be ahead of the counters by that much.

use super::cache::{Fate, PageCache};
use super::learning::Learning;
use crate::error::Result;
use crate::node::simulated::accesses::{Accesses, Phases};

const MAX_BLOCK: usize = 512;
/// A block that lasted less is followed by one twice as long.
const SHORT_NS: u64 = 500_000;
/// A block that lasted more is followed by one half as long.
const LONG_NS: u64 = 2_000_000;

/// Accesses and their results, without end.
pub(super) struct Stream {
    pub(super) phases: Phases,
    pub(super) cache: PageCache,
    pub(super) learning: Learning,
    block: Accesses,
    fates: Vec<Fate>,
    at: usize,
    length: usize,
    filled_ns: u64,
}

impl Stream {
    pub(super) fn new(phases: Phases, cache: PageCache, learning: Learning, now_ns: u64) -> Self {
        let (block, fates) = (Accesses::default(), Vec::new());
        Self { phases, cache, learning, block, fates, at: 0, length: 1, filled_ns: now_ns }
    }

    /// The result of the next access.
    #[inline]
    pub(super) fn next(&mut self, now_ns: u64) -> Result<Fate> {
        if self.at == self.fates.len() {
            self.refill(now_ns)?;
        }
        let fate = self.fates[self.at];
        self.at += 1;
        Ok(fate)
    }

    fn refill(&mut self, now_ns: u64) -> Result<()> {
        match now_ns - self.filled_ns {
            ..SHORT_NS => self.length = (self.length * 2).min(MAX_BLOCK),
            SHORT_NS..=LONG_NS => {}
            _ => self.length = (self.length / 2).max(1),
        }
        self.filled_ns = now_ns;
        self.phases.fill(now_ns, self.length, &mut self.block)?;
        self.cache.run(&self.block, &mut self.fates)?;
        self.at = 0;
        self.learning.feed(&self.block)
    }
}
