// SPDX-License-Identifier: Apache-2.0
//! Configuration of the machine that a simulation runs on.

use crate::error::{Error, Result};
use crate::policy::{Candidate, InstanceConfig};
use std::collections::HashMap;
use std::sync::Arc;

/// Smallest capacity, because a window is at most a quarter of it.
pub const MIN_CAPACITY_PAGES: u64 = 4;
/// Largest window of the kernel: 1 GiB.
const MAX_WINDOW_PAGES: u32 = 1 << 18;

/// File sizes, beyond which nothing is read ahead. A file has at least the pages that were
/// accessed.
#[derive(Debug, Clone)]
pub enum FilePages {
    /// All files have this many pages.
    Every(u64),
    /// Number of pages by file key.
    Each(Arc<HashMap<u64, u64>>),
}

impl FilePages {
    /// Returns the number of pages of a file that is accessed at `index`.
    pub(super) fn of(&self, file: u64, index: u64) -> u64 {
        let known = match self {
            Self::Every(pages) => *pages,
            Self::Each(files) => files.get(&file).copied().unwrap_or(0),
        };
        known.max(index.saturating_add(1))
    }
}

/// Configuration of a simulation.
#[derive(Debug, Clone)]
pub struct PrefetchConfig {
    /// The eviction policy.
    pub eviction: Candidate,
    /// Capacity, candidates per request, seed and tunables of the eviction policy.
    pub cache: InstanceConfig,
    /// Largest window of the kernel, `read_ahead_kb` of the device in pages.
    pub max_window_pages: u32,
    /// File sizes.
    pub file_pages: FilePages,
    /// Values of all tunables of the readahead policy.
    pub tunables: Vec<u32>,
}

impl PrefetchConfig {
    pub(super) fn check(&self, words: usize) -> Result<()> {
        let given = self.tunables.len();
        if given != words {
            return Err(Error::argument("tunables", format!("{given} values are not {words}")));
        }
        let capacity = self.cache.capacity_pages;
        if capacity < MIN_CAPACITY_PAGES {
            let message = format!("{capacity} pages are fewer than {MIN_CAPACITY_PAGES}");
            return Err(Error::argument("size", message));
        }
        let window = self.max_window_pages;
        if !(1..=MAX_WINDOW_PAGES).contains(&window) {
            let message = format!("{window} pages are not in 1..={MAX_WINDOW_PAGES}");
            return Err(Error::argument("window", message));
        }
        Ok(())
    }
}
