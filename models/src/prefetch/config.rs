// SPDX-License-Identifier: Apache-2.0
//! The machine of a simulation.

use crate::error::{Error, Result};
use crate::policy::{Candidate, InstanceConfig};
use std::collections::HashMap;
use std::sync::Arc;

/// Least capacity: a window is a quarter of it at most.
pub const MIN_CAPACITY_PAGES: u64 = 4;
/// Largest window of the kernel: 1 GiB.
const MAX_WINDOW_PAGES: u32 = 1 << 18;

/// How large files are, beyond which nothing is read ahead. A file has the pages that were accessed
/// in any case.
#[derive(Debug, Clone)]
pub enum FilePages {
    /// All files have so many pages.
    Every(u64),
    /// Pages by the key of the file.
    Each(Arc<HashMap<u64, u64>>),
}

impl FilePages {
    /// Pages of a file that is accessed at `index`.
    pub(super) fn of(&self, file: u64, index: u64) -> u64 {
        let known = match self {
            Self::Every(pages) => *pages,
            Self::Each(files) => files.get(&file).copied().unwrap_or(0),
        };
        known.max(index.saturating_add(1))
    }
}

/// The machine of a simulation.
#[derive(Debug, Clone)]
pub struct PrefetchConfig {
    /// The policy that evicts.
    pub eviction: Candidate,
    /// Capacity, candidates of a request, seed and tunables of what evicts.
    pub cache: InstanceConfig,
    /// Largest window of the kernel, `read_ahead_kb` of the device in pages.
    pub max_window_pages: u32,
    /// Sizes of files.
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
